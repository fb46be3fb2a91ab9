"""Results in order, as the routing step of shared-join releases them.

A row's sort key is (the latest of its times, the batch its probing tuple came in, the age of the match, which is the
time between its earliest and its latest). A query gets a row once no future row for it, from deferred units or from
tuples that have not arrived, can have a smaller key.
So a tuple's wider matches hold back later tuples' rows, and the order of a query's rows does not depend on policy,
budget, or on which other queries share the chain.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np
import pyarrow as pa

from millstream.engine import widths
from millstream.engine.arrow import Ints
from millstream.engine.columns import Columns
from millstream.engine.pairs import Pairs
from millstream.engine.segment import Segment

SortKey = tuple[int, int, int]
_BATCH = 1
"""The position of the batch in a sort key."""
SEQUENCE = "\x01sequence"
"""Hidden column: the arrival number of a row within its stream, which breaks ties."""
_KEY = "\x01place"


def sequenced(segment: Segment, *, strict: bool) -> Segment:
    """A saved segment as this order setting needs it, whichever setting it was written under.

    Rows from before a change to strict order have no numbers: they all count as the first, in their stored order.
    """
    frame = segment.frame
    if strict == (SEQUENCE in frame.values):
        return segment
    if strict:
        number = pa.field(SEQUENCE, pa.int64())
        kinds, values = {**frame.kinds, SEQUENCE: number.type}, {**frame.values, SEQUENCE: np.zeros(len(segment), int)}
        return replace(segment, frame=Columns(frame.schema.append(number), kinds, values))
    rows = segment.rows.drop_columns([SEQUENCE])
    return replace(segment, frame=Columns.of(rows))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least sort key that a future row can have, for rows just made and for rows held before.

    They differ where a policy holds back rows, once held, until their tuple has scanned the query's whole window.
    """

    fresh: SortKey
    held: SortKey


@dataclass(frozen=True, slots=True)
class OrderedRun:
    """Rows of one unit sorted by key, for any number of queries."""

    keys: tuple[Ints, ...]
    rows: pa.RecordBatch
    first: tuple[int, ...]
    last: tuple[int, ...]
    oldest: int
    """The first batch in which a probing tuple of these rows arrived."""

    @classmethod
    def of(cls, pairs: Pairs, batch: int, rows: pa.RecordBatch) -> OrderedRun:
        """Rows made from these pairs, whose probing tuples arrived in this batch."""
        times = pairs.times()
        latest, earliest = np.maximum.reduce(times), np.minimum.reduce(times)
        ties = [np.asarray(source.gather(SEQUENCE, some)) for _, source, some in pairs.placed()]
        return cls.sorted((latest, np.full(len(pairs), batch), latest - earliest, *ties), rows)

    @classmethod
    def sorted(cls, keys: tuple[Ints, ...], rows: pa.RecordBatch) -> OrderedRun:
        order = _order(keys)
        return cls._at(tuple(values.take(order) for values in keys), rows.take(pa.array(order)))

    @classmethod
    def _at(cls, keys: tuple[Ints, ...], rows: pa.RecordBatch) -> OrderedRun:
        return cls(keys, rows, _key(keys, 0), _key(keys, -1), int(keys[_BATCH].min()))

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + sum(values.nbytes for values in self.keys)

    def before(self, bound: tuple[int, ...]) -> int:
        """How many rows have a smaller key than the bound."""
        start, stop = 0, len(self)
        if self.last < bound:
            return stop
        if self.first >= bound:
            return start
        for values, limit in zip(self.keys, bound, strict=False):
            here = values[start:stop]
            start, stop = start + int(np.searchsorted(here, limit)), start + int(np.searchsorted(here, limit, "right"))
        return start

    def cut(self, start: int, stop: int) -> OrderedRun:
        if start == 0 and stop == len(self):
            return self
        return self._at(tuple(values[start:stop] for values in self.keys), self.rows.slice(start, stop - start))


class OrderedBuffer:
    """The held rows of one query: a heap of sorted runs, the one with the least key on top.

    A call to `release` touches only the runs it takes rows from, however many rows are held. Each run records the call
    to `release` before which its rows were made.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[tuple[int, ...], int, int, OrderedRun]] = []
        self._count = self._rows = 0
        self._turn = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for *_, run in self._runs)

    def add(self, run: OrderedRun) -> None:
        self._rows += len(run)
        self._push(run, self._turn)

    def _push(self, run: OrderedRun, turn: int) -> None:
        self._count += 1
        heapq.heappush(self._runs, (run.first, self._count, turn, run))

    def saved(self) -> pa.Table:
        """The rows with their keys; the first column says which have been made since the last release.

        They are one batch, unless its columns cannot hold all rows.
        """
        sizes = np.array([run.rows.nbytes for *_, run in self._runs])
        found = [self._batch(self._runs[start:stop]) for start, stop in widths.stretches(sizes, widths.LARGEST)]
        return pa.Table.from_batches(found)

    def _batch(self, waiting: Sequence[tuple[tuple[int, ...], int, int, OrderedRun]]) -> pa.RecordBatch:
        runs = [run for *_, run in waiting]
        fresh = [np.full(len(run), turn == self._turn) for _, _, turn, run in waiting]
        keys = [np.concatenate(values) for values in zip(*(run.keys for run in runs), strict=True)]
        rows = pa.concat_batches([run.rows for run in runs])
        columns = [pa.array(np.concatenate(fresh)), *map(pa.array, keys), *rows.columns]
        names = [f"{_KEY}{number}" for number in range(len(keys) + 1)]
        return pa.RecordBatch.from_arrays(columns, names=[*names, *rows.schema.names])

    def take_back(self, saved: pa.Table) -> None:
        """Goes on from rows that were saved, by this slot or by one that is gone."""
        self._turn = 1
        for batch in saved.to_batches():
            self._take_back(batch)

    def _take_back(self, saved: pa.RecordBatch) -> None:
        count = sum(name.startswith(_KEY) for name in saved.schema.names)
        rows = pa.RecordBatch.from_arrays(saved.columns[count:], names=saved.schema.names[count:])
        fresh = np.asarray(saved.column(0).to_numpy(zero_copy_only=False), dtype=np.bool_)
        for turn, chosen in ((0, ~fresh), (1, fresh)):
            if chosen.any():
                keys = tuple(np.asarray(column)[chosen] for column in saved.columns[1:count])
                self._push(OrderedRun.sorted(keys, rows.filter(pa.array(chosen))), turn)
        self._rows += rows.num_rows

    @property
    def oldest(self) -> int:
        """The first batch in which a probing tuple of the held rows arrived."""
        return min(run.oldest for *_, run in self._runs)

    def release(self, bounds: Bounds | None) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Releases, in order, the rows before the first that must wait; all of them where there is no bound.

        Returns the rows with the batches in which their probing tuples arrived.
        """
        blocked: tuple[int, ...] = (2**62,)
        touched: list[tuple[int, OrderedRun]] = []
        while self._runs and self._runs[0][0] < blocked:
            *_, turn, run = heapq.heappop(self._runs)
            touched.append((turn, run))
            if bounds is not None:
                free = run.before(bounds.fresh if turn == self._turn else bounds.held)
                if free < len(run):
                    blocked = min(blocked, _key(run.keys, free))
        self._turn += 1
        out: list[OrderedRun] = []
        for turn, run in touched:
            free = run.before(blocked)
            if free:
                out.append(run.cut(0, free))
            if free < len(run):
                self._push(run.cut(free, len(run)), turn)
        if out:
            self._rows -= sum(len(run) for run in out)
            yield from _merged(out)


def _merged(runs: list[OrderedRun]) -> Iterator[tuple[pa.RecordBatch, Ints]]:
    """The rows of several runs in one order, with their batches."""
    rows = [run.rows for run in runs]
    if all(one.last < other.first for one, other in pairwise(runs)):
        arrived = np.concatenate([run.keys[_BATCH] for run in runs])
        start = 0
        for some in widths.together(rows, widths.CHUNK_BYTES):
            yield some, arrived[start : start + some.num_rows]
            start += some.num_rows
        return
    keys = tuple(np.concatenate(values) for values in zip(*(run.keys for run in runs), strict=True))
    order = _order(keys)
    if sum(some.nbytes for some in rows) <= widths.CHUNK_BYTES:
        yield pa.concat_batches(rows).take(pa.array(order)), keys[_BATCH].take(order)
        return
    sizes = np.concatenate([_bytes(some) for some in rows])
    for start, stop in widths.stretches(sizes.take(order), widths.CHUNK_BYTES):
        yield _picked(rows, order[start:stop]), keys[_BATCH].take(order[start:stop])


def _bytes(rows: pa.RecordBatch) -> Ints:
    """The bytes of each row."""
    return sum(map(widths.widths, rows.columns), np.zeros(rows.num_rows, dtype=np.int64))


def _picked(runs: Sequence[pa.RecordBatch], positions: Ints) -> pa.RecordBatch:
    """Rows picked from several batches, whose rows are numbered consecutively."""
    ends = np.cumsum([run.num_rows for run in runs])
    owners = np.searchsorted(ends, positions, side="right")
    rows = positions - np.concatenate(([0], ends)).take(owners)
    picked: pa.RecordBatch = widths.interleaved(
        owners, lambda owner, own: runs[owner].take(pa.array(rows.take(own))), pa.concat_batches
    )
    return picked


def _key(keys: tuple[Ints, ...], row: int) -> tuple[int, ...]:
    return tuple(int(values[row]) for values in keys)


def _order(keys: tuple[Ints, ...]) -> Ints:
    """The order of keys; where they fit, keys are packed into one number each, which sorts faster (bench tricks)."""
    lowest = [int(values.min()) for values in keys]
    widths = [int(values.max()) - low + 1 for values, low in zip(keys, lowest, strict=True)]
    if prod(widths) >= 2**63:
        return np.lexsort(keys[::-1])
    together = np.zeros(len(keys[0]), dtype=np.int64)
    for values, low, width in zip(keys, lowest, widths, strict=True):
        if width > 1:
            together *= width
            together += values - low
    return np.argsort(together)
