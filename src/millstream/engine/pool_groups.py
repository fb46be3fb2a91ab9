"""The segments of a pool by partition groups: divided, spilled, brought back, handed over. No file is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from millstream.engine import widths
from millstream.engine.arrow import Bools, Ints
from millstream.engine.groups import Grouping, Groups
from millstream.engine.intake import CODE
from millstream.engine.on_disk import OnDisk, Piece
from millstream.engine.pairs import Source
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.probe import spread
from millstream.engine.release import sequenced
from millstream.engine.segment import Segment, merge, picked
from millstream.engine.segment_log import SegmentLog
from millstream.engine.store import Store
from millstream.plan.nodes import Pool

Parts = Mapping[int, tuple[Piece | None, Piece | None]]
"""For each segment by its number the part that has rows of some groups, and the other one."""


class PoolGroups:
    """The groups of a pool, whose plan is `pool` and whose rows are numbered where the order is `strict`."""

    def __init__(
        self, log: SegmentLog, store: Store, next_number: Callable[[], int], grouping: Grouping, *, strict: bool
    ) -> None:
        self._log, self._store, self._next_number, self._grouping = log, store, next_number, grouping
        self.pool: Pool
        self._counted: dict[int, tuple[Segment, Ints]] = {}
        self.strict = strict

    def load(self, entry: SegmentEntry) -> Segment:
        """The rows of an entry: of its files, those of its groups."""
        whole = sequenced(self._store.load(entry), strict=self.strict)
        return whole if entry.groups is None else self._picked(entry.number, whole, entry.groups)

    def on_disk(self, entry: SegmentEntry) -> OnDisk:
        return OnDisk(entry, entry.groups or 0, self._grouping, self.load, self._rows_on_disk)

    @property
    def is_grouped(self) -> bool:
        """Whether its rows are divided among the slots by groups."""
        return not self.pool.spread.everywhere

    def groups_of(self, source: Source) -> Ints:
        """The group of each row of a pool that is grouped."""
        return self._grouping.of(source.row_keys() if self.pool.is_routed else source.numbers(CODE).view(np.uint64))

    def _picked(self, number: int, segment: Segment, groups: Groups) -> Segment:
        """The rows of these groups. Where the key is what rows are routed by, only its index is read to find them."""
        if not self.is_grouped:
            return replace(segment, number=number, groups=groups)
        if not self.pool.is_routed or not segment.is_indexed:
            rows = np.flatnonzero(self._grouping.flags(groups).take(self.groups_of(segment)))
            return picked(number, segment, rows, segment.row_keys().take(rows), groups)
        chosen = self._grouping.flags(groups).take(self._grouping.of(segment.keys))
        counts = segment.counts[chosen]
        rows = spread(segment.starts[:-1][chosen], counts)
        return picked(number, segment, rows, segment.keys[chosen].repeat(counts), groups)

    def _group_rows(self, segment: Segment) -> Ints:
        """How many rows of each group a segment has."""
        if not self.is_grouped:
            return np.zeros(self._grouping.count, dtype=np.int64)
        known = self._counted.get(segment.number)
        if known is None or known[0] is not segment:
            known = self._counted[segment.number] = (segment, self._count(segment))
        return known[1]

    def _count(self, segment: Segment) -> Ints:
        count = self._grouping.count
        if not self.pool.is_routed or not segment.is_indexed:
            return np.bincount(self.groups_of(segment), minlength=count)
        return np.bincount(self._grouping.of(segment.keys), weights=segment.counts, minlength=count).astype(np.int64)

    def _rows_on_disk(self, entry: SegmentEntry) -> Ints:
        """The same of an entry; its rows are not picked for that, and not kept."""
        if not self.is_grouped:
            return np.zeros(self._grouping.count, dtype=np.int64)
        return np.where(self._grouping.flags(entry.groups or 0), self._count(self._store.load(entry)), 0)

    def _inside(self, segment: Segment, groups: Groups) -> int:
        """How many rows of these groups a segment has."""
        return int(self._group_rows(segment)[self._grouping.flags(groups)].sum())

    def nbytes(self) -> Ints:
        """About how many bytes each group takes in memory."""
        found = np.zeros(self._grouping.count, dtype=np.int64)
        there = {segment.number for segment in self._log.segments}
        self._counted = {number: known for number, known in self._counted.items() if number in there}
        for segment in self._log.segments if self.is_grouped else ():
            found += self._group_rows(segment) * (segment.nbytes // max(len(segment), 1))
        return found

    def nbytes_on_disk(self) -> Ints:
        """About how many bytes each group takes on disk only."""
        found = np.zeros(self._grouping.count, dtype=np.int64)
        for segment in self._log.on_disk:
            found += segment.group_bytes
        return found

    def rows_in(self, one: Piece, group: int) -> int:
        """How many rows of a group a segment has, in memory or on disk."""
        rows = one.group_rows if isinstance(one, OnDisk) else self._group_rows(one.open())
        return int(rows[group])

    def rows_of(self, group: int) -> int:
        """How many rows of a group there are."""
        return sum(self.rows_in(one, group) for one in self._log.pieces)

    def part(self, groups: Groups, *, on_disk: bool = True, spilling: bool = False) -> Parts:
        """Divides every segment into the rows of these groups and the others; those on disk only if asked to. Where
        these groups are spilled next, their part of a segment is not made but goes to disk at once.
        """
        if not self.is_grouped:
            return {}
        self._log.keep()
        parts: dict[int, tuple[Piece | None, Piece | None]] = {}
        there: list[Segment] = []
        spilled: list[OnDisk] = []
        for segment in self._log.segments:
            inside = self._inside(segment, groups)
            if not inside or inside == len(segment):
                parts[segment.number] = (segment, None) if inside else (None, segment)
                there.append(segment)
            elif spilling:
                gone, stays = self._divided_to_disk(segment, groups)
                parts[segment.number] = (gone, stays)
                spilled.append(gone)
                there.append(stays)
            else:
                parts[segment.number] = both = self._divided(segment, groups)
                there += both
        divided = []
        for one in self._log.on_disk if on_disk else ():
            if not one.groups & groups:
                parts[one.number] = (None, one)
                divided.append(one)
            elif not one.groups & ~groups:
                parts[one.number] = (one, None)
                divided.append(one)
            else:
                found = self._divided_on_disk(one, groups)
                parts[one.number] = found
                divided += [part for part in found if part is not None]
        self._log.segments = there
        if on_disk:
            self._log.on_disk = divided
        self._log.on_disk += spilled
        return parts

    def _divided(self, segment: Segment, groups: Groups) -> tuple[Segment, Segment]:
        covered = self._grouping.every if segment.groups is None else segment.groups
        one = self._picked(self._next_number(), segment, covered & groups)
        other = self._picked(segment.number, segment, covered & ~groups)
        self._log.part_of(segment, one)
        self._log.part_of(segment, other)
        return one, other

    def _divided_to_disk(self, segment: Segment, groups: Groups) -> tuple[OnDisk, Segment]:
        rows = self._group_rows(segment)
        covered = self._grouping.every if segment.groups is None else segment.groups
        inside = replace(self._log.entry(segment), groups=self._grouping.set_of(rows > 0), on_disk=True)
        gone = self._share_of(self.on_disk(inside).knowing(rows), groups, self._next_number())
        stays = self._picked(segment.number, segment, covered & ~groups)
        self._log.part_of(segment, gone)
        self._log.part_of(segment, stays)
        return gone, stays

    def _divided_on_disk(self, one: OnDisk, groups: Groups) -> tuple[OnDisk | None, OnDisk | None]:
        inside = self._share_of(one, groups, self._next_number())
        other = self._share_of(one, ~groups, one.number)
        found = (inside if len(inside) else None, other if len(other) else None)
        for half in found:
            if half is not None:
                self._log.part_of(one, half)
        return found

    def _share_of(self, one: OnDisk, groups: Groups, number: int) -> OnDisk:
        """The rows of these groups under another number."""
        own = one.groups & groups
        of_each = np.where(self._grouping.flags(own), one.group_rows, 0)
        rows = int(of_each.sum())
        entry = replace(one.entry, number=number, groups=own, rows=rows, nbytes=one.nbytes * rows // max(len(one), 1))
        return self.on_disk(entry).knowing(of_each)

    def spill(self, groups: Groups) -> None:
        """Sends the segments of these groups, which have been parted from the others, to disk only."""
        there = []
        for segment in self._log.segments:
            if self._inside(segment, groups):
                self._log.on_disk.append(self._spilled(segment))
            else:
                there.append(segment)
        self._log.segments = there

    def _spilled(self, segment: Segment) -> OnDisk:
        rows = self._group_rows(segment)
        present = self._grouping.set_of(rows > 0) if self.is_grouped else self._grouping.every
        entry = replace(self._log.entry(segment), groups=present, on_disk=True)
        found = self.on_disk(entry).knowing(rows)
        self._log.release(found)
        return found

    def merge_on_disk(
        self, groups: Groups, opened: Mapping[int, Segment], busy: Collection[int], watermark: int
    ) -> None:
        """Makes one segment of those that these groups, which owe nothing, have on disk, without expired rows, where a
        clean-up has opened them anyhow.
        """
        mine = [one for one in self._log.on_disk if one.groups & groups and one.number not in busy]
        for some in self._log.alike([opened.get(one.number) or one.open() for one in mine]):
            expired = watermark - some[0].reach
            alive = [one for one in some if one.last > expired]
            if (len(some) > 1 or some[0].first <= expired) and sum(one.bulk for one in some) < widths.LARGEST:
                numbers = {one.number for one in some}
                self._log.on_disk = [one for one in self._log.on_disk if one.number not in numbers]
                self._log.expired += sum(map(len, some))
                if alive:
                    merged = self._log.kept(merge(self._next_number(), alive, expired, indexed=self.pool.is_indexed))
                    self._log.expired -= len(merged)
                    self._log.on_disk.append(self._spilled(merged))

    def merged(self, pieces: Sequence[Piece], opened: dict[int, Segment]) -> list[Piece]:
        """The rows of segments in fewer of them, to be joined with others; they are not state."""
        found: list[Piece] = []
        for one in pieces:
            if one.number not in opened:
                opened[one.number] = one.open()
        for some in self._log.alike([opened[one.number] for one in pieces]):
            whole = len(some) > 1 and sum(one.bulk for one in some) < widths.LARGEST
            made = [merge(self._next_number(), some)] if whole else some
            opened.update({one.number: one for one in made})
            found += made
        return found

    def bring_back(self, groups: Groups) -> None:
        """Loads the segments of these groups, which have been parted from the others, from disk."""
        for one in [one for one in self._log.on_disk if one.groups & groups]:
            segment = self.load(replace(one.entry, on_disk=False))
            self._log.part_of(one, segment)
            self._log.append([segment])
        self._log.on_disk = [one for one in self._log.on_disk if not one.groups & groups]
        self._log.segments.sort(key=lambda segment: (segment.batch, segment.number))

    def present(self, segments: Sequence[Segment]) -> Bools:
        """For each group whether there are rows of it; those of a pool that every slot has are of all."""
        found = np.zeros(self._grouping.count, dtype=np.bool_)
        for segment in segments:
            found[self.groups_of(segment) if self.is_grouped else slice(None)] = True
        return found

    def give_up(self, groups: Groups) -> list[SegmentEntry]:
        """Forgets the segments of these groups and returns how a manifest names them; of a pool that every slot has,
        names all and forgets none.
        """
        gone = [one for one in self._log.segments if not self.is_grouped or self._inside(one, groups)]
        on_disk = [one for one in self._log.on_disk if one.groups & groups]
        entries = [*map(self._log.entry, gone), *(one.entry for one in on_disk)]
        if self.is_grouped:
            self._log.give_up({entry.number for entry in entries})
        else:
            entries += [replace(self._log.entry(one), retired=True) for one in self._log.retired]
        return entries

    def still_owed(self, segment: Segment, owing: Groups) -> list[OnDisk]:
        """Spills what an expired segment has of groups that owe results; the rest is gone."""
        if self.is_grouped:
            inside = self._inside(segment, owing)
            if not inside:
                return []
            if inside < len(segment):
                segment, _ = self._divided(segment, owing)
        return [self._spilled(segment)]
