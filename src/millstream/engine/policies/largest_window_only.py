"""LWO of shared-join: a tuple scans its largest window before the next tuple begins."""

from __future__ import annotations

from millstream.engine.policy import Key, Policy, Runnable


class LargestWindowOnly(Policy):
    name = "lwo"

    def key(self, work: Runnable) -> Key:
        return (work.arrived, work.number, work.stage.near)
