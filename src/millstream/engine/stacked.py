"""Rows picked from several segments, seen as one.

A small batch meets many state segments with few rows each. Stacked, its matches are routed, gathered and given out
once, instead of once per segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import Bools, Ints
from millstream.engine.frame import Values, as_arrow, taken
from millstream.engine.segment import Condition, Segment

_APART = 6


class Stacked:
    """Behaves as a segment towards pairs: it has times, columns and conditions, by position."""

    def __init__(self, parts: Sequence[tuple[Segment, Ints]]) -> None:
        self._parts = parts
        self._ends = [0, *accumulate(len(rows) for _, rows in parts)]
        self._some = [rows[::_APART].copy() for _, rows in parts]
        self._columns: dict[str, Values] = {}

    @cached_property
    def times(self) -> Ints:
        return self._picked([segment.times for segment, _ in self._parts])

    def passes(self, condition: Condition, evaluate: Callable[[Segment], Bools]) -> Bools:
        passed = [segment.passes(condition, evaluate).take(rows) for segment, rows in self._parts]
        return np.concatenate(passed)

    def gather(self, name: str, positions: Ints) -> pa.Array:
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return as_arrow(taken(self._columns[name], positions), self._parts[0][0].frame.kinds[name])

    def _column(self, name: str) -> Values:
        """All picked rows of a column: plain where it is plain in every segment."""
        if name == self._parts[0][0].time:
            return self.times
        values = [segment.frame.values[name] for segment, _ in self._parts]
        if all(isinstance(some, np.ndarray) for some in values):
            return self._picked(values)
        return pa.concat_arrays([segment.gather(name, rows) for segment, rows in self._parts])

    def _picked(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Every few rows are read first: so the processor waits for many cache lines at once."""
        picked = np.empty(self._ends[-1], dtype=values[0].dtype)
        for part, some, (_, rows), (start, stop) in zip(
            values, self._some, self._parts, pairwise(self._ends), strict=True
        ):
            part.take(some, mode="clip")
            part.take(rows, mode="clip", out=picked[start:stop])
        return picked
