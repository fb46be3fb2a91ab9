"""Late rows keep their columns, with what there is to say of them in columns of our own."""

from __future__ import annotations

import pyarrow as pa
import pytest

from millstream.engine.judge import Late
from millstream.pipeline.late import counts, told


def rows(*names: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: [1, 2] for name in names})


def test_the_reason_the_chains_and_the_text_come_last() -> None:
    late = Late("A", "does not parse", rows("k"), ("A B k = k", "A C k = k"), pa.array(["{", None]))
    assert told(late).to_pylist() == [
        {"k": 1, "_reason": "does not parse", "_chain": "A B k = k; A C k = k", "_text": "{"},
        {"k": 2, "_reason": "does not parse", "_chain": "A B k = k; A C k = k", "_text": None},
    ]
    bare = told(Late("A", "null time", rows("k")))
    assert bare.column("_chain").null_count == bare.column("_text").null_count == 2
    assert bare.schema.field("_text").type == pa.string()


@pytest.mark.parametrize(
    ("own", "added"),
    [
        (["_reason"], ["__reason", "_chain", "_text"]),
        (["_REASON", "__reason"], ["___reason", "_chain", "_text"]),
        (["_Text", "reason"], ["_reason", "_chain", "__text"]),
    ],
)
def test_a_column_of_the_users_own_keeps_its_name(own: list[str], added: list[str]) -> None:
    assert told(Late("A", "null time", rows(*own))).schema.names == [*own, *added]


def test_rows_are_counted_by_stream() -> None:
    assert counts([Late("A", "x", rows("k")), Late("B", "x", rows("k")), Late("A", "y", rows("k"))]) == {"A": 4, "B": 2}
    assert counts([]) == {}
