"""SWF of shared-join: no tuple goes on to a larger window while another waits for a smaller one."""

from __future__ import annotations

from millstream.engine.policy import Key, Policy, Runnable


class SmallestWindowFirst(Policy):
    name = "swf"
    releases_early = False

    def priority(self, work: Runnable) -> float:
        return 1 / max(work.stage.far, 1)

    def key(self, work: Runnable) -> Key:
        return (work.stage.far, work.arrived, work.number)
