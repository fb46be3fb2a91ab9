"""Segments of operator paths (op-sched 3.3): how a path is cut, and the list of all segments in use.

The list holds the segments of all registered queries except those contained in another. Each operator of a segment
counts the queries that use it. Counts alone could not undo a registration (what is left of a-b-c when only a and c are
still in use is two segments), so each query's own segments are kept too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from millstream.engine.path import Path

Segment = tuple[str, ...]


def partition(path: Path, similarity: float = 1.0, most: int | None = None) -> list[tuple[int, int]]:
    """Cuts where the next operator releases less than `similarity` of what this one does; `most` cuts off the rest."""
    found: list[tuple[int, int]] = []
    start = 0
    stages = path.stages
    for stop in range(1, len(stages)):
        if most is not None and len(found) == most - 1:
            break
        here, after = stages[stop - 1].release, stages[stop].release
        if after < (similarity * here if here > 0 else here):
            found.append((start, stop))
            start = stop
    return [*found, (start, len(stages))]


class SegmentList:
    """What each query asks for, and the list that follows from it."""

    def __init__(self) -> None:
        self._asked: dict[str, frozenset[Segment]] = {}
        self.counts: dict[Segment, dict[str, int]] = {}

    def register(self, query: str, segments: Iterable[Segment]) -> None:
        self._asked[query] = frozenset(segments)
        self._prune()

    def unregister(self, query: str) -> None:
        del self._asked[query]
        self._prune()

    def __contains__(self, query: str) -> bool:
        return query in self._asked

    def _prune(self) -> None:
        every = sorted({segment for asked in self._asked.values() for segment in asked}, key=lambda s: (-len(s), s))
        kept: list[Segment] = []
        for segment in every:
            if not any(_within(segment, other) for other in kept):
                kept.append(segment)
        self.counts = {segment: dict.fromkeys(segment, 0) for segment in kept}
        for asked in self._asked.values():
            used = {name for segment in asked for name in segment}
            for counts in self.counts.values():
                for name in counts.keys() & used:
                    counts[name] += 1

    def neighbours(self) -> set[tuple[str, str]]:
        """Operators that follow each other within a segment of the list."""
        return {pair for segment in self.counts for pair in pairwise(segment)}


def _within(inner: Sequence[str], outer: Sequence[str]) -> bool:
    return set(inner) <= set(outer)
