"""FIFO: the oldest tuple first, served along its whole path."""

from __future__ import annotations

from millstream.engine.policy import Key, Policy, Runnable


class Fifo(Policy):
    name = "fifo"

    def key(self, work: Runnable) -> Key:
        return (work.arrived, -work.at, work.number)
