"""Greedy of shared-join: the smallest window or partial window first, for it releases results soonest."""

from __future__ import annotations

from millstream.engine.work import Key, Policy, Work


class Greedy(Policy):
    name = "greedy"

    def priority(self, work: Work) -> float:
        return 1 / max(work.stage.far - work.stage.near, 1)

    def key(self, work: Work) -> Key:
        stage = work.stage
        return (stage.far - stage.near, work.arrived, work.number)
