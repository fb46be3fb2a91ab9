"""The joins of window-cost on the engine: every combination of access paths gives the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.lab.papers.window_cost import joins
from millstream.lab.workloads.two_rates import JOINS, TwoRates, cpu_times


@pytest.mark.parametrize("one_way", [False, True])
def test_four_joins_give_the_same_rows(one_way: bool) -> None:
    """Other numbers of rows are an error."""
    found = cpu_times(TwoRates(rate_a=2, rate_b=50, keys=5), tuple(JOINS), rounds=1, one_way=one_way)
    assert list(found) == list(JOINS)
    assert min(found.values()) > 0


def test_a_plan_has_the_access_paths_of_its_join() -> None:
    workload = TwoRates(rate_a=1, rate_b=100, keys=10)
    for join, access in JOINS.items():
        plan = workload.plan(join)
        assert plan.chains[0].access == access
        assert {pool.stream.name: pool.is_indexed for pool in plan.pools} == {
            "A": access.left == "index",
            "B": access.right == "index",
        }


def test_streams_arrive_at_their_rates() -> None:
    workload = TwoRates(rate_a=0.1, rate_b=7, keys=10)
    tables = workload.tables()
    assert sum(len(batch["A"]) for batch in tables) == 12
    assert sum(len(batch["B"]) for batch in tables) == 840
    times = [time for batch in tables for time in batch["B"]["Ts"].to_pylist()]
    assert times == sorted(times)


def test_a_crossing_is_where_the_difference_is_zero() -> None:
    found = {rate: {"HHJ": 10.0, "HNJ": 6.0 + 2 * rate} for rate in (1.0, 3.0, 4.0)}
    assert joins.measured_crossing(found) == pytest.approx(2.0)
    assert joins.measured_crossing({rate: {"HHJ": 10.0, "HNJ": 11 + rate} for rate in (1.0, 2.0)}) is None


def test_figures_are_shown_and_written(tmp_path: Path) -> None:
    for lines in (
        joins.figure_4(tmp_path, rounds=1, rates=(10.0, 40.0, 100.0)),
        joins.figure_7(tmp_path, rounds=1, rates=(10.0, 40.0, 100.0)),
    ):
        shown = "\n".join(lines)
        assert "paper:" in shown
        assert "written:" in shown
