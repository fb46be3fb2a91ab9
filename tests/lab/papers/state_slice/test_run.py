"""state-slice 7: the strategies are different plans of the same queries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millstream.lab.papers.state_slice.run import STRATEGIES, Setting, many, measure, strategies
from millstream.lab.workloads.windows import TABLE_4
from millstream.plan.nodes import LEFT

SMALL = replace(Setting(), rate=20, scale=5)


def test_every_strategy_gives_the_same_rows_and_slicing_needs_the_least_state() -> None:
    batches = SMALL.rows(24)
    found = {name: measure(plans, batches) for name, plans in strategies(SMALL).items()}
    assert tuple(found) == STRATEGIES
    assert len({one.rows_out for one in found.values()}) == 1
    up, down, sliced, planned = (found[name].state_rows for name in STRATEGIES)
    assert sliced == planned < min(up, down)


def test_the_strategies_are_those_of_section_7() -> None:
    """Pull-up is one join that keeps everything; push-down two, one for the tuples that pass; slicing three slices."""
    plans = strategies(SMALL)
    (pulled,), (rest, passing), (sliced,) = (plans[name] for name in STRATEGIES[:3])
    lanes = {
        name: [(lane.reach // 1_000_000, len(lane.condition)) for lane in plan.chains[0].kept[LEFT]]
        for name, plan in (("pulled", pulled), ("rest", rest), ("passing", passing), ("sliced", sliced))
    }
    assert lanes == {"pulled": [(30, 0)], "rest": [(10, 1)], "passing": [(30, 1)], "sliced": [(30, 1), (10, 0)]}
    assert [len(plan.chains[0].slices) for plan in (pulled, rest, passing, sliced)] == [1, 1, 1, 5]


@pytest.mark.parametrize("name", TABLE_4)
def test_more_queries_have_windows_of_the_same_kinds(name: str) -> None:
    assert many(name, 12) == pytest.approx(TABLE_4[name], abs=1)
    for count in (24, 36):
        assert len(set(many(name, count))) == count
        assert max(many(name, count)) == 30
