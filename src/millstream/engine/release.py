"""Results in order, as the routing step of shared-join releases them.

A row's place is (the later of its two times, the batch its probing tuple came in, the age of the match). It is let out
to a query once nothing that is still to come for that query, from waiting units or from tuples not yet here, can
have an earlier place. So a tuple's wider matches hold back later tuples' rows, and the order of a query's rows does
not depend on policy, budget, or on which other queries share the chain.
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
from millstream.engine.frame import Frame
from millstream.engine.pairs import Pairs
from millstream.engine.segment import Segment

Place = tuple[int, int, int]
SEQUENCE = "\x01sequence"
"""Hidden column: the arrival number of a row within its stream, which settles ties."""
_PLACE = "\x01place"


def sequenced(segment: Segment, *, strict: bool) -> Segment:
    """A saved segment as a run in this order needs it, whichever order it was written under.

    Rows of before a change to strict order have no numbers: they all count as the first, in the order they lie in.
    """
    frame = segment.frame
    if strict == (SEQUENCE in frame.values):
        return segment
    if strict:
        number = pa.field(SEQUENCE, pa.int64())
        kinds, values = {**frame.kinds, SEQUENCE: number.type}, {**frame.values, SEQUENCE: np.zeros(len(segment), int)}
        return replace(segment, frame=Frame(frame.schema.append(number), kinds, values))
    rows = segment.rows.drop_columns([SEQUENCE])
    return replace(segment, frame=Frame.of(rows))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The earliest place a row still to come can have, for rows just made and for rows held before.

    They differ where a policy's routing keeps what it once held until its tuple has scanned the query's whole window.
    """

    fresh: Place
    held: Place


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one unit in the order of their places, for any number of queries."""

    places: tuple[Ints, ...]
    rows: pa.RecordBatch
    first: tuple[int, ...]
    last: tuple[int, ...]

    @classmethod
    def of(cls, pairs: Pairs, batch: int, rows: pa.RecordBatch) -> Part:
        """Rows made of these pairs, whose probing tuples came in this batch."""
        left, right = pairs.left.times.take(pairs.left_rows), pairs.right.times.take(pairs.right_rows)
        arrived = np.full(len(pairs), batch)
        ties = (
            np.asarray(pairs.left.gather(SEQUENCE, pairs.left_rows)),
            np.asarray(pairs.right.gather(SEQUENCE, pairs.right_rows)),
        )
        return cls.sorted((np.maximum(left, right), arrived, np.abs(right - left), *ties), rows)

    @classmethod
    def sorted(cls, places: tuple[Ints, ...], rows: pa.RecordBatch) -> Part:
        order = _order(places)
        return cls._at(tuple(values.take(order) for values in places), rows.take(pa.array(order)))

    @classmethod
    def _at(cls, places: tuple[Ints, ...], rows: pa.RecordBatch) -> Part:
        return cls(places, rows, _place(places, 0), _place(places, -1))

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def before(self, bound: tuple[int, ...]) -> int:
        """How many rows have a place before the bound."""
        start, stop = 0, len(self)
        if self.last < bound:
            return stop
        if self.first >= bound:
            return start
        for values, limit in zip(self.places, bound, strict=False):
            here = values[start:stop]
            start, stop = start + int(np.searchsorted(here, limit)), start + int(np.searchsorted(here, limit, "right"))
        return start

    def cut(self, start: int, stop: int) -> Part:
        if start == 0 and stop == len(self):
            return self
        return self._at(tuple(values[start:stop] for values in self.places), self.rows.slice(start, stop - start))


class Held:
    """Rows of one query that wait for their turn: sorted parts, the one with the earliest row on top.

    A call to `release` touches only the parts it lets something out of, however much is held. With a part is kept for
    which call its rows first waited.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[tuple[int, ...], int, int, Part]] = []
        self._count = self._rows = 0
        self._turn = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, part: Part) -> None:
        self._rows += len(part)
        self._push(part, self._turn)

    def _push(self, part: Part, turn: int) -> None:
        self._count += 1
        heapq.heappush(self._parts, (part.first, self._count, turn, part))

    def saved(self) -> pa.Table:
        """The waiting rows with their places; the first column tells the rows just made from those held before.

        They are one batch, unless that is more than its columns can hold.
        """
        sizes = np.array([part.rows.nbytes for *_, part in self._parts])
        found = [self._batch(self._parts[start:stop]) for start, stop in widths.stretches(sizes, widths.LARGEST)]
        return pa.Table.from_batches(found)

    def _batch(self, waiting: Sequence[tuple[tuple[int, ...], int, int, Part]]) -> pa.RecordBatch:
        parts = [part for *_, part in waiting]
        fresh = [np.full(len(part), turn == self._turn) for _, _, turn, part in waiting]
        places = [np.concatenate(values) for values in zip(*(part.places for part in parts), strict=True)]
        rows = pa.concat_batches([part.rows for part in parts])
        columns = [pa.array(np.concatenate(fresh)), *map(pa.array, places), *rows.columns]
        names = [f"{_PLACE}{number}" for number in range(len(places) + 1)]
        return pa.RecordBatch.from_arrays(columns, names=[*names, *rows.schema.names])

    @classmethod
    def restored(cls, saved: pa.Table) -> Held:
        held = cls()
        held._turn = 1
        for batch in saved.to_batches():
            held._take_back(batch)
        return held

    def _take_back(self, saved: pa.RecordBatch) -> None:
        count = sum(name.startswith(_PLACE) for name in saved.schema.names)
        rows = pa.RecordBatch.from_arrays(saved.columns[count:], names=saved.schema.names[count:])
        fresh = np.asarray(saved.column(0).to_numpy(zero_copy_only=False), dtype=np.bool_)
        for turn, chosen in ((0, ~fresh), (1, fresh)):
            if chosen.any():
                places = tuple(np.asarray(column)[chosen] for column in saved.columns[1:count])
                self._push(Part.sorted(places, rows.filter(pa.array(chosen))), turn)
        self._rows += rows.num_rows

    def release(self, bounds: Bounds | None) -> Iterator[pa.RecordBatch]:
        """Lets out, in order, the rows before the first that must wait; all of them where there is no bound."""
        blocked: tuple[int, ...] = (2**62,)
        touched: list[tuple[int, Part]] = []
        while self._parts and self._parts[0][0] < blocked:
            *_, turn, part = heapq.heappop(self._parts)
            touched.append((turn, part))
            if bounds is not None:
                free = part.before(bounds.fresh if turn == self._turn else bounds.held)
                if free < len(part):
                    blocked = min(blocked, _place(part.places, free))
        self._turn += 1
        out: list[Part] = []
        for turn, part in touched:
            free = part.before(blocked)
            if free:
                out.append(part.cut(0, free))
            if free < len(part):
                self._push(part.cut(free, len(part)), turn)
        if out:
            self._rows -= sum(len(part) for part in out)
            yield from _merged(out)


def _merged(parts: list[Part]) -> Iterator[pa.RecordBatch]:
    """The rows of sorted parts in one order."""
    rows = [part.rows for part in parts]
    if all(one.last < other.first for one, other in pairwise(parts)):
        yield from widths.together(rows, widths.CHUNK_BYTES)
        return
    places = tuple(np.concatenate(values) for values in zip(*(part.places for part in parts), strict=True))
    order = _order(places)
    if sum(some.nbytes for some in rows) <= widths.CHUNK_BYTES:
        yield pa.concat_batches(rows).take(pa.array(order))
        return
    sizes = np.concatenate([_bytes(some) for some in rows])
    for start, stop in widths.stretches(sizes.take(order), widths.CHUNK_BYTES):
        yield _picked(rows, order[start:stop])


def _bytes(rows: pa.RecordBatch) -> Ints:
    """What each row takes."""
    return sum(map(widths.widths, rows.columns), np.zeros(rows.num_rows, dtype=np.int64))


def _picked(parts: Sequence[pa.RecordBatch], positions: Ints) -> pa.RecordBatch:
    """Rows of several, numbered through."""
    ends = np.cumsum([part.num_rows for part in parts])
    owners = np.searchsorted(ends, positions, side="right")
    rows = positions - np.concatenate(([0], ends)).take(owners)
    picked: pa.RecordBatch = widths.interleaved(
        owners, lambda owner, own: parts[owner].take(pa.array(rows.take(own))), pa.concat_batches
    )
    return picked


def _place(places: tuple[Ints, ...], row: int) -> tuple[int, ...]:
    return tuple(int(values[row]) for values in places)


def _order(places: tuple[Ints, ...]) -> Ints:
    """The order of places; put into one number, where it has room for them, they are sorted faster (bench tricks)."""
    lowest = [int(values.min()) for values in places]
    widths = [int(values.max()) - low + 1 for values, low in zip(places, lowest, strict=True)]
    if prod(widths) >= 2**63:
        return np.lexsort(places[::-1])
    together = np.zeros(len(places[0]), dtype=np.int64)
    for values, low, width in zip(places, lowest, widths, strict=True):
        if width > 1:
            together *= width
            together += values - low
    return np.argsort(together)
