"""CAST and TRY_CAST: for every pair of types a function that gives null where the other type cannot hold a value.

TRY_CAST is this function; CAST raises where it makes a null of a value, and names the value.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions import text_casts
from millstream.engine.expressions.numbers import (
    WIDEST,
    exact_to_integer,
    floats,
    limits,
    only_where,
    plain_cast,
    rescaled,
)
from millstream.errors import InternalError
from millstream.model import types
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP, DataType, Family

Cast = Callable[[pa.Array], pa.Array]
_SHOWN = 40
_SECOND = 1_000_000
_TOP = 2.0**63


def cast(source: DataType, target: DataType) -> Cast:
    """Raises where a value cannot be cast."""
    attempt = try_cast(source, target)
    if types.widens(source, target):
        return attempt

    def compute(value: pa.Array) -> pa.Array:
        found = attempt(value)
        if found.null_count > value.null_count:
            lost = pc.and_(pc.is_valid(value), pc.is_null(found))
            if source.is_float and target.name == "DECIMAL":
                # NaN and the infinities cannot be a DECIMAL; Spark gives null too.
                lost = pc.and_(lost, pc.is_finite(value))
            if pc.any(lost).as_py():
                raise ValueError(f"{_shown(value.filter(lost)[0])} cannot be CAST to {target}; TRY_CAST gives NULL")
        return found

    return compute


def _shown(value: pa.Scalar) -> str:
    text = repr(str(value.as_py()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def try_cast(source: DataType, target: DataType) -> Cast:
    """Null where a value cannot be cast."""
    kind = arrow_type(target)
    if source == target:
        return lambda value: value
    if source.family == Family.NULL:
        return lambda value: pa.nulls(len(value), kind)
    if source.family == Family.STRING:
        return text_casts.from_text(target)
    if target.family == Family.STRING:
        return text_casts.to_text(source)
    if source.family == Family.BOOLEAN:
        rest = try_cast(types.TINYINT, target) if target != types.TINYINT else lambda value: value
        return lambda value: rest(pc.cast(value, pa.int8()))
    if target == BOOLEAN:
        return lambda value: pc.not_equal(value, _zero(value.type))
    if source.family == Family.TIME:
        return _from_time(source, target)
    if target == TIMESTAMP:
        return _to_timestamp(source)
    return _between_numbers(source, target)


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)


def _between_numbers(source: DataType, target: DataType) -> Cast:
    kind = arrow_type(target)
    if target.is_float:
        # A value beyond FLOAT's range becomes infinity.
        return lambda value: plain_cast(value, kind) if source != DOUBLE else pc.cast(value, kind, safe=False)
    if target.is_integer:
        if source.is_float:
            return lambda value: _float_to_integer(value, kind)
        if source.is_integer:
            return lambda value: _integer_to_integer(value, kind)
        return lambda value: exact_to_integer(value, kind)
    if target.name != "DECIMAL":
        raise InternalError(f"no cast from {source} to {target}")
    if types.widens(source, target):
        return lambda value: pc.cast(value, kind)
    if source.is_float:
        return lambda value: rescaled(_written(pc.cast(value, pa.float64())), kind)
    own = pa.decimal128(*types.digits(source))
    return lambda value: rescaled(pc.cast(value, own), kind)


def _integer_to_integer(value: pa.Array, kind: pa.DataType) -> pa.Array:
    if value.type.bit_width <= kind.bit_width:
        return pc.cast(value, kind)
    low, high = limits(kind)
    fits = pc.and_(
        pc.greater_equal(value, pa.scalar(low, value.type)), pc.less_equal(value, pa.scalar(high, value.type))
    )
    return pc.cast(only_where(fits, value), kind)


def _float_to_integer(value: pa.Array, kind: pa.DataType) -> pa.Array:
    """Drops the digits after the point."""
    whole = pc.trunc(pc.cast(value, pa.float64()))
    low, high = limits(kind)
    fits = pc.and_(pc.greater_equal(whole, pa.scalar(float(low))), pc.less_equal(whole, pa.scalar(float(high))))
    if kind == pa.int64():
        # 2 to the 63rd counts as the greatest BIGINT, because the greatest BIGINT as a DOUBLE is just that.
        top = pc.equal(whole, pa.scalar(_TOP))
        below = pc.cast(only_where(pc.and_(fits, pc.invert(top)), whole), kind)
        return pc.if_else(pc.fill_null(top, False), pa.scalar(high, kind), below)
    return pc.cast(only_where(fits, whole), kind)


def _written(value: pa.Array) -> pa.Array:
    """DOUBLEs as the DECIMALs that their shortest text shows; null beyond 38 digits before the point."""
    size = pc.abs(value)
    value = only_where(pc.less(size, pa.scalar(1e38)), value)
    # Below this a text may have more than 38 digits after the point.
    tiny = pc.fill_null(pc.less(size, pa.scalar(1e-20)), False)
    text = pc.cast(pc.if_else(tiny, pa.scalar(0.0), value), pa.string())
    found = pc.cast(text, pa.decimal256(WIDEST, types.MOST_DIGITS))
    if not pc.any(tiny).as_py():
        return found
    small = pc.cast(pc.cast(pc.if_else(tiny, value, pa.scalar(0.0)), pa.decimal128(38, 38)), found.type)
    return pc.if_else(tiny, small, found)


def _from_time(source: DataType, target: DataType) -> Cast:
    kind = arrow_type(target)
    if target.family == Family.TIME:
        if source.name == "DATE":
            return lambda value: _midnight(value, kind)
        if target.name == "DATE":
            return lambda value: pc.cast(value, kind, safe=False)
        return lambda value: value.view(kind)
    if target.is_float:
        return lambda value: pc.cast(pc.divide(pc.cast(value.view(pa.int64()), pa.float64(), safe=False), 1e6), kind)
    if target.name == "DECIMAL":

        def exact(value: pa.Array) -> pa.Array:
            micros = pc.cast(value.view(pa.int64()), pa.decimal128(19, 0)).view(pa.decimal128(19, 6))
            return rescaled(micros, kind)

        return exact
    narrow = try_cast(BIGINT, target)

    def seconds(value: pa.Array) -> pa.Array:
        micros = value.view(pa.int64())
        whole = np.floor_divide(np.asarray(pc.fill_null(micros, 0)), _SECOND)
        return narrow(pa.array(whole, mask=np.asarray(pc.is_null(micros).to_numpy(zero_copy_only=False))))

    return seconds


def _midnight(value: pa.Array, kind: pa.DataType) -> pa.Array:
    days = pc.cast(value.view(pa.int32()), pa.int64())
    limit = pa.scalar(2**63 // (86_400 * _SECOND) - 1)
    days = only_where(pc.less(pc.abs(days), limit), days)
    return pc.multiply(days, pa.scalar(86_400 * _SECOND)).view(kind)


def _to_timestamp(source: DataType) -> Cast:
    """A number is seconds since 1970."""
    kind = arrow_type(TIMESTAMP)
    if source.is_integer:
        limit = pa.scalar(2**63 // _SECOND)

        def whole(value: pa.Array) -> pa.Array:
            seconds = pc.cast(value, pa.int64())
            fits = pc.and_(pc.less(seconds, limit), pc.greater(seconds, pa.scalar(-(2**63 // _SECOND))))
            return pc.multiply(only_where(fits, seconds), pa.scalar(_SECOND)).view(kind)

        return whole
    if source.is_float:

        def real(value: pa.Array) -> pa.Array:
            with np.errstate(invalid="ignore", over="ignore"):
                micros = np.trunc(floats(pc.cast(value, pa.float64())) * 1e6)
                fits = np.abs(micros) < _TOP
            return pa.array(np.where(fits, micros, 0).astype(np.int64), mask=~fits).view(kind)

        return real

    def exact(value: pa.Array) -> pa.Array:
        wide = pc.cast(value, pa.decimal256(WIDEST, value.type.scale))
        micros = pc.multiply(pc.cast(wide, pa.decimal256(50, value.type.scale)), pa.scalar(Decimal(_SECOND)))
        return exact_to_integer(micros, pa.int64()).view(kind)

    return exact
