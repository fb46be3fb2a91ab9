"""Greedy of shared-join: the smallest window or partial window first, for it releases results soonest."""

from __future__ import annotations

from millstream.engine.units import Task


class Greedy:
    name = "greedy"
    releases_early = True

    def key(self, task: Task) -> tuple[int, ...]:
        return (task.width, task.probe.batch, task.probe.number)
