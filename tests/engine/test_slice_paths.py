"""Slices as paths: kept until a cost has drifted by half, and guessed by width before they are measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.path import Path
from millstream.engine.slice_paths import SlicePaths, ages
from millstream.engine.statistics import ChainStatistics, Measured
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, RIGHT

NEAR, FAR = Interval(-9, 10), Interval(10, 50)


def measured(nanoseconds: int) -> Measured:
    return Measured(probes=100, nanoseconds=nanoseconds * 100)


@given(st.integers(-30, 30), st.integers(1, 30))
def test_ages_are_those_of_the_differences_inside(lo: int, width: int) -> None:
    near, far = ages(Interval(lo, lo + width))
    inside = [abs(difference) for difference in range(lo, lo + width)]
    assert (near, far) == (min(inside), max(inside) + 1)


@given(st.integers(2, 1000), st.integers(1, 3000))
def test_paths_are_kept_until_a_cost_has_drifted_by_half(before: int, after: int) -> None:
    statistics = ChainStatistics()
    statistics.slices.update({NEAR: measured(7), FAR: measured(before)})
    paths = SlicePaths(statistics, "chain")
    one, other = paths.path(LEFT, (NEAR, FAR), 32.0), paths.path(RIGHT, (NEAR,), 32.0)
    assert [stage.cost for stage in one.stages] == [7, before]
    statistics.slices[FAR] = measured(after)
    paths.refresh()
    drifted = after > 1.5 * before or 1.5 * after < before
    assert paths.drifts == drifted
    again = paths.path(LEFT, (NEAR, FAR), 32.0)
    assert (again is one) == (not drifted)
    assert (paths.path(RIGHT, (NEAR,), 32.0) is other) == (not drifted), "all are thrown away together"
    assert again.stages[1].cost == (after if drifted else before)
    paths.refresh()
    assert paths.drifts == drifted, "what is new has not drifted"


def test_a_path_is_made_once_for_each_side_and_way() -> None:
    paths = SlicePaths(ChainStatistics(), "chain")
    ways: list[tuple[int, tuple[Interval, ...]]] = [(LEFT, (NEAR, FAR)), (LEFT, (FAR,)), (RIGHT, (FAR,))]
    made = [paths.path(*way, 8.0) for way in ways]
    assert [paths.path(*way, 8.0) for way in reversed(ways)] == made[::-1]
    assert len(set(made)) == 3
    told = paths.plans()
    assert [path for some in told.values() for path in some] == made
    assert all(name.startswith("chain ") for name in told)
    names = [name for path in made for name in path.names]
    assert len(set(names)) == 3, "a slice is another operator at the other position, and the same on another way"


def test_what_has_not_run_costs_by_its_width() -> None:
    paths = SlicePaths(ChainStatistics(), "chain")
    near, far = paths.path(LEFT, (NEAR, FAR), 8.0).stages
    assert far.cost / near.cost == pytest.approx(40 / 10)
    assert (near.near, near.far, far.near, far.far) == (0, 10, 10, 50)


def test_a_slice_frees_nothing_until_a_row_has_gone_all_its_way() -> None:
    path: Path = SlicePaths(ChainStatistics(), "chain").path(LEFT, (NEAR, FAR), 8.0)
    assert path.stages[0].release == 0
    assert path.stages[1].release > 0
