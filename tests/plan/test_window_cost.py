"""window-cost, equations 2 to 8, with the numbers the paper prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.plan import calibrated
from millstream.plan.window_cost import (
    AccessCosts,
    Window,
    cheaper_access,
    cheaper_by_prices,
    crossing,
    engine_crossing,
    full_cost,
    index_cost,
    scan_cost,
)

C_N, C_H = 0.5, 0.65
COSTS = AccessCosts(scan=C_N, index=C_H)
positive = st.floats(0.5, 1000)


@given(positive, positive, positive, st.floats(2, 1000))
def test_one_way_costs(rate_a: float, rate_b: float, seconds: float, keys: float) -> None:
    state = Window(rate_b, seconds, keys)
    rows = rate_b * seconds
    assert scan_cost(rate_a, state, COSTS) == pytest.approx((rate_a * rows + 2 * rate_b) * C_N)
    assert index_cost(rate_a, state, COSTS) == pytest.approx((rate_a * rows / keys + rate_b * (rows / keys + 1)) * C_H)
    by_selectivity = (rate_a * rows / keys + rate_b * rows / keys + rate_b) * C_H
    assert index_cost(rate_a, state, COSTS) == pytest.approx(by_selectivity)


@given(positive, positive, positive, positive, st.floats(2, 1000), st.floats(2, 1000))
def test_full_joins(ra: float, rb: float, ta: float, tb: float, ka: float, kb: float) -> None:
    a, b = Window(ra, ta, ka), Window(rb, tb, kb)
    hhj = (ra + rb) * (tb * rb / kb) * C_H + (ra + rb) * (ta * ra / ka) * C_H + (ra + rb) * C_H
    nnj = ra * (tb * rb + 2) * C_N + rb * (ta * ra + 2) * C_N
    hnj = ra * (tb * rb * C_N + ta * ra / ka * C_H + C_H) + rb * (ta * ra / ka * C_H + 2 * C_N)
    assert full_cost(a, b, "index", "index", COSTS) == pytest.approx(hhj)
    assert full_cost(a, b, "scan", "scan", COSTS) == pytest.approx(nnj)
    assert full_cost(a, b, "index", "scan", COSTS) == pytest.approx(hnj)
    assert full_cost(a, b, "scan", "index", COSTS) == pytest.approx(full_cost(b, a, "index", "scan", COSTS))


def test_index_and_scan_cross_at_6_7_for_ten_keys_and_a_ratio_of_1_3() -> None:
    assert crossing(keys=10, ratio=1.3) == pytest.approx(6.7, abs=0.01)
    assert cheaper_access(10, 66, keys=10, ratio=1.3) == "index"
    assert cheaper_access(10, 67, keys=10, ratio=1.3) == "scan"
    assert cheaper_access(10, 100, keys=10, ratio=1.3) == "scan"


@pytest.mark.parametrize(("keys", "near"), [(10, 70), (20, 140)])
def test_figures_2_and_3_hhj_loses_to_hnj_near_the_printed_rates(keys: int, near: float) -> None:
    """The full formulas cross near the rate that equation 7 predicts after leaving out small terms."""
    a = Window(10, 60, keys)

    def hnj_wins(rate: float) -> bool:
        b = Window(rate, 60, keys)
        return full_cost(a, b, "index", "scan", COSTS) < full_cost(a, b, "index", "index", COSTS)

    turning = next(rate for rate in range(10, 400) if hnj_wins(rate))
    assert turning == pytest.approx(near, rel=0.1)


def test_the_papers_example_of_section_4_2() -> None:
    assert cheaper_access(5, 45, keys=10, ratio=1.3) == "scan"
    assert cheaper_access(5, 45, keys=20, ratio=1.3) == "index"


@given(positive, positive, st.floats(2, 1000), st.floats(1.01, 10))
def test_the_determinant_agrees_with_the_costs_where_windows_are_long(
    probe: float, state_rate: float, keys: float, ratio: float
) -> None:
    """Equation 8 drops constants that vanish as the window grows."""
    state, costs = Window(state_rate, 1e9, keys), AccessCosts(1.0, ratio)
    scan, index = scan_cost(probe, state, costs), index_cost(probe, state, costs)
    if abs(scan - index) > 1e-3 * max(scan, index):
        assert cheaper_access(probe, state_rate, keys, ratio) == ("scan" if scan < index else "index")


def test_the_crossing_of_the_engine_is_where_its_two_costs_are_equal() -> None:
    prices = calibrated().prices
    state = Window(5_000, 60, 1_000)
    rate = engine_crossing(state, prices)
    index = state.rate * prices.inserts
    scan = state.rate * prices.appends + rate * state.rows * (prices.scanned + prices.found / state.keys)
    assert scan == pytest.approx(index)
    assert engine_crossing(Window(7, 60, 1_000), prices) == pytest.approx(rate), "the rate of the state cancels out"
    assert cheaper_by_prices(rate * 1.01, state, prices) == "index"
    assert cheaper_by_prices(rate * 0.99, state, prices) == "scan"
    assert cheaper_by_prices(1e9, Window(5_000, 0, 1_000), prices) == "scan", "what nothing meets is only appended"
