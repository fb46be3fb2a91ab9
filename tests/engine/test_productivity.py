"""Which groups leave memory first, and which come back first."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.groups import Grouping, members
from millstream.engine.productivity import GroupStatistics, by_productivity, to_spill

COUNT = 8
FOREVER = 1e9


def statistics_of(results: list[int], idle: list[bool] | None = None) -> GroupStatistics:
    """Groups that have been `idle` got their last row long ago."""
    found = GroupStatistics(Grouping(len(results)))
    found.gave(np.array(results), 1)
    for group, is_idle in enumerate(idle or []):
        if is_idle:
            found.last_in[group] = time.time() - 1_000
    return found


eight = st.lists(st.integers(0, 5), min_size=COUNT, max_size=COUNT)


@given(
    sizes=eight,
    results=eight,
    idle=st.lists(st.booleans(), min_size=COUNT, max_size=COUNT),
    wanted=st.integers(1, 60),
    productive_first=st.booleans(),
)
def test_idle_groups_go_first_then_those_that_give_least_and_no_more_than_needed(
    sizes: list[int], results: list[int], idle: list[bool], wanted: int, productive_first: bool
) -> None:
    found = members(
        to_spill(
            np.array(sizes),
            statistics_of(results, idle),
            wanted,
            inactive=500,
            productive_first=productive_first,
        )
    )
    there = [group for group in range(COUNT) if sizes[group]]
    assert set(found) <= set(there), "a group without bytes frees none"

    def turn(group: int) -> tuple[bool, float]:
        per_byte = results[group] / sizes[group]
        return not idle[group], -per_byte if productive_first else per_byte

    left = [group for group in there if group not in found]
    assert max(map(turn, found), default=(False, -9.0)) <= min(map(turn, left), default=(True, 9.0))
    freed = sum(sizes[group] for group in found)
    assert freed >= min(wanted, sum(sizes)), "enough"
    if found:
        last = max(found, key=turn)
        ties = [sizes[group] for group in found if turn(group) == turn(last)]
        assert freed - max(ties) < wanted, "and not a group more"


def test_nothing_is_there_to_spill() -> None:
    assert to_spill(np.zeros(COUNT, dtype=np.int64), statistics_of([1] * COUNT), 5.0, inactive=0.0) == 0


def test_no_group_is_idle_while_rows_come() -> None:
    statistics = statistics_of([9, 1, 0, 0], idle=[True, True, True, True])
    statistics.arrived(np.array([False, True, False, True]))
    sizes = np.array([1, 1, 0, 1])
    assert members(to_spill(sizes, statistics, 1.0, inactive=500)) == [0], "productive, but long ago"
    assert members(to_spill(sizes, statistics, 2.0, inactive=500)) == [0, 3]
    assert members(to_spill(sizes, statistics, 1.0, inactive=FOREVER)) == [3]


@given(eight, eight, st.lists(st.integers(0, COUNT - 1), unique=True))
def test_the_most_productive_come_back_first(sizes: list[int], results: list[int], some: list[int]) -> None:
    found = by_productivity(np.array(some, dtype=np.int64), np.array(sizes), statistics_of(results)).tolist()
    assert found == sorted(some, key=lambda group: -results[group] / max(sizes[group], 1))


def test_what_was_given_counts_for_every_query_and_less_and_less() -> None:
    statistics = GroupStatistics(Grouping(2))
    statistics.gave(np.array([1, 4]), 3)
    assert statistics.results.tolist() == [3.0, 12.0]
    statistics.fade()
    statistics.gave(np.array([1, 0]), 1)
    first, second = statistics.results.tolist()
    assert first == pytest.approx(1 + 3 * second / 12)
    for _ in range(200):
        statistics.fade()
    assert max(statistics.results) < 1e-6
