"""Queries in canonical form: the same query gives the same member, however it is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.errors import NotSupportedYet, ScriptErrors
from millstream.model.interval import Interval
from millstream.plan import Plan

SECOND = 1_000_000


def test_streams_stand_in_the_order_of_their_names(planned: Callable[..., Plan]) -> None:
    plan = planned("SELECT A.k FROM B, A WHERE B.k = A.k AND A.Ts BETWEEN B.Ts AND B.Ts + INTERVAL '5' SECOND")
    (member,) = plan.members
    assert member.order == (1, 0)
    assert [stream.name for stream in member.streams] == ["A", "B"]
    assert member.interval == Interval.between(-5 * SECOND, 0)


def test_predicates_follow_their_stream(planned: Callable[..., Plan]) -> None:
    straight = planned("SELECT A.k FROM A, B WHERE A.k = B.k AND A.v > 5 AND A.v < B.v WINDOW 1 SECOND").members[0]
    turned = planned("SELECT A.k FROM B, A WHERE B.k = A.k AND 5 < A.v AND B.v > A.v WINDOW 1 SECOND").members[0]
    assert (straight.left, straight.right, straight.residual) == (turned.left, turned.right, turned.residual)
    assert straight.left
    assert not straight.right


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x.Ts BETWEEN y.Ts AND y.Ts + INTERVAL '5' SECOND", "y.Ts BETWEEN x.Ts AND x.Ts + INTERVAL '5' SECOND"),
        ("x.Ts > y.Ts AND x.Ts < y.Ts + INTERVAL '1' DAY", "y.Ts > x.Ts AND y.Ts < x.Ts + INTERVAL '1' DAY"),
    ],
)
def test_a_stream_joined_with_itself_has_the_later_tuple_on_the_right(
    planned: Callable[..., Plan], one: str, other: str
) -> None:
    first, second = planned(*(f"SELECT x.k FROM A x, A y WHERE x.k = y.k AND {time}" for time in (one, other))).members
    assert first.interval == second.interval
    assert first.interval.hi > 1


def test_a_self_join_on_different_columns_is_oriented_by_its_key(planned: Callable[..., Plan]) -> None:
    plan = planned(
        "SELECT x.k FROM A x, A y WHERE x.k = y.v WINDOW 1 SECOND",
        "SELECT x.k FROM A x, A y WHERE y.k = x.v WINDOW 1 SECOND",
    )
    assert len({member.signature for member in plan.members}) == 1


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 100 ROWS", "ROWS"),
    ],
)
def test_what_cannot_run_yet_is_said_plainly(planned: Callable[..., Plan], select: str, words: str) -> None:
    with pytest.raises(ScriptErrors) as caught:
        planned(select)
    (error,) = caught.value.errors
    assert isinstance(error, NotSupportedYet)
    assert words in error.found
    assert "not supported yet" in error.found
    assert error.where.query == "q1"
