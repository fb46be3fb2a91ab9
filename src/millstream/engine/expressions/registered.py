"""Calls of users' functions: whole columns in, one column of as many rows out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import arrow_type
from millstream.engine.widths import checked
from millstream.errors import InternalError
from millstream.model.functions import Function
from millstream.model.types import DataType

Arrays = Sequence[pa.Array]
_EXACT = 1 << 53


def caller(function: Function, result: DataType) -> Callable[[Arrays, int], pa.Array]:
    """Calls the function on columns, and accepts only a column of as many rows back."""
    if function.call is None:
        raise InternalError(f"{function.name} has no body")
    call, kind = function.call, arrow_type(result)

    def compute(columns: Arrays, rows: int) -> pa.Array:
        given = call(*(_given(function.name, column) for column in columns))
        count = _length(given)
        if count is None:
            raise TypeError(
                f"{function.name} was given {rows} rows and gave no column but {_described(given)}; "
                "a function gives an array or a list with one value for every row"
            )
        if count != rows:
            raise ValueError(
                f"{function.name} was given {rows} rows and gave {count} values; "
                "a function gives one value for every row"
            )
        return _column(function.name, given, kind, result)

    return compute


def _given(name: str, column: pa.Array) -> np.ndarray:
    """A column as a NumPy array. With a null among them integers become floats, which hold 53 bits."""
    if column.null_count and pa.types.is_int64(column.type):
        low, high = (pc.min_max(column)[which].as_py() or 0 for which in ("min", "max"))
        if max(-low, high) > _EXACT:
            raise ValueError(
                f"{name} was given a missing value beside integers beyond 2^53, which would be rounded; "
                "give it coalesce(..., 0), or the column cast to STRING"
            )
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _length(given: Any) -> int | None:
    """How many values a result has, or None if it is not a column."""
    if isinstance(given, list | tuple | pa.Array | pa.ChunkedArray):
        return len(given)
    shape = getattr(given, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and len(shape) == 1 else None


def _described(given: Any) -> str:
    shape = getattr(given, "shape", None)
    return f"{type(given).__name__}" if shape is None else f"{type(given).__name__} of shape {shape}"


def _column(name: str, given: Any, kind: pa.DataType, result: DataType) -> pa.Array:
    try:
        if isinstance(given, pa.ChunkedArray):
            given = given.combine_chunks()
        if isinstance(given, pa.Array):
            return given.cast(kind)
        if isinstance(given, np.ma.MaskedArray):
            return checked(pa.array(given.data, type=kind, mask=np.ma.getmaskarray(given), from_pandas=True))
        plain = given if isinstance(given, list | tuple) else np.asarray(given)
        # NumPy has no null: a null number goes in as NaN, and NaN comes back as null.
        return checked(pa.array(plain, type=kind, from_pandas=True))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError) as error:
        raise TypeError(f"{name} gave values that cannot be {result}: {error}") from error
