"""LWO of shared-join: a tuple scans its largest window before the next tuple begins."""

from __future__ import annotations

from millstream.engine.units import Task


class LargestWindowOnly:
    name = "lwo"
    releases_early = True

    def key(self, task: Task) -> tuple[int, ...]:
        return (task.probe.batch, task.probe.number, task.near)
