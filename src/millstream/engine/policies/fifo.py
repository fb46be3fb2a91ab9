"""FIFO: the oldest tuple, and once it is served, along its whole path."""

from __future__ import annotations

from millstream.engine.work import Key, Policy, Work


class Fifo(Policy):
    name = "fifo"

    def key(self, work: Work) -> Key:
        return (work.arrived, -work.at, work.number)
