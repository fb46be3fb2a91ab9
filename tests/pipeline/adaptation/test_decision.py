"""A decision is to act where something moves or spills."""

from __future__ import annotations

from millstream.pipeline.adaptation.decision import Decision, Move, Spill, Thresholds


def test_a_decision_that_only_tells_is_not_to_act() -> None:
    assert not Decision(reason="all is well").is_to_act
    assert Decision(reason="", moves=(Move(1, 0, 1),)).is_to_act
    assert Decision(reason="", spills=(Spill(0, 1),)).is_to_act


def test_thresholds_are_those_of_the_paper() -> None:
    assert (Thresholds().difference, Thresholds().between, Thresholds().share) == (0.8, 45.0, 0.3)
