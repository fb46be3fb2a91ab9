"""Segments of operator paths (op-sched 3.3): how a path is cut, and the list of all segments in use.

The paper counts the queries that use each operator, to undo a registration. Here the list is rebuilt when queries come
or go: counts alone could not say what remains of a-b-c when only a and c are still in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from millstream.engine.path import Path

Segment = tuple[str, ...]


def partition(path: Path, similarity: float = 1.0, most: int | None = None) -> list[tuple[int, int]]:
    """Cuts where the next operator releases less than `similarity` of what this one does; the last of `most` segments
    gets the rest.
    """
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


def pruned(segments: Iterable[Segment]) -> list[Segment]:
    """The list without segments that are contained in another."""
    kept: list[Segment] = []
    for segment in sorted(set(segments), key=lambda one: (-len(one), one)):
        if not any(set(segment) <= set(other) for other in kept):
            kept.append(segment)
    return kept


def neighbours(segments: Iterable[Segment]) -> set[tuple[str, str]]:
    """Operators that follow each other within a segment."""
    return {pair for segment in segments for pair in pairwise(segment)}
