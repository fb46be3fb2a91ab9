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


def test_what_cannot_run_yet_is_said_plainly(planned: Callable[..., Plan]) -> None:
    with pytest.raises(ScriptErrors) as caught:
        planned("SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 100 ROWS")
    (error,) = caught.value.errors
    assert isinstance(error, NotSupportedYet)
    assert "ROWS is not supported yet" in error.found
    assert error.where.query == "q1"


BEFORE = "A.Ts BETWEEN B.Ts AND B.Ts + INTERVAL '5' SECOND AND C.Ts BETWEEN B.Ts AND B.Ts + INTERVAL '2' SECOND"


@pytest.mark.parametrize("order", ["A, B, C", "A, C, B", "B, A, C", "B, C, A", "C, A, B", "C, B, A"])
@pytest.mark.parametrize("keys", ["A.k = B.k AND B.k = C.k", "C.k = A.k AND C.k = B.k", "B.k = A.k AND C.k = A.k"])
def test_three_streams_joined_alike_share_a_chain_however_they_are_written(
    planned: Callable[..., Plan], order: str, keys: str
) -> None:
    selects = (
        f"SELECT A.k FROM A, B, C WHERE A.k = B.k AND A.k = C.k AND A.v < C.v AND C.v > 3 AND {BEFORE}",
        f"SELECT A.k FROM {order} WHERE {keys} AND C.v > A.v AND 3 < C.v AND {BEFORE}",
    )
    one, other = planned(*selects).members
    assert one.signature == other.signature
    assert (one.conditions, one.residual, one.bounds) == (other.conditions, other.residual, other.bounds)
    assert one.bound(1, 0) == Interval.between(0, 5 * SECOND)
    assert one.bound(0, 1) == Interval.between(-5 * SECOND, 0)
    assert one.bound(1, 2) == Interval.between(0, 2 * SECOND)
    assert one.bound(0, 2) == Interval.between(-5 * SECOND, 2 * SECOND), "which follows from the others"
    assert [one.reach(position) for position in range(3)] == [2 * SECOND + 1, 5 * SECOND + 1, 5 * SECOND + 1]
    assert one.interval == Interval(0, 5 * SECOND + 1), "how far apart the rows of a result can be"


def test_a_stream_joined_with_itself_twice_is_ordered_by_its_keys(planned: Callable[..., Plan]) -> None:
    first, second = planned(
        "SELECT x.k FROM A x, A y, B WHERE x.k = B.k AND y.j = B.j WINDOW 1 SECOND",
        "SELECT y.k FROM B, A x, A y WHERE y.k = B.k AND x.j = B.j WINDOW 2 SECONDS",
    ).members
    assert first.signature == second.signature
    assert [stream.name for stream in first.streams] == ["A", "A", "B"]
    assert first.order.index(0) == second.order.index(2), "what one calls x, the other calls y"


def test_a_stream_joined_with_itself_a_dozen_times_is_planned_at_once(planned: Callable[..., Plan]) -> None:
    names = [f"x{number}" for number in range(12)]
    joined = " AND ".join(f"x0.k = {name}.k" for name in names[1:])
    plan = planned(f"SELECT x0.k FROM {', '.join(f'A {name}' for name in names)} WHERE {joined} WINDOW 1 SECOND")
    (chain,) = plan.chains
    assert len(chain.streams) == 12
    assert len({pool for _, pool in chain.read_at()}) == 1, "it is kept once"
