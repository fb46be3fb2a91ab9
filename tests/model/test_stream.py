"""A stream checks itself where it is made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millstream.errors import ScriptError
from millstream.model import Stream, StreamColumn
from millstream.model.types import INT, TIMESTAMP

GOOD = Stream("S", (StreamColumn("Id", INT), StreamColumn("Ts", TIMESTAMP)), "Ts")


def test_columns_are_found_whatever_their_case() -> None:
    assert GOOD.column("id") == GOOD.columns[0]
    assert GOOD.find("TS") == GOOD.columns[1]
    assert GOOD.find("other") is None


def test_the_time_column_goes_by_its_declared_name() -> None:
    assert replace(GOOD, time="tS").time == "Ts"


@pytest.mark.parametrize("name", ["a\x01b", "\x1f", "a\nb", "a\x7f", "\ud800", ""])
def test_control_characters_are_not_for_columns(name: str) -> None:
    with pytest.raises(ScriptError, match="a column's name has no control characters"):
        StreamColumn(name, INT)


@pytest.mark.parametrize("name", ["first name", "a.b", "`", '"', "'", "größe", "温度", "🌡️", "select", "__code"])
def test_columns_may_be_called_anything_else(name: str) -> None:
    assert replace(GOOD, columns=(*GOOD.columns, StreamColumn(name, INT))).column(name).name == name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a b"}, '"a b" cannot be the name of a stream'),
        ({"name": "../up"}, "cannot be the name of a stream"),
        ({"name": "x" * 129}, "cannot be the name of a stream"),
        ({"columns": ()}, "stream S has no columns"),
        ({"columns": (*GOOD.columns, StreamColumn("ID", INT))}, 'column "ID" stands twice'),
        ({"time": "Tss"}, 'no column "Tss" in S; it has Id, Ts. Did you mean "Ts"?'),
        ({"time": "Id"}, 'the time column "Id" of S is INT'),
        ({"delay": -1}, "delay is -1 us; delay must be zero or more"),
        ({"idle": 0}, "idle is 0 s; idle must be more than zero"),
        ({"rate": 0.0}, "rate is 0; rate must be more than zero"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"rate": float("inf")}, "rate is inf"),
        ({"keys": 0}, "keys is 0; keys must be one or more"),
        ({"keys": 2**63}, "keys must be one or more, and at most"),
    ],
)
def test_a_wrong_stream_cannot_be_made(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ScriptError) as caught:
        replace(GOOD, **changes)
    assert message in str(caught.value)
