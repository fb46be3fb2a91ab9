"""A running pool: the kept rows of one stream by one key, and those that have just arrived."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from millstream.engine.arrow import Bools
from millstream.engine.compaction import SPANS
from millstream.engine.gauges import KeySketch, Sampler, StepTimes
from millstream.engine.groups import Grouping, Groups
from millstream.engine.intake import Intake
from millstream.engine.on_disk import OnDisk, Piece
from millstream.engine.pairs import Conditions, building
from millstream.engine.pool_groups import Parts, PoolGroups
from millstream.engine.pool_manifest import PoolManifest
from millstream.engine.segment import Segment
from millstream.engine.segment_log import SegmentLog
from millstream.engine.store import Store
from millstream.engine.watermark import NEVER
from millstream.model.functions import Function
from millstream.plan.nodes import Condition, Pool, Signature

Arriving = Sequence[tuple[pa.RecordBatch, frozenset[Signature]]]
"""Rows of a pool, with the chains for which they are too late."""


class PoolRun:
    """One pool in one process. Segments of a batch are `fresh` until they become state, because a stream that arrives
    at an earlier position of a chain does not see them.
    """

    def __init__(
        self,
        store: Store,
        next_number: Callable[[], int],
        grouping: Grouping | None = None,
        owing: Callable[[], Groups] = lambda: 0,
        *,
        strict: bool = False,
    ) -> None:
        self._store, self._next_number = store, next_number
        self._owing = owing
        self._log = SegmentLog(store, next_number)
        self.groups = PoolGroups(self._log, store, next_number, grouping or Grouping(), strict=strict)
        self._taken = 0
        self._settled: tuple[int, int, int, frozenset[int], Groups] | None = None
        self.times, self.sketch = StepTimes(), KeySketch()
        self._waiting: list[Segment] = []
        self.fresh: list[Segment] = []
        self.watermark = NEVER
        """The farthest watermark up to which rows have expired. A chain that comes later may have a lower one."""

    def use(
        self,
        pool: Pool,
        functions: Mapping[str, Function],
        owners: Mapping[Condition, Sequence[str]],
        *,
        readers: Sequence[str],
        last_position: int,
        is_routing: bool,
        hash_bits: int,
    ) -> None:
        """Switches to another plan of the same pool between batches. `readers` are the queries that read it,
        `last_position` is the last position at which a chain does.
        """
        self.pool = self.groups.pool = pool
        self._log.is_indexed = pool.is_indexed
        self.last_position = last_position
        # Where nothing is routed, shorter segments save nothing.
        self._spans = SPANS if is_routing else 1
        with building(readers):
            conditions = Conditions(functions, owners)
            self._intake = Intake(pool, functions, readers=readers, conditions=conditions, hash_bits=hash_bits)
        self.sampler = Sampler(conditions, owners, functions)

    @property
    def segments(self) -> list[Segment]:
        return self._log.segments

    def arrive(self, rows: Arriving, batch: int) -> None:
        """Makes segments of rows; they are not state yet."""
        began = time.perf_counter_ns()
        made = [
            segment
            for some, hidden_from in rows
            if some.num_rows
            for segment in self._intake.segments(some, batch, hidden_from, self._next_number)
        ]
        count = sum(map(len, made))
        self.times.add("insert" if self.pool.is_indexed else "append", time.perf_counter_ns() - began, count)
        for some, _ in rows:
            self.sampler.look(some, self.times)
        for segment in made:
            self.sketch.add(segment.keys, distinct=segment.is_indexed)
        self._taken += count
        self.fresh, self._waiting = made, made

    def seen_from(self, at: int, position: int) -> list[Segment]:
        """The segments that a stream which arrives at a position of a chain sees at another. Streams at later positions
        have seen those at earlier ones arrive, so each combination of rows is met exactly once.
        """
        return [*self._log.segments, *self._waiting] if position < at and self._waiting else self._log.segments

    def become_state(self) -> None:
        """What has arrived becomes state."""
        if self._waiting:
            self._log.append(self._waiting)
            self._waiting = []

    def keep_fresh(self) -> None:
        """Hands what has arrived to the store: deferred units name segments as the store holds them."""
        self.fresh = self._waiting = [self._log.kept(segment) for segment in self._waiting]

    def tidy(self, watermark: int, busy: frozenset[int]) -> None:
        """Drops state that nothing needs any more and merges small neighbours."""
        self.watermark = max(self.watermark, watermark)
        owing = self._owing()
        if self._settled == (watermark, self._taken, len(self._log.segments), busy, owing):
            return
        began, owed = time.perf_counter_ns(), partial(self.groups.still_owed, owing=owing) if owing else None
        self._log.tidy(watermark, busy, self._spans, owed)
        if self._log.on_disk:
            self._log.drop_from_disk(
                lambda one: bool(one.groups & owing) or one.number in busy or self._log.is_alive(one, watermark)
            )
        self.times.add("expire", time.perf_counter_ns() - began, 0)
        self._settled = (watermark, self._taken, len(self._log.segments), busy, owing)

    def merge_up_to(self, nbytes: int | None) -> None:
        """From now on makes no segment of more bytes: a merge has its rows in memory twice."""
        self._log.largest = nbytes

    def reach_up_to(self, reach: int | None) -> None:
        """From now on keeps no row for longer than this after its time."""
        if reach != self._log.farthest:
            self._log.farthest, self._settled = reach, None

    def part_at(self, batch: int) -> None:
        """Keeps what has come up to a batch apart from what comes later."""
        self._log.part_at(batch)

    def end(self) -> None:
        """Drops all segments: no chain reads the pool any more."""
        self._log.clear()

    def keep(self) -> None:
        """Hands new segments to the store."""
        self._log.keep()

    def saved(self) -> PoolManifest:
        self.keep()
        return PoolManifest(
            taken=self._taken, expired=self._log.expired, watermark=self.watermark, segments=tuple(self._log.saved())
        )

    def restore(self, saved: PoolManifest, *, strict: bool) -> None:
        """Resumes from a saved pool."""
        self._settled, self.groups.strict = None, strict
        self.fresh, self._waiting = [], []
        self._taken, self._log.expired, self.watermark = saved.taken, saved.expired, saved.watermark
        there: list[Segment] = []
        retired: list[Segment] = []
        on_disk = []
        for entry in saved.segments:
            if entry.on_disk:
                self._store.expect(entry)
                on_disk.append(self.groups.on_disk(entry))
            else:
                (retired if entry.retired else there).append(self.groups.load(entry))
        self._log.restore(there, on_disk, retired)

    @property
    def on_disk(self) -> list[OnDisk]:
        return self._log.on_disk

    @property
    def pieces(self) -> list[Piece]:
        """All segments, in memory and on disk."""
        return self._log.pieces

    def by_number(self) -> dict[int, Piece]:
        """All segments that a unit may name."""
        return {one.number: one for one in (*self._log.pieces, *self._log.retired)}

    def arrived_groups(self) -> Bools:
        """For each group whether rows of it have just arrived. A row of a pool that every slot has is of all."""
        return self.groups.present(self.fresh)

    @property
    def nbytes(self) -> int:
        """The bytes in memory."""
        return sum(one.nbytes for one in (*self._log.segments, *self._log.retired))

    def key_of(self, segment: Segment, row: int) -> list[object]:
        """The key of a row, for people to read."""
        return self._intake.key_of(segment.rows.slice(row, 1))

    def part(self, groups: Groups, *, on_disk: bool = True, spilling: bool = False) -> Parts:
        """Divides every segment into the rows of these groups and the others."""
        self._settled = None
        return self.groups.part(groups, on_disk=on_disk, spilling=spilling)

    def spill(self, groups: Groups) -> None:
        """Sends the segments of these groups, which have been parted from the others, to disk only."""
        self._settled = None
        self.groups.spill(groups)

    def bring_back(self, groups: Groups) -> None:
        """Loads the segments of these groups, which have been parted from the others, from disk."""
        self._settled = None
        self.groups.bring_back(groups)

    def give_up(self, groups: Groups) -> PoolManifest:
        """What another slot takes over: the segments of these groups, which have been parted from the others. Of a pool
        that every slot has, all.
        """
        self._settled = None
        given = self.groups.give_up(groups)
        rows = sum(entry.rows for entry in given)
        if self.groups.is_grouped:
            self._log.expired += rows
        return PoolManifest(taken=rows, watermark=self.watermark, segments=tuple(given))
