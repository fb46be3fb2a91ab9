"""Round robin: every operator or slice with work in turn, none twice before each of the others had one turn."""

from __future__ import annotations

from collections import defaultdict

from millstream.engine.policy import Key, Policy, Runnable


class RoundRobin(Policy):
    """Each piece of work is assigned the next round in which its stage has no other piece."""

    name = "round_robin"

    def __init__(self) -> None:
        self._round = 0
        self._next: dict[str, int] = defaultdict(int)

    def key(self, work: Runnable) -> Key:
        stage = work.path.names[work.at]
        turn = max(self._round, self._next[stage])
        self._next[stage] = turn + 1
        return (turn, work.arrived, work.number)

    def chosen(self, key: Key) -> None:
        self._round = int(key[0])
