"""Path capacity of op-sched 3.1: the path that serves most rows in a unit of time, each row along all of it."""

from __future__ import annotations

from millstream.engine.work import Policy, Work


class PathCapacity(Policy):
    name = "path_capacity"

    def priority(self, work: Work) -> float:
        return work.path.capacity

    def begun(self, work: Work) -> bool:
        return work.at > 0
