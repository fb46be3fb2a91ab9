"""A query checks itself where it is made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millstream.errors import ScriptError
from millstream.model import (
    Bound,
    Call,
    Column,
    Interval,
    Key,
    Literal,
    Output,
    Query,
    RowsWindow,
    Source,
    Stream,
    StreamColumn,
    TimeWindow,
)
from millstream.model.types import BOOLEAN, INT, TIMESTAMP

STREAM = Stream("S", (StreamColumn("Id", INT), StreamColumn("Ts", TIMESTAMP)), "Ts")
LEFT, RIGHT = Column(0, "Id", INT), Column(1, "Id", INT)
GOOD = Query(
    "q",
    (Source("a", STREAM), Source("b", STREAM)),
    (Key(LEFT, RIGHT, INT),),
    ((), ()),
    (),
    TimeWindow((Bound(0, 1, Interval.window(5)),)),
    (Output("Id", LEFT),),
)


def above(column: Column) -> Call:
    return Call(">", (column, Literal(3, INT)), BOOLEAN)


def test_a_selection_looks_at_its_own_source() -> None:
    assert replace(GOOD, selections=((above(LEFT),), (above(RIGHT),))).selections[1] == (above(RIGHT),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a b"}, "cannot be the name of a query"),
        ({"sources": GOOD.sources[:1], "selections": ((),)}, "query q reads one stream"),
        ({"selections": ((),)}, "query q has 1 selections"),
        ({"selections": ((above(RIGHT),), ())}, "a selection on a looks elsewhere"),
        ({"selections": ((LEFT,), ())}, "looks elsewhere or is INT"),
        ({"outputs": (Output("x", LEFT), Output("X", RIGHT))}, "two result columns are named"),
    ],
)
def test_a_wrong_query_cannot_be_made(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        replace(GOOD, **changes)


@pytest.mark.parametrize("rows", [(0, 5), (5, -1)])
def test_a_window_holds_a_row_at_least(rows: tuple[int, int]) -> None:
    with pytest.raises(ScriptError, match="ROWS holds nothing"):
        RowsWindow(rows)
