"""`round`, `floor` and `ceil` as Spark does them: a number is rounded as it is written, half away from zero."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions.numbers import WIDEST, Floats, checked, cut_off, floats, rescaled, rounded_off
from millstream.model import types
from millstream.model.types import BIGINT, DataType

_BEYOND_BIGINT = 2.0**63
# A DOUBLE has up to 17 digits; 10 to the 22nd is the greatest power of ten that a DOUBLE holds exactly.
_ALL_DIGITS, _EXACT_POWER = 1e18, 22
_PRECISE = Context(prec=800, rounding=ROUND_HALF_UP, Emin=-2000, Emax=2000)


def rounder(kind: DataType, digits: int, result: DataType) -> Callable[[Any], Any]:
    """`round(x, digits)`."""
    target = arrow_type(result)
    if kind.is_float:
        # Zero is added because Spark rounds by way of a DECIMAL, which has no -0.0.
        return lambda value: pa.array(_rounded(floats(value), digits) + 0.0, mask=_null(value)).cast(target)
    if kind.is_integer and digits >= 0:
        return lambda value: value
    return lambda value: _exact(value, kind, digits, target)


def _exact(value: pa.Array, kind: DataType, digits: int, target: pa.DataType) -> Any:
    """Rounds whole numbers and DECIMALs."""
    precision, scale = types.digits(kind)
    if digits < -types.MOST_DIGITS:
        zero = pc.cast(pa.scalar(0, pa.int64()), target)
        return pc.if_else(pc.is_valid(value), zero, pa.scalar(None, target))
    wide = pc.cast(pc.cast(value, pa.decimal128(precision, scale)), pa.decimal256(WIDEST, scale))
    found = _rounded_exactly(wide, scale - min(digits, scale))
    if pa.types.is_integer(target):
        return pc.cast(pc.cast(found, pa.decimal128(types.MOST_DIGITS, 0)), target)
    return checked(rescaled(found, target), value, value, f"round gives more digits than {target} has")


def _rounded_exactly(wide: pa.Array, count: int) -> pa.Array:
    """The number with zeros for its last digits."""
    if not count:
        return wide
    kept = rounded_off(wide.view(pa.decimal256(WIDEST, count)), count)
    return pc.cast(kept, pa.decimal256(WIDEST, count)).view(wide.type)


def _rounded(values: Floats, digits: int) -> Floats:
    if digits > 330 or not len(values):
        return values
    if digits < -310:
        return np.where(np.isfinite(values), 0.0, values)
    power = 10.0 ** min(abs(digits), 300)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.abs(values) * power if digits >= 0 else np.abs(values) / power
        whole = np.floor(scaled + 0.5)
        found = np.copysign(whole / power if digits >= 0 else whole * power, values)
        # Where the product may fall on the other side of a half than the written number. Only these are rounded as they
        # are written, which takes longer (bench tricks).
        doubtful = np.abs(scaled - np.floor(scaled) - 0.5) <= scaled * 1e-14
        if abs(digits) > _EXACT_POWER:
            doubtful |= scaled > 0
        kept = ~np.isfinite(values) | ((scaled >= _ALL_DIGITS) & (digits >= 0)) | (values == 0)
    found = np.where(kept, values, found)
    rows = np.flatnonzero(doubtful & ~kept)
    if len(rows):
        found[rows] = _as_written(values[rows], digits)
    return found


def _as_written(values: Floats, digits: int) -> Floats:
    """Rounds the shortest text of each number."""
    sizes = np.abs(values)
    if abs(digits) <= _EXACT_POWER and sizes.min() > 1e-20 and sizes.max() < 1e37:
        written = pc.cast(pc.cast(pa.array(values), pa.string()), pa.decimal256(WIDEST, types.MOST_DIGITS))
        return floats(
            pc.cast(pc.cast(_rounded_exactly(written, types.MOST_DIGITS - digits), pa.string()), pa.float64())
        )
    unit = Decimal(1).scaleb(-digits)
    return np.array([float(Decimal(repr(float(value))).quantize(unit, context=_PRECISE)) for value in values])


def whole(kind: DataType, result: DataType, name: str) -> Callable[[Any], Any]:
    """`floor` or `ceil`."""
    target = arrow_type(result)
    if kind.is_integer:
        return lambda value: pc.cast(value, target)
    if result != BIGINT:

        def exact(value: Any) -> Any:
            found = _whole_decimals(pc.cast(value, pa.decimal256(WIDEST, value.type.scale)), name)
            return checked(rescaled(found, target), value, value, f"a value does not fit in {result}")

        return exact
    function = pc.floor if name == "floor" else pc.ceil

    def compute(value: Any) -> Any:
        found = function(pc.cast(value, pa.float64()))
        found = pc.if_else(pc.is_nan(found), pa.scalar(0.0), found)
        limits = pc.min_max(found).as_py()
        if limits["min"] is not None and not -_BEYOND_BIGINT <= limits["min"] <= limits["max"] < _BEYOND_BIGINT:
            raise ArithmeticError(f"a value does not fit in {result}")
        return pc.cast(found, target)

    return compute


def _whole_decimals(wide: pa.Array, name: str) -> pa.Array:
    cut = cut_off(wide, wide.type.scale)
    back = pc.cast(cut, wide.type)
    beside, step = (pc.greater(back, wide), -1) if name == "floor" else (pc.less(back, wide), 1)
    near = cut.view(pa.decimal256(WIDEST - 1, 0))
    return pc.if_else(beside, pc.add(near, pa.scalar(Decimal(step), pa.decimal256(1, 0))), cut)


def _null(value: pa.Array) -> np.ndarray:
    return np.asarray(pc.is_null(value).to_numpy(zero_copy_only=False), dtype=np.bool_)
