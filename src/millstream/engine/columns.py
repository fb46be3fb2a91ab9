"""Rows as columns that numpy can take from: fixed-width columns without nulls are NumPy arrays, all others Arrow
arrays.

Arrow wraps an array as a column without a copy, so results stay Arrow. A batch of a thousand rows passes through dozens
of takes, and each takes numpy less than half the time that Arrow needs to create its objects (bench tricks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import Ints
from millstream.engine.widths import bytes_of, is_bulky, widths

Values: TypeAlias = "np.ndarray | pa.Array"


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of the same rows, by name."""

    schema: pa.Schema
    kinds: dict[str, pa.DataType]
    values: dict[str, Values]
    _widths: dict[str, Ints] = field(default_factory=dict, repr=False)
    _widest: dict[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Columns:
        names, kinds = rows.schema.names, rows.schema.types
        values = {name: _plain(column, kind) for name, column, kind in zip(names, rows.columns, kinds, strict=True)}
        return cls(rows.schema, dict(zip(names, kinds, strict=True)), values)

    @property
    def nbytes(self) -> int:
        return sum(some.nbytes for some in self.values.values())

    @property
    def bulk(self) -> int:
        """The bytes of the columns whose width is not fixed by their types."""
        return sum(bytes_of(some) for some in self.values.values() if not isinstance(some, np.ndarray))

    def widest(self, name: str) -> int:
        """The bytes of the widest row of a column; zero where its type fixes the width."""
        known = self._widest.get(name)
        if known is None:
            values = self.values[name]
            varies = not isinstance(values, np.ndarray) and is_bulky(values.type)
            known = self._widest[name] = int(widths(values).max(initial=0)) if varies else 0
        return known

    def widths(self, name: str) -> Ints:
        """The bytes of each row of a variable-width column."""
        if name not in self._widths:
            self._widths[name] = widths(self.values[name])
        return self._widths[name]

    def take(self, positions: Ints) -> Columns:
        return Columns(self.schema, self.kinds, {name: taken(some, positions) for name, some in self.values.items()})

    def copy(self) -> Columns:
        """The same rows, in memory of their own."""
        values = {
            name: some.copy() if isinstance(some, np.ndarray) else taken(some, np.arange(len(some)))
            for name, some in self.values.items()
        }
        return Columns(self.schema, self.kinds, values)

    def gather(self, name: str, positions: Ints) -> pa.Array:
        """A column at these rows, as an Arrow array."""
        return as_arrow(taken(self.values[name], positions), self.kinds[name])

    def rows(self) -> pa.RecordBatch:
        columns = [as_arrow(some, kind) for some, kind in zip(self.values.values(), self.kinds.values(), strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def merged(parts: Sequence[Columns], order: Ints | None) -> Columns:
    """Rows picked from several, whose rows are numbered consecutively; without an `order` all of them."""
    schema, kinds = parts[0].schema, parts[0].kinds
    values: dict[str, Values] = {}
    for name, kind in kinds.items():
        every = _joined([part.values[name] for part in parts], kind)
        values[name] = every if order is None else taken(every, order)
    return Columns(schema, kinds, values)


def _joined(parts: Sequence[Values], kind: pa.DataType) -> Values:
    """The parts concatenated: a NumPy array where every part is one."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return pa.concat_arrays([as_arrow(part, kind) for part in parts])


def taken(some: Values, positions: Ints) -> Values:
    """The values at positions that are known to be in range."""
    if isinstance(some, np.ndarray):
        return some.take(positions, mode="clip")
    return some.take(pa.array(positions))


def as_arrow(some: Values, kind: pa.DataType) -> pa.Array:
    if isinstance(some, np.ndarray):
        return pa.Array.from_buffers(kind, len(some), [None, pa.py_buffer(some)])
    return some


def _plain(column: pa.Array, kind: pa.DataType) -> Values:
    """The values as a NumPy array without a copy, where the type and the nulls allow it."""
    dtype = _dtype(kind)
    if dtype is None or column.null_count or not len(column):
        return column
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


@cache
def _dtype(kind: pa.DataType) -> np.dtype | None:
    """The NumPy type of a fixed-width type's values."""
    if not pa.types.is_primitive(kind) or pa.types.is_boolean(kind) or kind.bit_width > 64:
        return None
    if pa.types.is_temporal(kind):
        return np.dtype(np.int32 if kind.bit_width == 32 else np.int64)
    dtype: np.dtype = np.dtype(kind.to_pandas_dtype())
    return dtype
