"""Types and columns of the model as Arrow sees them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from millstream.engine.arrow import arrow_schema, arrow_type, conform, microseconds
from millstream.errors import ScriptError
from millstream.model import types
from millstream.model.stream import Stream, StreamColumn
from millstream.model.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, DataType, Field

STREAM = Stream("S", (StreamColumn("k", INT), StreamColumn("v", DOUBLE), StreamColumn("Ts", TIMESTAMP)), "Ts")


@pytest.mark.parametrize("name", types.PLAIN)
def test_every_plain_type_has_one_of_arrow(name: str) -> None:
    assert isinstance(arrow_type(types.simple(name)), pa.DataType)


def test_types_with_parts() -> None:
    struct = DataType("STRUCT", fields=(Field("x", INT), Field("list", DataType("ARRAY", parts=(STRING,)))))
    assert arrow_type(struct) == pa.struct([("x", pa.int32()), ("list", pa.list_(pa.string()))])
    assert arrow_type(DataType("MAP", parts=(STRING, BIGINT))) == pa.map_(pa.string(), pa.int64())
    assert arrow_type(types.decimal(7, 3)) == pa.decimal128(7, 3)


def test_a_schema_has_the_declared_columns() -> None:
    assert arrow_schema(STREAM) == pa.schema(
        [("k", pa.int32()), ("v", pa.float64()), ("Ts", pa.timestamp("us", "UTC"))]
    )


def rows(**columns: Any) -> pa.Table:
    return pa.table({"k": [1, 2], "v": [0.5, None], "Ts": pa.array([5, 6]).view(pa.timestamp("us", "UTC")), **columns})


def test_rows_conform_to_what_is_declared() -> None:
    """Columns by name, whatever the case of letters, in the declared order and types; others are left out."""
    given = rows(extra=["a", "b"]).rename_columns(["K", "V", "ts", "extra"]).select(["extra", "ts", "V", "K"])
    found = conform(STREAM, given)
    assert found.schema == arrow_schema(STREAM)
    assert found.select(["k", "v"]).to_pydict() == {"k": [1, 2], "v": [0.5, None]}
    assert conform(STREAM, found).equals(found)


def test_a_missing_column_is_told() -> None:
    with pytest.raises(ScriptError, match=r'rows of S have no column "v"; they have k, Ts'):
        conform(STREAM, rows().drop_columns(["v"]))


@pytest.mark.parametrize("column", [[2**40, 1], ["x", "y"], [[1], [2]], [Decimal("1.5"), None]])
def test_rows_that_do_not_fit_are_told(column: list[Any]) -> None:
    with pytest.raises(ScriptError, match=r"S\.k holds .*; it is declared as int32"):
        conform(STREAM, rows(k=column))


def test_times_as_integers() -> None:
    assert microseconds(pa.array([5, -6]).view(pa.timestamp("us", "UTC"))).tolist() == [5, -6]
