"""Rows picked from several segments, seen as one.

A small batch meets many state segments with few rows each. Stacked, its matches are routed, gathered and given out
once, instead of once per segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import Bools, Ints
from millstream.engine.segment import Condition, Segment


class Stacked:
    """Behaves as a segment towards pairs: it has times, columns and conditions, by position."""

    def __init__(self, parts: Sequence[tuple[Segment, Ints]]) -> None:
        self._parts = parts
        self._columns: dict[str, pa.Array] = {}

    @cached_property
    def times(self) -> Ints:
        return np.concatenate([segment.times.take(rows, mode="clip") for segment, rows in self._parts])

    def passes(self, condition: Condition, evaluate: Callable[[Segment], Bools]) -> Bools:
        passed = [segment.passes(condition, evaluate).take(rows) for segment, rows in self._parts]
        return np.concatenate(passed)

    def gather(self, name: str, positions: Ints) -> pa.Array:
        if name not in self._columns:
            self._columns[name] = self._column(name)
        column = self._columns[name]
        if isinstance(column, np.ndarray):
            kind = self._parts[0][0].rows.schema.field(name).type
            return pa.Array.from_buffers(
                kind, len(positions), [None, pa.py_buffer(column.take(positions, mode="clip"))]
            )
        return column.take(pa.array(positions))

    def _column(self, name: str) -> pa.Array | np.ndarray:
        """All picked rows of a column: plain where it is plain in every segment."""
        plain = [segment.plain(name) for segment, _ in self._parts]
        if any(values is None for values in plain):
            return pa.concat_arrays([segment.gather(name, rows) for segment, rows in self._parts])
        picked = [v.take(rows, mode="clip") for v, (_, rows) in zip(plain, self._parts, strict=True) if v is not None]
        return np.concatenate(picked)
