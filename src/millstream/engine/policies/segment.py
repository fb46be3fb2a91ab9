"""Segment of op-sched 3.3: the run of operators that releases the most memory per unit of time, without a pause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from millstream.engine.path import Path
from millstream.engine.policies.segment_list import neighbours, partition, pruned
from millstream.engine.policy import Policy, Runnable

Places = tuple[tuple[bool, float], ...]
"""For each stage of a path: whether it continues a segment, and the memory that the rest of the segment releases."""


class SegmentStrategy(Policy):
    name = "segment"
    similarity = 1.0
    most: int | None = None

    def __init__(self) -> None:
        self._places: dict[Path, Places] = {}

    def learn(self, plans: Mapping[str, Sequence[Path]]) -> None:
        every = [path for paths in plans.values() for path in paths]
        together = neighbours(pruned(path.names[start:stop] for path in every for start, stop in self._cut(path)))
        self._places = {path: _places(path, together) for path in every}
        self.version += 1

    def _cut(self, path: Path) -> list[tuple[int, int]]:
        return partition(path, self.similarity, self.most)

    def priority(self, work: Runnable) -> float:
        return self._place(work)[1]

    def begun(self, work: Runnable) -> bool:
        return self._place(work)[0]

    def _place(self, work: Runnable) -> tuple[bool, float]:
        known = self._places.get(work.path)
        if known is None:
            path = work.path
            alone = {pair for start, stop in self._cut(path) for pair in _pairs(path.names[start:stop])}
            known = self._places[path] = _places(path, alone)
        return known[work.at]


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    return list(pairwise(names))


def _places(path: Path, together: set[tuple[str, str]]) -> Places:
    joined = [False, *(pair in together for pair in _pairs(path.names))]
    found: list[tuple[bool, float]] = []
    stop = len(joined)
    for at in range(len(joined) - 1, -1, -1):
        found.append((joined[at], path.released(at, stop)))
        if not joined[at]:
            stop = at
    return tuple(reversed(found))
