"""LWO of shared-join: a tuple scans its largest window before the next tuple begins."""

from __future__ import annotations

from millstream.engine.work import Key, Policy, Work


class LargestWindowOnly(Policy):
    name = "lwo"

    def key(self, work: Work) -> Key:
        return (work.arrived, work.number, work.stage.near)
