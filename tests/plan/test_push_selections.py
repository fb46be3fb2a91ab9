"""How long which tuples are kept (state-slice section 6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.plan import Plan, paper
from millstream.plan.nodes import LEFT, RIGHT, Chain, Lane

SECOND = 1_000_000
JOIN = "SELECT A.k FROM A, B WHERE A.k = B.k"


def lanes(chain: Chain, side: tuple[Lane, ...]) -> list[tuple[float, str]]:
    return [(lane.reach / SECOND, " AND ".join(sorted(chain.sql(p) for p in lane.condition))) for lane in side]


def test_the_motivating_example(planned: Callable[..., Plan]) -> None:
    plan = planned(f"{JOIN} WINDOW 60 SECONDS", f"{JOIN} AND A.v > 30 WINDOW 3600 SECONDS", slicing="memory")
    (chain,) = plan.chains
    assert lanes(chain, chain.kept[LEFT]) == [(3600, "A.v > 30"), (60, "")]
    assert lanes(chain, chain.kept[RIGHT]) == [(3600, "")]
    assert lanes(chain, chain.right_state.probing) == [(3600, "A.v > 30"), (60, "")]


def test_a_condition_that_says_no_more_than_one_before_it_is_left_out(planned: Callable[..., Plan]) -> None:
    plan = planned(
        f"{JOIN} AND A.v > 30 AND A.j = 'x' WINDOW 10 SECONDS",
        f"{JOIN} AND A.v > 30 WINDOW 20 SECONDS",
        f"{JOIN} AND A.j = 'x' WINDOW 5 SECONDS",
        slicing="memory",
    )
    (chain,) = plan.chains
    assert lanes(chain, chain.kept[LEFT]) == [(20, "A.v > 30"), (5, "A.j = 'x'")]
    assert [chain.sql(predicate) for predicate in chain.predicates(LEFT)] == ["A.j = 'x'", "A.v > 30"]


def test_the_same_predicate_written_differently_is_one(planned: Callable[..., Plan]) -> None:
    plan = planned(
        f"{JOIN} AND A.v > 30 AND (A.j = 'x' OR A.j = 'y') WINDOW 10 SECONDS",
        f"{JOIN} AND (A.j = 'y' OR A.j = 'x') AND 30 < A.v WINDOW 20 SECONDS",
        slicing="memory",
    )
    assert len(plan.chains[0].predicates(LEFT)) == 2
    assert len(plan.chains[0].left_state.waiting) == 1


def test_each_direction_has_its_own_reach(planned: Callable[..., Plan]) -> None:
    one_way = f"{JOIN} AND A.v > 1 AND B.Ts BETWEEN A.Ts AND A.Ts + INTERVAL '5' SECOND"
    (chain,) = planned(one_way, slicing="memory").chains
    assert lanes(chain, chain.kept[LEFT]) == [(pytest.approx(5, abs=1e-5), "A.v > 1")]
    assert chain.right_state.waiting == ()
    assert lanes(chain, chain.kept[RIGHT]) == [(pytest.approx(0, abs=1e-5), "")], "for rows out of order only"


def test_tuples_that_meet_only_much_earlier_ones_need_not_wait_for_the_watermark(planned: Callable[..., Plan]) -> None:
    ago = f"{JOIN} AND B.Ts BETWEEN A.Ts + INTERVAL '20' SECOND AND A.Ts + INTERVAL '30' SECOND"
    (chain,) = planned(ago).chains
    assert lanes(chain, chain.kept[LEFT]) == [(pytest.approx(30, abs=1e-5), "")]
    assert lanes(chain, chain.kept[RIGHT]) == [(pytest.approx(-20, abs=1e-5), "")]


def test_lanes_end_where_queries_do_however_slices_are_merged(planned: Callable[..., Plan]) -> None:
    selects = f"{JOIN} WINDOW 9 SECONDS", f"{JOIN} AND A.v > 30 WINDOW 10 SECONDS"
    (apart,) = planned(*selects, slicing="memory").chains
    (merged,) = planned(*selects, costs=paper(1e6)).chains
    assert (len(apart.slices), len(merged.slices)) == (3, 1)
    for chain in (apart, merged):
        assert lanes(chain, chain.kept[LEFT]) == [(10, "A.v > 30"), (9, "")]


def test_each_of_three_streams_is_kept_for_as_long_as_another_may_come(planned: Callable[..., Plan]) -> None:
    select = "SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.k = C.k"
    (chain,) = planned(
        f"{select} AND B.Ts BETWEEN A.Ts AND A.Ts + INTERVAL '5' SECOND"
        " AND C.Ts BETWEEN B.Ts AND B.Ts + INTERVAL '3' SECOND",
        f"{select} AND B.v > 1 WINDOW 7 SECONDS",
    ).chains
    assert lanes(chain, chain.kept[0]) == [(pytest.approx(8, abs=1e-5), "")]
    assert lanes(chain, chain.kept[1]) == [(7, "B.v > 1"), (pytest.approx(3, abs=1e-5), "")]
    assert lanes(chain, chain.kept[2]) == [(7, "")]
