"""The state of one side of a chain: its segments, oldest first.

Arriving rows are appended as new segments. Expired rows are dropped at the front, and small neighbours are merged.
Segments never change: a merge makes a new one, with a new number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millstream.engine import widths
from millstream.engine.chain_manifest import SegmentEntry
from millstream.engine.compaction import run_to_merge
from millstream.engine.segment import Segment, merge
from millstream.engine.store import Store

_WORTH_TRIMMING = 4_096


@dataclass(slots=True)
class StateCounts:
    """The last number given to a segment, the rows that ever became state, and those of them that have expired."""

    numbered: int = 0
    taken: int = 0
    expired: int = 0

    def next_number(self) -> int:
        self.numbered += 1
        return self.numbered


class SegmentLog:
    """`counts` are those of the chain, which both its sides share."""

    def __init__(self, side: str, store: Store, counts: StateCounts) -> None:
        self._side, self._store, self._counts = side, store, counts
        self._stored: dict[int, Segment] = {}
        self.segments: list[Segment] = []

    def append(self, segments: Iterable[Segment]) -> None:
        self.segments = [*self.segments, *segments]

    def tidy(self, watermark: int, busy: set[int], spans: int) -> None:
        """Drops expired rows and merges small neighbours; segments that deferred units name stay."""
        before = sum(map(len, self.segments))
        alive = [s for s in self.segments if s.number in busy or s.last + s.reach > watermark]
        self.segments = self._compacted([self._trimmed(one, watermark, busy) for one in alive], watermark, busy, spans)
        self._counts.expired += before - sum(map(len, self.segments))

    def _trimmed(self, segment: Segment, watermark: int, busy: set[int]) -> Segment:
        """The segment without its expired rows, once they are about half of it or a quarter of the window."""
        half = (segment.last - segment.first) // 2
        enough = segment.first + (min(half, segment.reach // 4) if segment.reach > 0 else half)
        small = len(segment) < _WORTH_TRIMMING and segment.bulk < widths.CHUNK_BYTES
        if segment.number in busy or small or enough + segment.reach > watermark:
            return segment
        return merge(self._counts.next_number(), [segment], watermark - segment.reach)

    def _compacted(self, segments: Sequence[Segment], watermark: int, busy: set[int], spans: int) -> list[Segment]:
        by_lane: dict[int, list[Segment]] = {}
        for segment in segments:
            by_lane.setdefault(segment.reach, []).append(segment)
        for lane in by_lane.values():
            while (run := run_to_merge(lane, busy, spans)) is not None:
                expired = watermark - lane[run.start].reach
                lane[run] = [merge(self._counts.next_number(), lane[run], expired)]
        merged = [segment for lane in by_lane.values() for segment in lane]
        return sorted(merged, key=lambda segment: (segment.batch, segment.number))

    def keep(self) -> None:
        """Hands new segments to the store and drops old ones from it. The store never sees segments that came and went
        between two calls.
        """
        self.segments = [self.kept(segment) for segment in self.segments]
        for number in self._stored.keys() - {segment.number for segment in self.segments}:
            self._store.drop(self._stored.pop(number))

    def kept(self, segment: Segment) -> Segment:
        """The segment as the store holds it."""
        known = self._stored.get(segment.number)
        if known is None:
            known = self._stored[segment.number] = self._store.keep(segment)
        return known

    def saved(self) -> list[SegmentEntry]:
        """The segments as a manifest names them, once they are kept."""
        return [
            SegmentEntry(
                number=one.number,
                name=self._store.name(one),
                side=self._side,
                batch=one.batch,
                reach=one.reach,
                rows=len(one),
                nbytes=one.nbytes,
                first=one.first,
                last=one.last,
                stamps=self._store.stamps(one),
            )
            for one in self.segments
        ]

    def restore(self, segments: Sequence[Segment]) -> None:
        """Resumes from segments that the store has loaded."""
        self.segments = list(segments)
        self._stored = {segment.number: segment for segment in segments}
