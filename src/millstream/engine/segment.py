"""A segment: immutable rows of one stream, sorted by key code and time, with what a probe needs to find them.

Sorted by code they are sorted by partition group too. The index is the distinct codes and where each begins; times
within a code are searched in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Bools, Ints, microseconds
from millstream.engine.keys import GROUP_BITS, Codes
from millstream.model.expr import Expr

Condition = frozenset[Expr]
_STEPS = 2
"""How many neighbours are looked at before the few codes still not found are searched for."""


@dataclass(frozen=True, eq=False)
class Segment:
    """`batch` is when its youngest row arrived; a row is needed until the watermark passes its time plus `reach`.

    `times` is a view of the time column, not a copy.
    """

    number: int
    side: str
    batch: int
    reach: int
    rows: pa.RecordBatch
    time: str
    times: Ints
    keys: Codes
    starts: Ints
    _passed: dict[Condition, Bools] = field(default_factory=dict, repr=False)
    _columns: dict[str, tuple[pa.Array, pa.DataType, np.ndarray | None]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def first(self) -> int:
        return int(self.times.min())

    @cached_property
    def last(self) -> int:
        return int(self.times.max())

    @property
    def nbytes(self) -> int:
        """Rows and index."""
        heads = self._heads.nbytes if "_heads" in self.__dict__ else 0
        return int(self.rows.nbytes + self.keys.nbytes + self.starts.nbytes + heads)

    @cached_property
    def counts(self) -> Ints:
        """How many rows each key has."""
        return np.diff(self.starts)

    def group_ranges(self) -> Ints:
        """Where each partition group's rows begin, and where the last ends."""
        bounds = np.arange(1, 1 << GROUP_BITS, dtype=np.uint64) << np.uint64(64 - GROUP_BITS)
        inner = self.starts[np.searchsorted(self.keys, bounds)]
        return np.concatenate(([0], inner, [len(self)]))

    def passes(self, condition: Condition, evaluate: Callable[[Segment], Bools]) -> Bools:
        """Which rows pass a condition, computed when first asked for."""
        known = self._passed.get(condition)
        if known is None:
            known = self._passed[condition] = evaluate(self)
        return known

    def gather(self, name: str, positions: Ints) -> pa.Array:
        """A column at these rows."""
        column, kind, plain = self._columns.get(name) or self._look_up(name)
        if plain is None:
            return pc.take(column, pa.array(positions), boundscheck=False)
        return as_arrow(plain, kind, positions)

    def plain(self, name: str) -> np.ndarray | None:
        """A column's values as they lie in memory, where they are fixed-width and none is null."""
        return (self._columns.get(name) or self._look_up(name))[2]

    def _look_up(self, name: str) -> tuple[pa.Array, pa.DataType, np.ndarray | None]:
        column = self.rows.column(name)
        found = self._columns[name] = (column, column.type, _plain(column))
        return found

    @cached_property
    def _heads(self) -> npt.NDArray[np.int32]:
        """Where the keys with the same leading bits begin. Codes are uniform, so there is about one key to each."""
        bits = len(self.keys).bit_length()
        sizes = np.bincount(_leading(self.keys, bits), minlength=1 << bits)
        return (np.cumsum(sizes) - sizes).astype(np.int32)

    def ranges(self, codes: Codes) -> tuple[Ints, Ints]:
        """The rows of each code, from the first up to but not including the second; none where it is no key."""
        places = self._heads.take(_leading(codes, len(self.keys).bit_length())).astype(np.int64)
        met = self.keys.take(places, mode="clip")
        behind = np.flatnonzero(met < codes)
        for _ in range(_STEPS):
            places[behind] += 1
            met[behind] = self.keys.take(places[behind], mode="clip")
            behind = behind[met[behind] < codes[behind]]
        if len(behind):
            places[behind] = np.searchsorted(self.keys, codes[behind])
            met[behind] = self.keys.take(places[behind], mode="clip")
        np.minimum(places, len(self.keys) - 1, out=places)
        begin = self.starts.take(places)
        end = self.starts.take(places + 1)
        np.copyto(end, begin, where=met != codes)
        return begin, end

    def locate(self, begin: Ints, end: Ints, times: Ints) -> Ints:
        """In each range of rows of one key, the first row not before a time: a binary search of all ranges at once."""
        found = begin.copy()
        step = 1 << int((end - begin).max(initial=0)).bit_length()
        while step > 1:
            step >>= 1
            further = found + step
            later = further <= end
            later &= self.times.take(further - 1, mode="clip") < times
            np.copyto(found, further, where=later)
        return found

    def row_keys(self) -> Codes:
        return np.repeat(self.keys, self.counts)


def _leading(codes: Codes, bits: int) -> Ints:
    return (codes >> np.uint64(64 - bits)).view(np.int64)


def build(number: int, side: str, batch: int, reach: int, rows: pa.RecordBatch, time: str, codes: Codes) -> Segment:
    """Sorts rows into a segment."""
    times = microseconds(rows.column(time))
    in_time = len(times) < 2 or bool(np.all(times[1:] >= times[:-1]))
    order = np.argsort(codes, kind="stable") if in_time else np.lexsort((times, codes))
    return _sorted(number, side, batch, reach, rows.take(pa.array(order)), time, codes.take(order))


def merge(number: int, parts: list[Segment], expired: int = -(2**62)) -> Segment:
    """One segment of neighbours of the same lane, oldest first, without rows up to the time that has expired."""
    codes = np.concatenate([part.row_keys() for part in parts])
    kept = None
    if min(part.first for part in parts) <= expired:
        kept = np.flatnonzero(np.concatenate([part.times for part in parts]) > expired)
        codes = codes.take(kept)
    if all(a.last <= b.first for a, b in pairwise(parts)):
        order = np.argsort(codes, kind="stable")
    else:
        times = np.concatenate([part.times for part in parts])
        order = np.lexsort((times if kept is None else times.take(kept), codes))
    codes = codes.take(order)
    if kept is not None:
        order = kept.take(order)
    some, newest = parts[0], max(part.batch for part in parts)
    columns = [_picked(parts, name, order) for name in some.rows.schema.names]
    rows = pa.RecordBatch.from_arrays(columns, schema=some.rows.schema)
    return _sorted(number, some.side, newest, some.reach, rows, some.time, codes)


def _sorted(number: int, side: str, batch: int, reach: int, rows: pa.RecordBatch, time: str, codes: Codes) -> Segment:
    begins = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    times, starts = microseconds(rows.column(time)), np.append(begins, len(codes))
    return Segment(number, side, batch, reach, rows, time, times, codes[begins], starts)


def _picked(parts: list[Segment], name: str, order: Ints) -> pa.Array:
    """Rows of one column of several segments, numbered through."""
    plain = [values for part in parts if (values := part.plain(name)) is not None]
    if len(plain) == len(parts):
        return as_arrow(np.concatenate(plain), parts[0].rows.schema.field(name).type, order)
    return pa.chunked_array([part.rows.column(name) for part in parts]).take(pa.array(order)).combine_chunks()


def as_arrow(plain: np.ndarray, kind: pa.DataType, positions: Ints) -> pa.Array:
    """These positions of plain values; numpy's memory is used again sooner than Arrow's, which makes this faster."""
    return pa.Array.from_buffers(kind, len(positions), [None, pa.py_buffer(plain.take(positions, mode="clip"))])


def _plain(column: pa.Array) -> np.ndarray | None:
    """The values without a copy, where they are fixed-width and none is null."""
    kind = column.type
    if column.null_count or not (pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)):
        return None
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return np.asarray(column)
