"""The result of an expression as a column or a mask with a given number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Bools
from millstream.engine.expressions.numbers import plain_cast
from millstream.engine.widths import repeated


def as_mask(value: Any, rows: int) -> Bools:
    if isinstance(value, pa.Scalar):
        return np.full(rows, bool(value.as_py()), dtype=np.bool_)
    return np.asarray(pc.fill_null(value, False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def as_bools(value: pa.Array) -> Bools:
    """A writable NumPy array, from an array without nulls."""
    return np.array(value.to_numpy(zero_copy_only=False), dtype=np.bool_)


def as_array(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """A result as a column of this type, which can hold every value; a constant is repeated."""
    if isinstance(value, pa.Scalar):
        return repeated(plain_cast(value, kind), rows)
    return plain_cast(value, kind)
