"""state-slice, equations 1 to 4 and Figure 11: the four ways to run queries, against the printed formulas."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.lab.papers.state_slice.model import savings
from millstream.plan import Plan, paper
from millstream.plan.compare import Comparison, compare

JOIN = "SELECT A.k FROM A, B WHERE A.k = B.k"


def two_queries(planned: Callable[..., Plan], rate: float, w1: int, w2: int, s_sigma: float, keys: int) -> Comparison:
    selects = f"{JOIN} WINDOW {w1} MILLISECONDS", f"{JOIN} AND A.v > 5 WINDOW {w2} MILLISECONDS"
    shares = {"A.v > 5": s_sigma}
    plan = planned(*selects, rate_a=rate, rate_b=rate, keys=keys, shares=shares, costs=paper(0), slicing="memory")
    return compare(plan, plan.chains[0])


@settings(max_examples=100, deadline=None)
@given(st.floats(1, 1e4), st.integers(1, 10_000), st.integers(1, 10_000), st.floats(0.001, 0.999), st.integers(1, 500))
def test_equations_1_to_3(
    planned: Callable[..., Plan], rate: float, narrow: int, more: int, s_sigma: float, keys: int
) -> None:
    found = two_queries(planned, rate, narrow, narrow + more, s_sigma, keys)
    lam, w1, w2, s, j = rate, narrow / 1000, (narrow + more) / 1000, s_sigma, 1 / keys
    pull_up = 2 * lam**2 * w2 + 2 * lam + 2 * lam**2 * w2 * j + 2 * lam**2 * w2 * j
    push_down = (
        lam + 2 * (1 - s) * lam**2 * w1 + 2 * s * lam**2 * w2 + 3 * lam + 2 * s * lam**2 * w2 * j + 2 * lam**2 * w1 * j
    )
    sliced = 2 * lam**2 * w1 + lam + 2 * lam**2 * s * (w2 - w1) + 4 * lam + 2 * lam + 2 * lam**2 * j * w1
    assert found.pull_up.rows == pytest.approx(2 * lam * w2)
    assert found.push_down.rows == pytest.approx((2 - s) * lam * w1 + (1 + s) * lam * w2)
    assert found.state_sliced.rows == pytest.approx(2 * lam * w1 + (1 + s) * lam * (w2 - w1))
    assert found.pull_up.cost == pytest.approx(pull_up)
    assert found.push_down.cost == pytest.approx(push_down)
    assert found.state_sliced.cost == pytest.approx(sliced)


@pytest.mark.parametrize("keys", [40, 10, 2])
@pytest.mark.parametrize("s_sigma", [0.01, 0.2, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("rho", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_equation_4_and_the_surfaces_of_figure_11(
    planned: Callable[..., Plan], rho: float, s_sigma: float, keys: int
) -> None:
    """The paper leaves out terms linear in the rate, so the rate is taken so high that they vanish."""
    found = two_queries(planned, 1e9, round(10_000 * rho), 10_000, s_sigma, keys)
    mine = found.state_sliced
    measured = {
        "memory against pull-up": 1 - mine.rows / found.pull_up.rows,
        "memory against push-down": 1 - mine.rows / found.push_down.rows,
        "CPU against pull-up": 1 - mine.cost / found.pull_up.cost,
        "CPU against push-down": 1 - mine.cost / found.push_down.cost,
    }
    assert measured == pytest.approx(savings(rho, s_sigma, 1 / keys), rel=1e-6)
    assert all(saved > 0 for saved in measured.values())


def test_the_extremes_the_paper_names() -> None:
    assert savings(0.001, 0.001, 0.1)["memory against pull-up"] == pytest.approx(0.5, abs=0.01)
    assert savings(0.001, 0.001, 0.0001)["CPU against pull-up"] == pytest.approx(1.0, abs=0.01)
    without_selection = savings(0.5, 1.0, 0.1)
    assert without_selection["memory against pull-up"] == 0
    assert without_selection["CPU against pull-up"] > 0


def test_three_queries_of_section_7_2(planned: Callable[..., Plan]) -> None:
    """Q2 and Q3 share a selection: their slices hold the selected share of A and all of B."""
    selects = (
        f"{JOIN} WINDOW 10 SECONDS",
        f"{JOIN} AND A.v > 5 WINDOW 20 SECONDS",
        f"{JOIN} AND A.v > 5 WINDOW 30 SECONDS",
    )
    plan = planned(*selects, shares={"A.v > 5": 0.5}, costs=paper(0), slicing="memory")
    found = compare(plan, plan.chains[0])
    assert found.state_sliced.rows == pytest.approx(80 * (2 * 10 + 1.5 * 20))
    assert found.pull_up.rows == pytest.approx(80 * 2 * 30)
    assert found.push_down.rows == pytest.approx(80 * (1.5 * 10 + 1.5 * 30))
    assert found.unshared.rows == pytest.approx(80 * (2 * 10 + 1.5 * 20 + 1.5 * 30))


def test_without_selections_one_query_costs_the_same_every_way(planned: Callable[..., Plan]) -> None:
    plan = planned(f"{JOIN} AND B.Ts BETWEEN A.Ts - INTERVAL '3' SECOND AND A.Ts + INTERVAL '7' SECOND", costs=paper(0))
    found = compare(plan, plan.chains[0])
    costs = {way: getattr(found, way).cost for way in ("unshared", "pull_up", "push_down", "state_sliced")}
    assert costs == pytest.approx(dict.fromkeys(costs, costs["unshared"]))
    assert found.unshared.rows == pytest.approx(80 * 10, rel=1e-6)


def test_a_one_way_window_beyond_zero_still_holds_the_rows_it_waits_for(planned: Callable[..., Plan]) -> None:
    plan = planned(
        f"{JOIN} AND B.Ts BETWEEN A.Ts + INTERVAL '5' SECOND AND A.Ts + INTERVAL '10' SECOND", costs=paper(0)
    )
    found = compare(plan, plan.chains[0])
    assert found.state_sliced.left_rows == pytest.approx(80 * 10, rel=1e-6)
    assert found.state_sliced.right_rows == 0
    assert found.state_sliced.work.candidates + found.state_sliced.work.scanned == pytest.approx(80 * 80 * 5, rel=1e-6)


def test_selections_on_both_streams_split_both(planned: Callable[..., Plan]) -> None:
    selects = f"{JOIN} WINDOW 1 SECOND", f"{JOIN} AND A.v > 1 AND B.v > 3 WINDOW 9 SECONDS"
    plan = planned(*selects, shares={"A.v > 1": 0.1, "B.v > 3": 0.2}, costs=paper(0), slicing="memory")
    found = compare(plan, plan.chains[0])
    assert found.state_sliced.rows == pytest.approx(80 * (2 * 1 + 0.3 * 8))
    narrow = (0.9 + 0.8) + (0.9 + 0.2) + (0.1 + 0.8)
    assert found.push_down.rows == pytest.approx(80 * (narrow * 1 + (0.1 + 0.2) * 9))
