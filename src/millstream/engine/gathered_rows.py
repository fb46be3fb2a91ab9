"""Rows picked from several segments, seen as one.

A small batch meets many state segments with few rows each. Its matches are gathered first, so that they are routed once
instead of once per segment. A key's rows are adjacent, so they are copied in blocks of four, including a few rows that
do not match: numpy copies four numbers in the time of one, with one cache miss. That pays where state is larger than
the CPU caches (bench tricks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from millstream.engine import widths
from millstream.engine.arrow import Bools, Ints
from millstream.engine.columns import Values, as_arrow, taken
from millstream.engine.keys import Codes
from millstream.engine.probe import spread
from millstream.engine.segment import Segment
from millstream.engine.widths import interleaved
from millstream.plan.nodes import Condition

_BITS = 2
_WIDE = 1 << _BITS


class MatchRanges:
    """The matches of one probe in several segments: ranges of rows, segment by segment."""

    def __init__(self, segments: Sequence[Segment], ranges: Sequence[tuple[Ints, Ints]]) -> None:
        begin, counts = (np.concatenate(some) for some in zip(*ranges, strict=True))
        counts -= begin
        every = len(ranges[0][0])
        hit = counts.nonzero()[0]
        self._segments = segments
        self._rows, self._begin, self._counts = hit % every, begin.take(hit), counts.take(hit)
        self._stops = hit.searchsorted(range(every, len(begin) + every, every))
        self._ends = self._counts.cumsum()

    def __len__(self) -> int:
        """The number of pairs."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def of_each(self) -> list[int]:
        """The number of pairs with each segment."""
        upto = [0, *_upto(self._ends, self._stops).tolist()]
        return [stop - start for start, stop in pairwise(upto)]

    def stacked(self, most: int) -> Iterator[GatheredRows] | None:
        """The pairs, at most `most` at a time, made on demand; None where a single row has more matches."""
        if len(self) > most and int(self._counts.max()) > most:
            return None
        return self._parts(most)

    def _parts(self, most: int) -> Iterator[GatheredRows]:
        if len(self) <= most:
            if len(self):
                yield self._part(0, len(self._rows), self._stops)
            return
        for start, stop in widths.stretches(self._counts, most):
            yield self._part(start, stop, np.clip(self._stops, start, stop) - start)

    def _part(self, start: int, stop: int, stops: Ints) -> GatheredRows:
        rows, begin, counts = (some[start:stop] for some in (self._rows, self._begin, self._counts))
        return GatheredRows.of_ranges(self._segments, rows, begin, counts, stops)


def _upto(ends: Ints, stops: Ints) -> Ints:
    """The sums of the numbers before each stop; `ends` are their running sums."""
    return np.concatenate(([0], ends)).take(stops)


class GatheredRows:
    """Has a segment's interface for `Pairs`: times, columns and conditions, by position.

    `rows` are the probing rows of the pairs, `positions` the positions of their matches among the gathered rows. These
    come from `blocks` of each segment in turn, up to its end; a block is so many rows as `bits` can number.
    """

    def __init__(
        self, segments: Sequence[Segment], blocks: Ints, ends: Ints, *, rows: Ints, positions: Ints, bits: int
    ) -> None:
        self._segments, self._blocks, self._ends = segments, blocks, [0, *ends.tolist()]
        self._bits, self._wide = bits, 1 << bits
        self._columns: dict[str, Values] = {}
        self.rows, self.positions = rows, positions

    @classmethod
    def of_ranges(cls, segments: Sequence[Segment], rows: Ints, begin: Ints, counts: Ints, stops: Ints) -> GatheredRows:
        """Of ranges of rows, with the probing row of each; `stops` are where the ranges of each segment end."""
        first = begin >> _BITS
        blocks = ((begin + counts + (_WIDE - 1)) >> _BITS) - first
        ends = blocks.cumsum()
        positions = spread(((ends - blocks) << _BITS) + (begin & (_WIDE - 1)), counts)
        upto, every = _upto(ends, stops), spread(first, blocks)
        return cls(segments, every, upto, rows=rows.repeat(counts), positions=positions, bits=_BITS)

    @classmethod
    def of_pairs(cls, found: Sequence[tuple[Segment, Ints, Ints]]) -> GatheredRows:
        """Of pairs of a probing row and a row of a segment, segment by segment."""
        segments, rows, matches = zip(*found, strict=True)
        every, ends = np.concatenate(matches), np.cumsum([len(some) for some in matches])
        return cls(segments, every, ends, rows=np.concatenate(rows), positions=np.arange(len(every)), bits=0)

    @cached_property
    def times(self) -> Ints:
        return self._picked([segment.times for segment in self._segments])

    def numbers(self, name: str) -> Ints:
        """A column of whole numbers without nulls."""
        return self._picked([segment.numbers(name) for segment in self._segments])

    def row_keys(self) -> Codes:
        """The code of each row."""
        return self._picked([segment.row_keys() for segment in self._segments])

    def passes(self, condition: Condition, evaluate: Callable[[Segment], Bools]) -> Bools:
        return self._picked([segment.passes(condition, evaluate) for segment in self._segments])

    def gather(self, name: str, positions: Ints) -> pa.Array:
        if name not in self._columns:
            column = self._column(name)
            if column is None:
                return self._gathered(name, positions)
            self._columns[name] = column
        return as_arrow(taken(self._columns[name], positions), self._segments[0].frame.kinds[name])

    def widest(self, names: Sequence[str]) -> int:
        """An upper bound on the bytes a row takes in these columns."""
        return max(segment.widest(names) for segment in self._segments)

    def widths(self, names: Sequence[str]) -> Ints:
        """The bytes each picked row takes in these columns."""
        return self._picked([segment.widths(names) for segment in self._segments])

    def _gathered(self, name: str, positions: Ints) -> pa.Array:
        """A column with wide rows at these positions only, without the other rows of their blocks."""
        blocks = positions >> self._bits
        rows = (self._blocks.take(blocks) << self._bits) + (positions & (self._wide - 1))
        owners = np.searchsorted(self._ends[1:], blocks, side="right")
        return interleaved(
            owners, lambda owner, own: self._segments[owner].gather(name, rows.take(own)), pa.concat_arrays
        )

    def _column(self, name: str) -> Values | None:
        """A column of all picked rows: a NumPy array where it is one in every segment. None where the rows may be too
        wide.
        """
        if name == self._segments[0].time:
            return self.times
        values = [segment.frame.values[name] for segment in self._segments]
        if all(isinstance(some, np.ndarray) for some in values):
            return self._picked(values)
        if self.widest([name]) * len(self._blocks) * self._wide > widths.CHUNK_BYTES:
            return None
        picked = []
        for segment, (start, stop) in zip(self._segments, pairwise(self._ends), strict=True):
            rows = (self._blocks[start:stop, None] << self._bits) + np.arange(self._wide)
            picked.append(segment.gather(name, np.minimum(rows.ravel(), len(segment) - 1)))
        return pa.concat_arrays(picked)

    @cached_property
    def _last(self) -> list[Ints]:
        """For each segment, which of the picked blocks are its last block, if that one is incomplete."""
        spans = zip(self._segments, pairwise(self._ends), strict=True)
        return [np.flatnonzero(self._blocks[start:stop] == len(part) >> self._bits) for part, (start, stop) in spans]

    def _picked(self, values: Sequence[np.ndarray]) -> np.ndarray:
        if not self._bits:
            spans = zip(values, pairwise(self._ends), strict=True)
            return np.concatenate([part.take(self._blocks[start:stop], mode="clip") for part, (start, stop) in spans])
        picked = np.empty((self._ends[-1], self._wide), dtype=values[0].dtype)
        for part, last, (start, stop) in zip(values, self._last, pairwise(self._ends), strict=True):
            whole = len(part) & -self._wide
            if whole:
                blocks = part[:whole].reshape(-1, self._wide)
                blocks.take(self._blocks[start:stop], axis=0, mode="clip", out=picked[start:stop])
            if len(last):
                picked[start + last, : len(part) - whole] = part[whole:]
        return picked.ravel()
