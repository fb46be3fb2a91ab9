"""The memory-optimal chain: a slice between any two neighbouring endpoints that some query covers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from millstream.model.interval import Interval
from millstream.plan import Plan
from millstream.plan.nodes import Member

SECOND = 1_000_000
JOIN = "SELECT A.k FROM A, B WHERE A.k = B.k"


def shown(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    return [(str(piece.interval), piece.queries) for piece in plan.chains[0].slices]


def covers(member: Member, lo: int, hi: int) -> bool:
    return member.interval.lo <= lo and hi <= member.interval.hi


def test_every_endpoint_cuts(planned: Callable[..., Plan]) -> None:
    plan = planned(f"{JOIN} WINDOW 1 SECOND", f"{JOIN} WINDOW A 5 SECONDS, B 1 SECOND", slicing="memory")
    assert shown(plan) == [("(-1 s, +1 s)", ("q1", "q2")), ("[+1 s, +5 s)", ("q2",))]


def test_strict_and_inclusive_ends_are_a_microsecond_apart(planned: Callable[..., Plan]) -> None:
    inclusive = f"{JOIN} AND abs(A.Ts - B.Ts) <= INTERVAL '1' SECOND"
    plan = planned(f"{JOIN} WINDOW 1 SECOND", inclusive, slicing="memory")
    assert [piece.interval for piece in plan.chains[0].slices] == [
        Interval(-SECOND, -SECOND + 1),
        Interval(-SECOND + 1, SECOND),
        Interval(SECOND, SECOND + 1),
    ]


def test_a_gap_no_query_needs_is_left_out(planned: Callable[..., Plan]) -> None:
    early = f"{JOIN} AND B.Ts BETWEEN A.Ts - INTERVAL '9' SECOND AND A.Ts - INTERVAL '5' SECOND"
    late = f"{JOIN} AND B.Ts BETWEEN A.Ts + INTERVAL '5' SECOND AND A.Ts + INTERVAL '9' SECOND"
    assert shown(planned(early, late, slicing="memory")) == [("[-9 s, -5 s]", ("q1",)), ("[+5 s, +9 s]", ("q2",))]


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 9)), min_size=1, max_size=6), st.integers(-20, 20))
def test_each_difference_lies_in_one_slice_that_serves_just_the_queries_that_cover_it(
    planned: Callable[..., Plan], spans: list[tuple[int, int]], d: int
) -> None:
    between = "B.Ts BETWEEN A.Ts + INTERVAL '{}' SECOND AND A.Ts + INTERVAL '{}' SECOND"
    selects = [f"{JOIN} AND {between.format(start, start + width)}" for start, width in spans]
    for slicing in ("memory", "cpu"):
        plan = planned(*selects, slicing=slicing)
        slices = [s for s in plan.chains[0].slices if s.interval.lo <= d * SECOND < s.interval.hi]
        wanted = {f"q{n}" for n, (start, width) in enumerate(spans, start=1) if start <= d <= start + width}
        assert len(slices) <= 1
        assert slices or not wanted
        served: set[str] = set()
        if slices:
            borders = sorted({slices[0].interval.lo, *slices[0].cuts, slices[0].interval.hi})
            lo, hi = next((lo, hi) for lo, hi in pairwise(borders) if lo <= d * SECOND < hi)
            members = [member for member in plan.members if member.name in slices[0].queries]
            # Pairs are routed at the cuts, so whoever begins or ends within a class would get pairs of others.
            assert all(
                member.interval.hi <= lo or member.interval.lo >= hi or covers(member, lo, hi) for member in members
            )
            served = {member.name for member in members if covers(member, lo, hi)}
        assert served == wanted
