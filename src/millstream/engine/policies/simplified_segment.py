"""Simplified segment of op-sched 3.3: at most two segments a path, so a row is queued at most once on its way."""

from __future__ import annotations

from millstream.engine.policies.segment import SegmentStrategy


class SimplifiedSegment(SegmentStrategy):
    name = "simplified_segment"
    most = 2

    def __init__(self, similarity: float = 3 / 4) -> None:
        super().__init__()
        self.similarity = similarity
