"""The CPU-optimal chain is never dearer, and the memory-optimal chain never larger, than any other way to merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain as chained
from itertools import combinations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.lab.papers.state_slice.model import figure_19, route_first
from millstream.lab.workloads.windows import TABLE_4, window_script
from millstream.plan import Costs, Plan, calibrated, paper
from millstream.plan.costs import Calibration
from millstream.plan.cut_slices import slices_at
from millstream.plan.estimate import Flow, estimate, flows, part_of, span_of
from millstream.plan.explain import as_json
from millstream.plan.nodes import LEFT, RIGHT, Chain
from millstream.plan.push_selections import push

PREDICATES = ("A.v > 1", "A.v > 2", "B.v > 3", "B.j = 'x'")


def every_merge(chain: Chain) -> Iterator[Chain]:
    """All ways to drop cuts between neighbouring slices of a memory-optimal chain."""
    los = [piece.interval.lo for piece in chain.slices]
    his = [piece.interval.hi for piece in chain.slices]
    inner = sorted(set(los) & set(his))
    outer = {*los, *his} - set(inner)
    for kept in chained.from_iterable(combinations(inner, size) for size in range(len(inner) + 1)):
        yield push(replace(chain, slices=slices_at(chain, sorted({*outer, *kept}))))


@st.composite
def windows(draw: st.DrawFn) -> list[str]:
    """Up to eight windows on one side, or up to four on both, some behind selections."""
    two_sided = draw(st.booleans())
    spans = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4 if two_sided else 8, unique=True))
    selects = []
    for seconds in spans:
        chosen = draw(st.lists(st.sampled_from(PREDICATES), max_size=2, unique=True))
        condition = "".join(f" AND {predicate}" for predicate in chosen)
        start = draw(st.integers(0, seconds - 1))
        one_way = f" AND B.Ts >= A.Ts + INTERVAL '{start}' SECOND AND B.Ts < A.Ts + INTERVAL '{seconds}' SECOND"
        window = f" WINDOW {seconds} SECONDS" if two_sided else one_way
        selects.append(f"SELECT A.k FROM A, B WHERE A.k = B.k{condition}{window}")
    return selects


prices = st.one_of(
    st.builds(paper, st.floats(0, 200)),
    st.builds(lambda c_sys: paper(c_sys, route_first), st.floats(0, 200)),
    st.builds(
        lambda search, route, cut: calibrated(Calibration(search_step=search, route=route, route_cut=cut)),
        st.floats(1, 100),
        st.floats(0.1, 50),
        st.floats(0.01, 10),
    ),
)


@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    selects=windows(),
    costs=prices,
    rate_a=st.floats(1, 500),
    rate_b=st.floats(1, 500),
    keys=st.integers(2, 1000),
    share=st.floats(0.01, 0.99),
)
def test_no_other_way_to_merge_is_cheaper_or_smaller(
    planned: Callable[..., Plan],
    selects: list[str],
    costs: Costs,
    rate_a: float,
    rate_b: float,
    keys: int,
    share: float,
) -> None:
    given_streams = {"rate_a": rate_a, "rate_b": rate_b, "keys": keys, "costs": costs}
    shares = dict.fromkeys(PREDICATES, share)
    small = planned(*selects, shares=shares, **given_streams, slicing="memory")
    fast = planned(*selects, shares=shares, **given_streams)
    least_rows = estimate(small, small.chains[0]).rows
    least_cost = estimate(fast, fast.chains[0]).cost
    others = [estimate(small, other) for other in every_merge(small.chains[0])]
    assert least_cost == pytest.approx(min(other.cost for other in others), rel=1e-9)
    assert least_rows == pytest.approx(min(other.rows for other in others), rel=1e-9)


def slowdown(plan: Plan, chain: Chain) -> float:
    """How much longer all queries wait than they would alone, until the slices up to their ends are done, in each
    direction.
    """
    total = 0.0
    for flow, side in zip(flows(plan, chain), (LEFT, RIGHT), strict=True):

        def cost(span: tuple[int, int], cuts: list[int], flow: Flow = flow) -> float:
            return float(plan.costs.price(flow.slice_work(part_of(span, cuts, flow), plan.costs)))

        spans = [span for member in chain.members if (span := span_of(member.interval, side))]
        for piece in chain.slices:
            span = span_of(piece.interval, side)
            if span is not None:
                cuts = [cut for cut in piece.cuts if cut > 0] if side == LEFT else [1 - c for c in piece.cuts if c < 0]
                taken = cost(span, sorted(cuts))
                total += sum(taken / cost(one, []) for one in spans if one[1] > span[0])
    return total


@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(selects=windows(), costs=prices, rate=st.floats(1, 500), keys=st.integers(2, 1000))
def test_with_a_budget_no_other_way_to_merge_answers_sooner(
    planned: Callable[..., Plan], selects: list[str], costs: Costs, rate: float, keys: int
) -> None:
    given_streams = {"rate_a": rate, "keys": keys, "costs": costs}
    plan = planned(*selects, **given_streams, budget="1 second")
    small = planned(*selects, **given_streams, slicing="memory")
    others = [slowdown(plan, other) for other in every_merge(small.chains[0])]
    assert slowdown(plan, plan.chains[0]) == pytest.approx(min(others), rel=1e-9)


def test_a_scan_is_not_done_once_for_every_slice(planned: Callable[..., Plan]) -> None:
    """It looks at whole segments, so slices of their own cost it more than routing; nor is a search for nothing where
    there is no key.
    """
    selects = [f"SELECT A.k FROM A, B WHERE A.k {{}} B.k WINDOW {seconds} SECONDS" for seconds in (10, 20, 30)]
    keyed = planned(*(select.format("=") for select in selects), rate_a=10_000, rate_b=0.1, keys=1_000)
    assert keyed.chains[0].access.left == "scan"
    unkeyed = planned(*(select.format("<") for select in selects), rate_a=0.01, rate_b=0.01)
    assert [len(plan.chains[0].slices) for plan in (keyed, unkeyed)] == [1, 1]


def test_a_symmetric_workload_is_merged_symmetrically() -> None:
    plan = compile_script(window_script(TABLE_4["Mostly-Small"]), costs=paper(20))
    intervals = [piece.interval for piece in plan.chains[0].slices]
    assert intervals == sorted(interval.mirrored() for interval in intervals)


@pytest.mark.parametrize("name", TABLE_4)
def test_table_4_in_memory_optimal_slices(name: str, golden: Callable[[str, str], None]) -> None:
    plan = compile_script(window_script(TABLE_4[name]), settings={"slicing": "memory"})
    slices = plan.chains[0].slices
    assert len({piece.queries for piece in slices}) == 12
    assert len(slices) == 23
    golden(f"table_4_{name.lower()}_memory.json", as_json(plan))


@pytest.mark.parametrize("name", TABLE_4)
def test_table_4_in_cpu_optimal_slices(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"table_4_{name.lower()}_cpu.json", as_json(compile_script(window_script(TABLE_4[name]))))


def test_table_4_under_every_cost(golden: Callable[[str, str], None]) -> None:
    golden("merge_slices.txt", "\n".join(figure_19()))
