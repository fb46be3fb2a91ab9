"""The segments of a pool by partition groups: divided, spilled, brought back, handed over. No file is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from millstream.engine.arrow import Bools, Ints
from millstream.engine.groups import Grouping, Groups
from millstream.engine.intake import CODE
from millstream.engine.on_disk import OnDisk, Piece
from millstream.engine.pairs import Source
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.release import sequenced
from millstream.engine.segment import Segment, picked
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
        self.strict = strict

    def load(self, entry: SegmentEntry) -> Segment:
        """The rows of an entry: of its files, those of its groups."""
        whole = sequenced(self._store.load(entry), strict=self.strict)
        if entry.groups is None:
            return whole
        return picked(entry.number, whole, np.flatnonzero(self._flags(whole, entry.groups)), entry.groups)

    def on_disk(self, entry: SegmentEntry) -> OnDisk:
        return OnDisk(entry, entry.groups or 0, self.load, self._group_rows)

    @property
    def is_grouped(self) -> bool:
        """Whether its rows are divided among the slots by groups."""
        return not self.pool.spread.everywhere

    def groups_of(self, source: Source) -> Ints:
        """The group of each row of a pool that is grouped."""
        return self._grouping.of(source.row_keys() if self.pool.is_routed else source.numbers(CODE).view(np.uint64))

    def _flags(self, segment: Segment, groups: Groups) -> Bools:
        """Which rows belong to these groups."""
        if not self.is_grouped:
            return np.full(len(segment), bool(groups))
        flags: Bools = self._grouping.flags(groups).take(self.groups_of(segment))
        return flags

    def _group_rows(self, segment: Segment) -> Ints:
        """How many rows of each group a segment has."""
        if not self.is_grouped:
            return np.zeros(self._grouping.count, dtype=np.int64)
        return np.bincount(self.groups_of(segment), minlength=self._grouping.count)

    def nbytes(self) -> Ints:
        """About how many bytes each group takes in memory."""
        found = np.zeros(self._grouping.count, dtype=np.int64)
        for segment in self._log.segments if self.is_grouped else ():
            found += self._group_rows(segment) * (segment.nbytes // max(len(segment), 1))
        return found

    def nbytes_on_disk(self) -> Ints:
        """About how many bytes each group takes on disk only."""
        found = np.zeros(self._grouping.count, dtype=np.int64)
        for segment in self._log.on_disk:
            found += segment.group_bytes
        return found

    def part(self, groups: Groups) -> Parts:
        """Divides every segment into the rows of these groups and the others."""
        if not self.is_grouped:
            return {}
        self._log.keep()
        parts: dict[int, tuple[Piece | None, Piece | None]] = {}
        there = []
        for segment in self._log.segments:
            inside = self._flags(segment, groups)
            if not inside.any():
                parts[segment.number] = (None, segment)
                there.append(segment)
            elif inside.all():
                parts[segment.number] = (segment, None)
                there.append(segment)
            else:
                both = self._divided(segment, inside, groups)
                parts[segment.number] = both
                there += both
        on_disk = []
        for one in self._log.on_disk:
            if not one.groups & groups:
                parts[one.number] = (None, one)
                on_disk.append(one)
            elif not one.groups & ~groups:
                parts[one.number] = (one, None)
                on_disk.append(one)
            else:
                found = self._divided_on_disk(one, groups)
                parts[one.number] = found
                on_disk += [part for part in found if part is not None]
        self._log.segments, self._log.on_disk = there, on_disk
        return parts

    def _divided(self, segment: Segment, inside: Bools, groups: Groups) -> tuple[Segment, Segment]:
        covered = self._grouping.every if segment.groups is None else segment.groups
        numbers = self._next_number(), segment.number
        chosen = (inside, covered & groups), (~inside, covered & ~groups)
        one, other = (
            picked(number, segment, np.flatnonzero(rows), own)
            for number, (rows, own) in zip(numbers, chosen, strict=True)
        )
        self._log.part_of(segment, one)
        self._log.part_of(segment, other)
        return one, other

    def _divided_on_disk(self, one: OnDisk, groups: Groups) -> tuple[OnDisk | None, OnDisk | None]:
        whole = one.open()
        found: list[OnDisk | None] = []
        inside = self._flags(whole, groups)
        for rows, own, number in (
            (inside, one.groups & groups, self._next_number()),
            (~inside, one.groups & ~groups, one.number),
        ):
            if not rows.any():
                found.append(None)
                continue
            part = picked(number, whole, np.flatnonzero(rows), own)
            entry = replace(
                one.entry,
                number=number,
                groups=own,
                rows=len(part),
                nbytes=part.nbytes,
                first=part.first,
                last=part.last,
            )
            found.append(self.on_disk(entry))
        for half in found:
            if half is not None:
                self._log.part_of(one, half)
        return found[0], found[1]

    def spill(self, groups: Groups) -> None:
        """Sends the segments of these groups, which have been parted from the others, to disk only."""
        there = []
        for segment in self._log.segments:
            if self._flags(segment, groups).any():
                self._log.on_disk.append(self._spilled(segment))
            else:
                there.append(segment)
        self._log.segments = there

    def _spilled(self, segment: Segment) -> OnDisk:
        rows = self._group_rows(segment)
        present = self._grouping.set_of(rows > 0) if self.is_grouped else self._grouping.every
        entry = replace(self._log.entry(segment), groups=present, on_disk=True)
        found = self.on_disk(entry)
        found.__dict__["group_bytes"] = rows * (segment.nbytes // max(len(segment), 1))
        self._log.release(found)
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
        gone = [one for one in self._log.segments if not self.is_grouped or self._flags(one, groups).any()]
        on_disk = [one for one in self._log.on_disk if one.groups & groups]
        entries = [*map(self._log.entry, gone), *(one.entry for one in on_disk)]
        if self.is_grouped:
            self._log.give_up({entry.number for entry in entries})
        else:
            entries += [replace(self._log.entry(one), retired=True) for one in self._log.retired]
        return entries

    def still_owed(self, segment: Segment, owing: Groups) -> list[OnDisk]:
        """Spills what an expired segment has of groups that owe results; the rest is gone."""
        inside = self._flags(segment, owing)
        if not inside.any():
            return []
        if not inside.all():
            segment, _ = self._divided(segment, inside, owing)
        return [self._spilled(segment)]
