"""The segments of one pool, oldest first.

Arriving rows are appended as new segments. Expired rows are dropped at the front, and small neighbours are merged.
Segments never change: a merge makes a new one, with a new number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from millstream.engine import widths
from millstream.engine.compaction import run_to_merge
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.segment import Lot, Segment, merge
from millstream.engine.store import Store

_WORTH_TRIMMING = 4_096


class SegmentLog:
    """`next_number` numbers the segments of all pools, so that units of a chain can name those of several."""

    def __init__(self, store: Store, next_number: Callable[[], int]) -> None:
        self._store, self._next_number = store, next_number
        self.expired = 0
        """The rows that have expired so far."""
        self._stored: dict[int, Segment] = {}
        self._seams: set[int] = set()
        self.segments: list[Segment] = []

    def append(self, segments: Iterable[Segment]) -> None:
        self.segments = [*self.segments, *segments]

    def part_at(self, batch: int) -> None:
        """From now on never merges rows that have come up to a batch with later ones."""
        self._seams.add(batch)

    def tidy(self, watermark: int, busy: Collection[int], spans: int) -> None:
        """Drops expired rows and merges small neighbours; segments that deferred units name stay."""
        before = sum(map(len, self.segments))
        alive = [s for s in self.segments if s.number in busy or s.last + s.reach > watermark]
        self.segments = self._compacted([self._trimmed(one, watermark, busy) for one in alive], watermark, busy, spans)
        self.expired += before - sum(map(len, self.segments))

    def _trimmed(self, segment: Segment, watermark: int, busy: Collection[int]) -> Segment:
        """The segment without its expired rows, once they are about half of it or a quarter of the window."""
        half = (segment.last - segment.first) // 2
        enough = segment.first + (min(half, segment.reach // 4) if segment.reach > 0 else half)
        small = len(segment) < _WORTH_TRIMMING and segment.bulk < widths.CHUNK_BYTES
        if segment.number in busy or small or enough + segment.reach > watermark:
            return segment
        return merge(self._next_number(), [segment], watermark - segment.reach)

    def _compacted(
        self, segments: Sequence[Segment], watermark: int, busy: Collection[int], spans: int
    ) -> list[Segment]:
        oldest = min((segment.batch for segment in segments), default=0)
        self._seams = {seam for seam in self._seams if segments and seam >= oldest}
        alike: dict[tuple[Lot, int], list[Segment]] = {}
        for segment in segments:
            era = sum(segment.batch > seam for seam in self._seams)
            alike.setdefault((segment.lot, era), []).append(segment)
        for (lot, _), some in alike.items():
            while (run := run_to_merge(some, busy, spans)) is not None:
                some[run] = [merge(self._next_number(), some[run], watermark - lot.reach)]
        merged = [segment for some in alike.values() for segment in some]
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
                batch=one.batch,
                reach=one.reach,
                rows=len(one),
                nbytes=one.nbytes,
                first=one.first,
                last=one.last,
                hidden_from=tuple(sorted(one.hidden_from)),
                stamps=self._store.stamps(one),
            )
            for one in self.segments
        ]

    def restore(self, segments: Sequence[Segment]) -> None:
        """Resumes from segments that the store has loaded."""
        self.segments, self._seams = list(segments), set()
        self._stored = {segment.number: segment for segment in segments}
