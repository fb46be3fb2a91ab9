"""Without adaptation nothing is ever done."""

from __future__ import annotations

import pytest

from clusters import Cluster
from millstream.pipeline.adaptation import STRATEGIES
from millstream.pipeline.adaptation.decision import Thresholds

UNEVEN = Cluster([0] * 8, ["a", "b"], [10**9] * 8, [1, 2] * 4, limit=10**9)


@pytest.mark.parametrize("name", ["none", "disk"])
def test_nothing_is_decided(name: str) -> None:
    strategy = STRATEGIES[name](Thresholds())
    for now in range(0, 500, 50):
        assert not strategy.decide(UNEVEN.load(), now).is_to_act


def test_strategies_have_their_names_and_say_whether_slots_spill() -> None:
    made = {name: make(Thresholds()) for name, make in STRATEGIES.items()}
    assert all(strategy.name == name for name, strategy in made.items())
    assert [name for name, strategy in made.items() if strategy.spills] == ["disk", "lazy_disk", "active_disk"]


@pytest.mark.parametrize("name", STRATEGIES)
def test_thresholds_are_those_given(name: str) -> None:
    """With a threshold that nothing reaches no strategy acts."""
    never = STRATEGIES[name](Thresholds(difference=0.0, rates=1e9))
    assert not never.decide(UNEVEN.load(), 0).is_to_act
    assert STRATEGIES[name](Thresholds()).decide(UNEVEN.load(), 0).is_to_act == (name not in {"none", "disk"})
