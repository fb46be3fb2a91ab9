"""A segment: immutable rows of one stream, with what a probe needs to find them.

An *indexed* segment is sorted by key code and time, so by partition group too. The index is the distinct codes and
where each begins; times within a code are searched in place. A segment that is only scanned is in order of time, so
building it and joining it to its neighbours is no more than appending; it is sorted when it is first probed by index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.engine.arrow import Bools, Ints
from millstream.engine.columns import Columns, merged
from millstream.engine.groups import Groups
from millstream.engine.keys import Codes
from millstream.plan.nodes import Condition, Signature

_FEW = 8_192
"""With so few keys a binary search is as fast as a lookup table that has to be built first."""
_STEPS = 2
"""How many neighbours are compared before a binary search finds the few remaining codes."""


@dataclass(frozen=True, eq=False)
class Segment:
    """`batch` is when its youngest row arrived; a row is needed until the watermark passes its time plus `reach`.

    `times` is the time column, not a copy of it; `first` is the least and `last` the greatest. A small segment keeps
    the codes of its rows, because it will soon be merged. Its rows came too late for the chains it is hidden from. One
    with `groups` is a part of what was built: its files hold rows of other groups too. Where it is not indexed, `keys`
    are the codes of all rows and there are no `starts`.
    """

    number: int
    batch: int
    reach: int
    frame: Columns
    time: str
    first: int
    last: int
    times: Ints
    keys: Codes
    starts: Ints
    hidden_from: frozenset[Signature] = frozenset()
    groups: Groups | None = None
    is_indexed: bool = True
    _codes: Codes | None = field(default=None, repr=False)
    _passed: dict[Condition, Bools] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def is_in_time(self) -> bool:
        """Whether its rows are in order of time."""
        return not self.is_indexed or len(self.keys) == 1

    @property
    def lot(self) -> Lot:
        return Lot(self.reach, self.hidden_from)

    def open(self) -> Segment:
        return self

    @cached_property
    def rows(self) -> pa.RecordBatch:
        return self.frame.rows()

    @property
    def nbytes(self) -> int:
        """The bytes of the rows, the index and the masks of selections."""
        heads = self._heads.nbytes if "_heads" in self.__dict__ else 0
        codes = 0 if self._codes is None else self._codes.nbytes
        masks = sum(mask.nbytes for mask in self._passed.values())
        resorted = self._sorted_copy.nbytes if self.is_resorted else 0
        return int(self.frame.nbytes + self.keys.nbytes + self.starts.nbytes + heads + codes + masks + resorted)

    @property
    def indexed(self) -> Segment:
        """The segment as a probe by index needs it; its rows may have other positions there."""
        return self if self.is_indexed else self._sorted_copy

    @property
    def is_resorted(self) -> bool:
        """Whether it was to be scanned and has been probed by index since."""
        return "_sorted_copy" in self.__dict__

    @cached_property
    def _sorted_copy(self) -> Segment:
        return merge(self.number, [self])

    @cached_property
    def bulk(self) -> int:
        """The bytes of the columns whose width is not fixed by their types."""
        return self.frame.bulk

    def widest(self, names: Sequence[str]) -> int:
        """An upper bound on the bytes a row takes in these columns."""
        return sum(map(self.frame.widest, names))

    def widths(self, names: Sequence[str]) -> Ints:
        """The bytes each row takes in these columns."""
        return sum(map(self.frame.widths, names), np.zeros(len(self), dtype=np.int64))

    @cached_property
    def counts(self) -> Ints:
        """How many rows each of the keys has."""
        return np.diff(self.starts) if self.is_indexed else np.ones(len(self), dtype=np.int64)

    def passes(self, condition: Condition, evaluate: Callable[[Segment], Bools]) -> Bools:
        """Which rows pass a condition, computed on first use."""
        known = self._passed.get(condition)
        if known is None:
            known = self._passed[condition] = evaluate(self)
        return known

    def gather(self, name: str, positions: Ints) -> pa.Array:
        """A column at these rows."""
        return self.frame.gather(name, positions)

    @cached_property
    def _heads(self) -> npt.NDArray[np.int32]:
        """Where the keys with the same leading bits begin. Codes are uniform, so there are few keys to each."""
        sizes = np.bincount(_leading(self.keys, self._bits), minlength=1 << self._bits)
        return (np.cumsum(sizes) - sizes).astype(np.int32)

    @property
    def _bits(self) -> int:
        return len(self.keys).bit_length() + 1

    def ranges(self, codes: Codes) -> tuple[Ints, Ints]:
        """The rows of each code in an indexed segment, from the first up to but not including the second; an empty
        range for a code that is not here.
        """
        positions = np.searchsorted(self.keys, codes) if len(self.keys) < _FEW else self._positions(codes)
        begin = self.starts.take(positions, mode="clip")
        end = self.starts.take(positions + 1, mode="clip")
        np.copyto(end, begin, where=self.keys.take(positions, mode="clip") != codes)
        return begin, end

    def _positions(self, codes: Codes) -> Ints:
        """The position of the first key not below each code, by its leading bits: faster than a binary search (bench
        tricks).
        """
        positions = self._heads.take(_leading(codes, self._bits)).astype(np.int64)
        for _ in range(_STEPS):
            positions += self.keys.take(positions, mode="clip") < codes
        behind = np.flatnonzero(self.keys.take(positions, mode="clip") < codes)
        if len(behind):
            positions[behind] = np.searchsorted(self.keys, codes.take(behind))
        return positions

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

    def numbers(self, name: str) -> Ints:
        """A column of whole numbers without nulls."""
        return np.asarray(self.frame.values[name])

    def row_keys(self) -> Codes:
        """The code of each row."""
        if not self.is_indexed:
            return self.keys
        return self.keys.repeat(self.counts) if self._codes is None else self._codes


def _leading(codes: Codes, bits: int) -> Ints:
    return (codes >> np.uint64(64 - bits)).view(np.int64)


class Lot(NamedTuple):
    """Which segments may be merged: rows needed equally long, in time for the same chains."""

    reach: int
    hidden_from: frozenset[Signature] = frozenset()


def build(
    number: int, batch: int, lot: Lot, rows: pa.RecordBatch, time: str, codes: Codes, *, indexed: bool = True
) -> Segment:
    """Makes a segment of rows: sorted by key where it is `indexed`, else in order of time, as rows mostly come."""
    frame = Columns.of(rows)
    times = frame.values[time]
    in_time = bool((times[1:] >= times[:-1]).all())
    span = (int(times[0]), int(times[-1])) if in_time else (int(times.min()), int(times.max()))
    if not indexed:
        order = None if in_time else np.argsort(times, kind="stable")
        frame, codes = (frame.copy(), codes.copy()) if order is None else (frame.take(order), codes.take(order))
        return _in_time(number, batch, lot, frame, time, span, codes)
    order = _order(codes) if in_time else np.lexsort((times, codes))
    return _sorted(number, batch, lot, frame.take(order), time, span, codes.take(order))


def merge(number: int, parts: list[Segment], expired: int = -(2**62), *, indexed: bool = True) -> Segment:
    """Merges neighbours of the same lot, oldest first, into one segment, without expired rows."""
    if not indexed:
        return _appended(number, parts, expired)
    codes = np.concatenate([part.row_keys() for part in parts])
    first, last = min(part.first for part in parts), max(part.last for part in parts)
    times = np.concatenate([part.times for part in parts])
    in_time = _follow(parts)
    kept = None
    if first <= expired:
        kept = np.flatnonzero(times > expired)
        codes, times = codes.take(kept), times.take(kept)
        first = int(times.min())
    order = np.argsort(codes, kind="stable") if in_time else np.lexsort((times, codes))
    codes = codes.take(order)
    if kept is not None:
        order = kept.take(order)
    some, newest = parts[0], max(part.batch for part in parts)
    frame = merged([part.frame for part in parts], order)
    return _sorted(number, newest, some.lot, frame, some.time, (first, last), codes)


def _appended(number: int, parts: list[Segment], expired: int) -> Segment:
    """The same in order of time: nothing is sorted where one part follows the other in time."""
    codes = np.concatenate([part.row_keys() for part in parts])
    times = np.concatenate([part.times for part in parts])
    order = None
    if not (_follow(parts) and all(part.is_in_time for part in parts)):
        order = np.argsort(times, kind="stable")
        times = times.take(order)
    begin = int(np.searchsorted(times, expired, side="right"))
    if begin:
        order = np.arange(begin, len(times)) if order is None else order[begin:]
    some, newest = parts[0], max(part.batch for part in parts)
    frame = merged([part.frame for part in parts], order)
    codes = codes if order is None else codes.take(order)
    return _in_time(number, newest, some.lot, frame, some.time, (int(times[begin]), int(times[-1])), codes)


def _follow(parts: list[Segment]) -> bool:
    """Whether no row of a part is later than one of the next."""
    return all(a.last <= b.first for a, b in pairwise(parts))


def _in_time(
    number: int, batch: int, lot: Lot, frame: Columns, time: str, span: tuple[int, int], codes: Codes
) -> Segment:
    """A segment of rows in order of time; those of a single key are indexed by that already."""
    is_one = bool((codes == codes[0]).all())
    keys, starts = (codes[:1].copy(), np.array([0, len(codes)])) if is_one else (codes, np.empty(0, dtype=np.int64))
    times = frame.values[time]
    return Segment(
        number, batch, lot.reach, frame, time, *span, times, keys, starts, lot.hidden_from, is_indexed=is_one
    )


def _sorted(
    number: int, batch: int, lot: Lot, frame: Columns, time: str, span: tuple[int, int], codes: Codes
) -> Segment:
    fresh = np.empty(len(codes) + 1, dtype=np.bool_)
    fresh[0] = fresh[-1] = True
    np.not_equal(codes[1:], codes[:-1], out=fresh[1:-1])
    starts = fresh.nonzero()[0]
    kept = codes if len(codes) < _FEW else None
    keys, times = codes.take(starts[:-1]), frame.values[time]
    return Segment(number, batch, lot.reach, frame, time, *span, times, keys, starts, lot.hidden_from, _codes=kept)


def picked(number: int, segment: Segment, rows: Ints, codes: Codes, groups: Groups | None) -> Segment:
    """Some rows of a segment, in order and with their codes, as a segment of their own: those of these groups."""
    frame = segment.frame.take(rows)
    times = frame.values[segment.time]
    span = int(times.min()), int(times.max())
    make = _sorted if segment.is_indexed else _in_time
    found = make(number, segment.batch, segment.lot, frame, segment.time, span, codes)
    return replace(found, groups=groups)


def _order(codes: Codes) -> Ints:
    """The stable order of codes.

    Positions replace the last bits of the codes, so that plain numbers are sorted, which is faster (bench tricks).
    Codes that differ only in these bits are rare and may come out in the wrong order: then the whole codes are sorted.
    """
    last = np.uint64((1 << len(codes).bit_length()) - 1)
    mixed = codes & ~last
    mixed |= np.arange(len(codes), dtype=np.uint64)
    mixed.sort()
    mixed &= last
    order = mixed.view(np.int64)
    ordered = codes.take(order)
    return order if (ordered[1:] >= ordered[:-1]).all() else np.argsort(codes, kind="stable")
