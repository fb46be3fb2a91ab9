"""Evaluation on some rows only: an expression that a row does not need is not evaluated for it, so it cannot raise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Ints
from millstream.engine.widths import repeated
from millstream.model.expr import Column

ColumnLookup = Callable[[Column], pa.Array]
Choice = Callable[[ColumnLookup, int], Any]
"""Which of the remaining rows are taken, and a function that computes their values from their columns."""


def narrowed(columns: ColumnLookup, rows: Ints) -> ColumnLookup:
    """The same columns with these rows only, each taken once."""
    taken: dict[Column, pa.Array] = {}
    positions = pa.array(rows)

    def column(which: Column) -> pa.Array:
        known = taken.get(which)
        if known is None:
            known = taken[which] = columns(which).take(positions)
        return known

    return column


def spread(values: pa.Array, rows: Ints, count: int) -> pa.Array:
    """Values put back at their rows, null elsewhere."""
    sources = np.full(count, -1, dtype=np.int64)
    sources[rows] = np.arange(len(rows))
    return values.take(pa.array(sources, mask=sources < 0))


def where_known(
    known: Any, columns: ColumnLookup, count: int, value: Callable[[ColumnLookup], Any], kind: pa.DataType
) -> Any:
    """Evaluates a value on the rows where another one is not null; null elsewhere."""
    if known.is_valid if isinstance(known, pa.Scalar) else not known.null_count:
        return value(columns)
    rows = np.empty(0, dtype=np.int64)
    if not isinstance(known, pa.Scalar):
        rows = np.asarray(pc.indices_nonzero(known.is_valid())).view(np.int64)
    if not len(rows):
        return pa.nulls(count, kind)
    found = value(narrowed(columns, rows))
    return found if isinstance(found, pa.Scalar) else spread(found, rows, count)


def chosen(columns: ColumnLookup, count: int, choices: Iterable[Choice], kind: pa.DataType) -> pa.Array:
    """Each row's value from the first choice that takes it; the last takes all remaining rows."""
    left = np.arange(count)
    rows: list[Ints] = []
    parts: list[pa.Array] = []
    for choice in choices:
        here = columns if len(left) == count else narrowed(columns, left)
        mask, value = choice(here, len(left))
        if mask.any():
            own = left[mask]
            found = value(columns if len(own) == count else narrowed(columns, own))
            parts.append(repeated(found, len(own)) if isinstance(found, pa.Scalar) else found)
            rows.append(own)
        left = left[~mask]
        if not len(left):
            break
    if not parts:
        return pa.nulls(0, kind)
    places = np.empty(count, dtype=np.int64)
    places[np.concatenate(rows)] = np.arange(count)
    return pa.concat_arrays(parts).take(pa.array(places))
