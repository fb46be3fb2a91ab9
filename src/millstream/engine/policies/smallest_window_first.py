"""SWF of shared-join: no tuple goes on to a larger window while another waits for a smaller one."""

from __future__ import annotations

from millstream.engine.units import Task


class SmallestWindowFirst:
    name = "swf"
    releases_early = False

    def key(self, task: Task) -> tuple[int, ...]:
        return (task.far, task.probe.batch, task.probe.number)
