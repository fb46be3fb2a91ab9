"""Greedy of shared-join: the smallest window or partial window first, because it releases results soonest."""

from __future__ import annotations

from millstream.engine.policy import Key, Policy, Runnable


class Greedy(Policy):
    name = "greedy"

    def priority(self, work: Runnable) -> float:
        return 1 / max(work.stage.far - work.stage.near, 1)

    def key(self, work: Runnable) -> Key:
        stage = work.stage
        return (stage.far - stage.near, work.arrived, work.number)
