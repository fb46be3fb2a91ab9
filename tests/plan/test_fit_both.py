"""window-cost, equation 14: work and memory are both short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from millstream.plan.allot import shrink
from millstream.plan.fit_both import both_rate, fit_both
from millstream.plan.load import Load, QueryDemand, StreamRate

FIGURE_10 = {"service": 10.0, "memory": 100.0, "selectivity": 0.01}


def load(window: float, rates: tuple[float, float] = (80, 20), *, pair_cost: float = 0.0) -> Load:
    query = QueryDemand("q", ("A", "B"), ((0, window), (0, window)), 0.01)
    streams = (StreamRate("A", rates[0]), StreamRate("B", rates[1]))
    return Load(streams=streams, queries=(query,), capacity=10, memory=100, pair_cost=pair_cost)


def test_figure_11_has_two_maxima_and_two_minima() -> None:
    corners = {(x, a): both_rate(x, a, **FIGURE_10) for x in (0, 1) for a in (0, 100)}
    assert corners == pytest.approx({(0, 0): 0, (0, 100): 10, (1, 0): 10, (1, 100): 0})
    inside = [both_rate(x, a, **FIGURE_10) for x in np.linspace(0.01, 0.99, 50) for a in np.linspace(0, 100, 51)]
    assert 0 < max(inside) < 10
    assert both_rate(0.5, 50, **FIGURE_10) == 5


@pytest.mark.parametrize("rates", [(10, 10), (80, 20), (20, 80)])
def test_long_windows_come_near_to_selectivity_x_service_x_memory(rates: tuple[float, float]) -> None:
    fit = fit_both(load(10_000, rates))
    assert 9.95 <= fit.results <= 10
    memory = {
        name: reach * share * rate
        for (name, reach), share, rate in zip(fit.reaches.items(), fit.shares.values(), rates, strict=True)
    }
    most, least = max(memory, key=memory.__getitem__), min(memory, key=memory.__getitem__)
    assert memory[most] == pytest.approx(100, rel=0.01)
    assert fit.shares[most] * load(1, rates).rates[most] < fit.shares[least] * load(1, rates).rates[least]


@pytest.mark.parametrize("pair_cost", [0.0, 0.5])
@pytest.mark.parametrize("window", [5, 20, 60])
def test_no_shares_of_a_grid_with_their_best_reaches_give_more(window: float, pair_cost: float) -> None:
    given = load(window, pair_cost=pair_cost)
    fit = fit_both(given)
    kept = given.kept(fit.shares).within(fit.reaches)
    assert kept.work <= given.capacity * (1 + 1e-6)
    assert kept.bytes <= given.memory * (1 + 1e-6)
    assert kept.results == pytest.approx(fit.results)
    best = 0.0
    for a in np.linspace(0.1, 9.9, 50):
        for b in np.linspace(0.1, 10 - a, 25):
            some = given.kept({"A": a / 80, "B": b / 20})
            some = some.within(shrink(some))
            if some.work <= given.capacity:
                best = max(best, some.results)
    assert fit.results >= 0.99 * best


def test_enough_of_one_is_the_other_alone() -> None:
    short = load(60)
    assert fit_both(replace(short, capacity=1e9)).reaches == shrink(short)
    assert fit_both(replace(short, memory=1e9)).shares == pytest.approx({"A": 5 / 80, "B": 5 / 20}, rel=0.05)
