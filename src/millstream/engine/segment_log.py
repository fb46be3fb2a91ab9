"""The segments of one pool, oldest first.

Arriving rows are appended as new segments. Expired rows are dropped at the front, and small neighbours are merged.
Segments never change: a merge makes a new one, with a new number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import compress

from millstream.engine import widths
from millstream.engine.compaction import run_to_merge
from millstream.engine.on_disk import OnDisk, Piece
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.segment import Lot, Segment, merge
from millstream.engine.store import Store
from millstream.engine.watermark import NEVER

_WORTH_TRIMMING = 4_096
Spill = Callable[[Segment], list[OnDisk]]
"""Spills the rows of a segment that are still needed: a segment on disk, or none."""


class SegmentLog:
    """`next_number` numbers the segments of all pools, so that units of a chain can name those of several."""

    def __init__(self, store: Store, next_number: Callable[[], int]) -> None:
        self._store, self._next_number = store, next_number
        self.expired = 0
        """The rows that have expired so far."""
        self.is_indexed = True
        """Whether rows are merged by key, or appended."""
        self._stored: dict[int, Segment | OnDisk] = {}
        self._seams: set[int] = set()
        self.segments: list[Segment] = []
        self.on_disk: list[OnDisk] = []
        self.retired: list[Segment] = []
        self.largest: int | None = None
        """How many bytes are merged at the most, where memory is short."""
        self.farthest: int | None = None
        """For how long rows are kept at the most, where memory is short and they are not spilled."""

    def append(self, segments: Iterable[Segment]) -> None:
        self.segments = [*self.segments, *segments]

    def reach(self, one: Piece) -> int:
        """For how long after their time rows of a segment are kept."""
        return one.reach if self.farthest is None else min(one.reach, self.farthest)

    def is_alive(self, one: Piece, watermark: int) -> bool:
        """Whether rows of a segment have not expired."""
        return one.last + self.reach(one) > watermark

    def part_at(self, batch: int) -> None:
        """From now on never merges rows that have come up to a batch with later ones."""
        self._seams.add(batch)

    @property
    def pieces(self) -> list[Piece]:
        """All segments, in memory and on disk, without those that are there for deferred units only."""
        return [*self.segments, *self.on_disk]

    def tidy(self, watermark: int, busy: Collection[int], spans: int, owed: Spill | None = None) -> None:
        """Drops expired rows and merges small neighbours; segments that deferred units name stay. Rows that are `owed`
        to spilled ones stay too, on disk.
        """
        before = self._rows()
        needed = [s.number in busy or self.is_alive(s, watermark) for s in self.segments]
        alive = [self._in_form(s, busy) for s in compress(self.segments, needed)]
        if owed is not None:
            for gone in (s for s, stays in zip(self.segments, needed, strict=True) if not stays):
                self.on_disk += owed(self.kept(gone))
            self.segments = self._compacted(alive, NEVER, busy, spans)
        else:
            trimmed = [self._trimmed(one, watermark, busy) for one in alive]
            self.segments = self._compacted(trimmed, watermark, busy, spans)
        self.retired = [one for one in self.retired if one.number in busy]
        self.expired += before - self._rows()

    def drop_from_disk(self, is_needed: Callable[[OnDisk], bool]) -> None:
        """Drops expired segments on disk."""
        before = self._rows()
        self.on_disk = [one for one in self.on_disk if is_needed(one)]
        self.expired += before - self._rows()

    def _rows(self) -> int:
        return sum(map(len, self.pieces)) + sum(map(len, self.retired))

    def _in_form(self, segment: Segment, busy: Collection[int]) -> Segment:
        """A segment that a probe by index had to sort is kept sorted from then on."""
        if not segment.is_resorted or not self.is_indexed or segment.number in busy:
            return segment
        return replace(segment.indexed, number=self._next_number())

    def _trimmed(self, segment: Segment, watermark: int, busy: Collection[int]) -> Segment:
        """The segment without its expired rows, once they are about half of it or a quarter of the window."""
        half, reach = (segment.last - segment.first) // 2, self.reach(segment)
        enough = segment.first + (min(half, reach // 4) if reach > 0 else half)
        small = len(segment) < _WORTH_TRIMMING and segment.bulk < widths.CHUNK_BYTES
        if segment.number in busy or small or enough + reach > watermark:
            return segment
        return merge(self._next_number(), [segment], watermark - reach, indexed=self.is_indexed)

    def _compacted(
        self, segments: Sequence[Segment], watermark: int, busy: Collection[int], spans: int
    ) -> list[Segment]:
        there: list[Piece] = [*segments, *self.on_disk]
        oldest = min((one.batch for one in there), default=0)
        self._seams = {seam for seam in self._seams if seam >= oldest}
        alike = self.alike(segments)
        for some in alike:
            reach = self.reach(some[0])
            while (run := run_to_merge(some, busy, spans, self.largest)) is not None:
                expired = watermark - reach if watermark > NEVER else NEVER
                some[run] = [merge(self._next_number(), some[run], expired, indexed=self.is_indexed)]
        merged = [segment for some in alike for segment in some]
        return sorted(merged, key=lambda segment: (segment.batch, segment.number))

    def alike(self, segments: Iterable[Segment]) -> list[list[Segment]]:
        """Segments by what may be merged, oldest first."""
        found: dict[tuple[Lot, int], list[Segment]] = {}
        for segment in sorted(segments, key=lambda segment: (segment.batch, segment.number)):
            era = sum(segment.batch > seam for seam in self._seams)
            found.setdefault((segment.lot, era), []).append(segment)
        return list(found.values())

    def keep(self) -> None:
        """Hands new segments to the store and drops old ones from it. The store never sees segments that came and went
        between two calls.
        """
        self.segments = [self.kept(segment) for segment in self.segments]
        for number in self._stored.keys() - {one.number for one in (*self.pieces, *self.retired)}:
            self._store.drop(self._stored.pop(number))

    def kept(self, segment: Segment) -> Segment:
        """The segment as the store holds it."""
        known = self._stored.get(segment.number)
        if not isinstance(known, Segment):
            known = self._stored[segment.number] = self._store.keep(segment)
        return known

    def part_of(self, segment: Piece, part: Segment | OnDisk) -> None:
        """A part of a kept segment is stored as its files already."""
        if part.number != segment.number:
            self._store.share(segment, part.number)
        self._stored[part.number] = part

    def release(self, segment: OnDisk) -> None:
        """A segment has been spilled."""
        self._stored[segment.number] = segment
        self._store.release(segment)

    def clear(self) -> None:
        """Drops everything."""
        self.segments, self.on_disk, self.retired = [], [], []
        self.keep()

    def give_up(self, gone: Collection[int]) -> None:
        """Forgets segments that another slot has now; their files stay."""
        self.segments = [one for one in self.segments if one.number not in gone]
        self.on_disk = [one for one in self.on_disk if one.number not in gone]

    def saved(self) -> list[SegmentEntry]:
        """The segments as a manifest names them, once they are kept."""
        retired = [replace(self.entry(one), retired=True) for one in self.retired]
        return [*map(self.entry, self.segments), *(one.entry for one in self.on_disk), *retired]

    def entry(self, one: Segment) -> SegmentEntry:
        """How a manifest names a kept segment."""
        return SegmentEntry(
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
            groups=one.groups,
        )

    def restore(
        self, segments: Sequence[Segment], on_disk: Sequence[OnDisk] = (), retired: Sequence[Segment] = ()
    ) -> None:
        """Resumes from segments that the store has loaded."""
        self.segments, self.on_disk, self.retired = list(segments), list(on_disk), list(retired)
        self._seams = set()
        self._stored = {one.number: one for one in on_disk}
        self._stored |= {one.number: one for one in (*segments, *retired)}
