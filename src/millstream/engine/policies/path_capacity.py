"""Path capacity of op-sched 3.1: the path that serves the most rows per unit of time first, each row along the whole
path.
"""

from __future__ import annotations

from millstream.engine.policy import Policy, Runnable


class PathCapacity(Policy):
    name = "path_capacity"

    def priority(self, work: Runnable) -> float:
        return work.path.capacity

    def begun(self, work: Runnable) -> bool:
        return work.at > 0
