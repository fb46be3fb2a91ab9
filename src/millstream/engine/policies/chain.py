"""Chain (Babcock and others, in op-sched 2.2): the steepest stretch of the lower envelope, for the least memory."""

from __future__ import annotations

from millstream.engine.work import Policy, Work


class Chain(Policy):
    name = "chain"

    def priority(self, work: Work) -> float:
        return work.path.slopes[work.at]
