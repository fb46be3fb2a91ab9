"""window-cost, Figures 8 to 11 on the engine, smaller than the command runs them, and the ways they compare."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.lab.papers.window_cost import allot, both, regulate
from millstream.lab.papers.window_cost.measured import Streams, apart, joined, measure
from millstream.lab.papers.window_cost.run import FIGURES
from millstream.lab.papers.window_cost.seven import OURS, QUERIES, Workload
from millstream.lab.papers.window_cost.ways import in_proportion, memory_by, one_after_another, rates_by

SMALL = Streams(rates={"A": 200.0, "B": 100.0}, keys={"A": 40, "B": 20}, seconds=12, batches=12)


def passed(lines: Iterator[str], claims: int) -> list[str]:
    """The lines of a figure that has this many claims, all of which hold."""
    found = list(lines)
    assert sum(line.endswith("pass") for line in found) == claims
    assert not any("FAIL" in line for line in found)
    return found


def test_figure_8_the_equal_split_is_the_best_of_five(tmp_path: Path) -> None:
    passed(regulate.figure_8(tmp_path, scale=20, seconds=150), claims=3)
    assert (tmp_path / "window-cost_figure_8.csv").read_text().count("\n") == 6


def test_figure_9_all_memory_to_the_slower_stream_is_the_best_of_five(tmp_path: Path) -> None:
    passed(allot.figure_9(tmp_path, scale=6, seconds=150), claims=3)


def test_figure_10_the_two_extremes_are_best(tmp_path: Path) -> None:
    passed(both.figure_10(tmp_path, scale=20, seconds=60), claims=3)


def test_figure_11_is_equation_14(tmp_path: Path) -> None:
    passed(both.figure_11(tmp_path, scale=20, seconds=40), claims=3)
    assert both.model(0.9, 0.0) == pytest.approx(9)


def test_every_figure_has_a_number() -> None:
    assert {"8", "9", "10", "11", "seven"} <= set(FIGURES)


def test_the_ways_of_figure_8_are_the_papers() -> None:
    found = rates_by(10, regulate.RATES, regulate.WINDOWS)
    pairs = [(one["A"], one["B"]) for one in found.values()]
    assert pairs == [pytest.approx(pair) for pair in ((8, 2), (2, 8), (9, 1), (1, 9), (5, 5))]


def test_the_ways_of_figure_9_are_the_papers() -> None:
    found = memory_by(1_000, allot.RATES, {"A": 1_000, "B": 1_000})
    rows = [one["A"] for one in found.values()]
    assert rows == pytest.approx([1_000, 0, 1_000 / 6, 5_000 / 6, 500])


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=5), st.floats(0, 60))
def test_what_one_cannot_take_goes_to_the_others(parts: list[tuple[float, float]], total: float) -> None:
    to = {str(number): part for number, (part, _) in enumerate(parts)}
    most = {str(number): limit for number, (_, limit) in enumerate(parts)}
    found = in_proportion(total, to, most)
    assert sum(found.values()) == pytest.approx(min(total, sum(most.values())))
    below = {name: amount / to[name] for name, amount in found.items() if amount < most[name] * (1 - 1e-9)}
    assert len({round(level, 6) for level in below.values()}) <= 1
    assert all(found[name] <= most[name] * (1 + 1e-9) for name in found)
    ordered = one_after_another(total, list(to), most)
    assert sum(ordered.values()) == pytest.approx(min(total, sum(most.values())))


def test_rows_thrown_away_are_an_exact_share_and_a_larger_share_keeps_them_too() -> None:
    few, more = (list(SMALL.rows({"A": share, "B": 0.5})) for share in (0.2, 0.6))
    assert {batch["A"].num_rows for batch in few} == {40}
    assert {batch["A"].num_rows for batch in more} == {120}
    for one, other in zip(few, more, strict=True):
        assert set(one["A"]["Ts"].to_pylist()) <= set(other["A"]["Ts"].to_pylist())
        assert one["B"].equals(other["B"])
        times = one["A"]["Ts"].to_pylist()
        assert all(before <= after for before, after in pairwise(times))


def test_results_are_counted_once_windows_are_full() -> None:
    query = {"q": joined(("A", "B"), apart("A", "B", -1, 2))}
    whole, later = (measure(SMALL, query, warm=warm) for warm in (0, 3))
    assert (whole.seconds, later.seconds) == (12, 9)
    assert 0 < later.results["q"] < whole.results["q"]
    # lambda_a lambda_b (T_a + T_b) / keys of A
    assert later.output_rate == pytest.approx(200 * 100 * 3 / 40, rel=0.15)


def test_seven_queries_are_regulated_and_allotted_at_least_as_well_as_by_the_five() -> None:
    for found in (Workload.random(3, three=True).by_rates(), Workload.random(3, three=False).by_memory()):
        assert len(found) == 6
        assert all(found[OURS] >= 0.99 * rate for rate in found.values())


def test_by_the_model_no_simple_way_is_better() -> None:
    for seed in range(1, 11):
        workload = Workload.random(seed, three=True)
        load = workload.load
        assert len(load.queries) == QUERIES
        ours = load.kept(regulate.keep_rows(load)).results
        for rates in rates_by(load.capacity, load.rates, workload.windows).values():
            simple = load.kept({name: rate / load.rates[name] for name, rate in rates.items()})
            assert simple.work <= load.capacity * (1 + 1e-9)
            assert ours >= simple.results * (1 - 1e-6)
