"""Arithmetic as Spark does it: whole numbers and DECIMALs that do not fit raise, a zero divisor gives null.

Every function takes Arrow arrays; of two operands one may be a scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import arrow_type
from millstream.model import types
from millstream.model.duration import DAY
from millstream.model.types import DataType

Floats = npt.NDArray[np.float64]
WIDEST = 76
HALF_UP = "half_towards_infinity"
_AT_A_TIME = 9
_CHECKED: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_PLAIN: Mapping[str, Callable[[Any, Any], Any]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def arithmetic(op: str, left: DataType, right: DataType, result: DataType) -> Callable[[Any, Any], Any]:
    """+ - * of operands in their own types: times, intervals or numbers."""
    if result.name == "DATE":
        return lambda a, b: pc.cast(_CHECKED[op](_days(a), _days(b)), pa.date32())
    if result.name == "DECIMAL":
        return lambda a, b: _exact(op, _as_decimal(a, left), _as_decimal(b, right), result)
    operation = (_PLAIN if result.is_float else _CHECKED)[op]
    if not result.is_float and not result.is_integer:
        return operation
    kind = arrow_type(result)
    return lambda a, b: operation(plain_cast(a, kind), plain_cast(b, kind))


def _days(value: Any) -> Any:
    """The days of dates since 1970, or of an interval of whole days."""
    if pa.types.is_date(value.type):
        return pc.cast(value, pa.int32())
    return pc.cast(pc.divide(pc.cast(value, pa.int64()), pa.scalar(DAY)), pa.int32())


def plain_cast(value: Any, kind: pa.DataType) -> Any:
    """A cast to a type that can hold every value."""
    if value.type == kind:
        return value
    if not pa.types.is_floating(kind):
        return pc.cast(value, kind)
    if not pa.types.is_decimal(value.type):
        return pc.cast(value, kind, safe=False)
    if value.type.precision > _EXACT_DIGITS or kind != pa.float64() or isinstance(value, pa.Scalar):
        return pc.cast(pc.cast(value, pa.string()), kind)
    units = pc.cast(value.view(pa.decimal128(types.MOST_DIGITS, 0)), pa.int64())
    return pc.divide(pc.cast(units, kind), pa.scalar(10.0**value.type.scale))


# A DECIMAL of up to this many digits becomes the nearest DOUBLE by one division of exact DOUBLEs (bench tricks).
_EXACT_DIGITS = 15


def _as_decimal(value: Any, kind: DataType) -> Any:
    return pc.cast(value, pa.decimal128(*types.digits(kind))) if kind.is_integer else value


def _exact(op: str, left: Any, right: Any, result: DataType) -> Any:
    kind = arrow_type(result)
    digits, scale = _digits(op, left.type, right.type)
    if digits <= types.MOST_DIGITS:
        return _PLAIN[op](left, right)
    left, right = (pc.cast(one, pa.decimal256(one.type.precision, one.type.scale)) for one in (left, right))
    if digits > WIDEST:
        left, right = _squeezed(op, left, right, scale)
    found = rescaled(_PLAIN[op](left, right), kind)
    return checked(found, left, right, f"{op} gives more digits than {result} has")


def _digits(op: str, left: pa.DataType, right: pa.DataType) -> tuple[int, int]:
    """Precision and scale of an exact result."""
    if op == "*":
        return left.precision + right.precision + 1, left.scale + right.scale
    scale = max(left.scale, right.scale)
    return max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale


def _squeezed(op: str, left: Any, right: Any, scale: int) -> tuple[Any, Any]:
    """Operands whose result would have 77 digits by the rule: a product of two 38 digits has 76, a sum loses one."""
    if op == "*":
        rows = next(len(one) for one in (left, right) if not isinstance(one, pa.Scalar))
        whole = pa.repeat(left, rows) if isinstance(left, pa.Scalar) else left
        return whole.view(pa.decimal256(types.MOST_DIGITS - 1, left.type.scale)), right

    def shorter(one: Any) -> Any:
        if one.type.scale < scale:
            return one
        return pc.cast(pc.round(pc.cast(one, pa.decimal256(WIDEST, scale)), scale - 1, HALF_UP), _shorter(one.type))

    return shorter(left), shorter(right)


def _shorter(kind: pa.DataType) -> pa.DataType:
    return pa.decimal256(kind.precision, kind.scale - 1)


def rescaled(value: Any, kind: pa.DataType) -> Any:
    """A DECIMAL with fewer or more digits after the point, rounded half up; null where it does not fit."""
    wide = value if pa.types.is_decimal256(value.type) else pc.cast(value, pa.decimal256(WIDEST, value.type.scale))
    wide = rounded_off(wide, wide.type.scale - kind.scale) if kind.scale < wide.type.scale else wide
    wide = pc.cast(wide, pa.decimal256(WIDEST, kind.scale))
    limit = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), wide.type)
    fits = pc.less(pc.abs(wide), limit)
    if not pc.all(fits).as_py():
        wide = pc.if_else(fits, wide, pa.scalar(None, wide.type))
    return pc.cast(wide, kind)


def rounded_off(wide: Any, count: int) -> Any:
    """A DECIMAL of 256 bits without its last digits, rounded half up: the first of them alone decides."""
    last = cut_off(wide, count - 1)
    return pc.cast(pc.round(last, last.type.scale - 1, HALF_UP), pa.decimal256(WIDEST, last.type.scale - 1))


def cut_off(wide: Any, count: int) -> Any:
    """A DECIMAL of 256 bits without its last digits, not rounded.

    Nine digits at a time: with a divisor of more than 32 bits Arrow (26.0) divides some numbers wrongly, such as
    79999999999.99999999995.
    """
    while count > 0:
        some = min(count, _AT_A_TIME)
        wide = pc.cast(wide, pa.decimal256(WIDEST, wide.type.scale - some), safe=False)
        count -= some
    return wide


def limits(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest whole number of a type."""
    bits = int(kind.bit_width) - 1
    return -(2**bits), 2**bits - 1


def exact_to_integer(value: pa.Array, kind: pa.DataType) -> pa.Array:
    """DECIMALs without the digits after the point; null where the result does not fit."""
    whole = cut_off(pc.cast(value, pa.decimal256(WIDEST, value.type.scale)), value.type.scale)
    low, high = (pa.scalar(Decimal(limit), whole.type) for limit in limits(kind))
    fits = pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, high))
    return pc.cast(pc.cast(only_where(fits, whole), pa.decimal128(types.MOST_DIGITS, 0)), kind)


def only_where(fits: pa.Array, value: pa.Array) -> pa.Array:
    """The values that fit; null for the others."""
    return value if pc.all(fits).as_py() else pc.if_else(fits, value, pa.scalar(None, value.type))


def checked(found: Any, left: Any, right: Any, why: str) -> Any:
    """The result; raises where it is null and no operand is."""
    if found.null_count:
        known = pc.and_(pc.is_valid(left), pc.is_valid(right))
        if pc.any(pc.and_(known, pc.is_null(found))).as_py():
            raise ArithmeticError(why)
    return found


def division(over: Any, under: Any) -> Any:
    """Division of DOUBLEs; null where the divisor is zero."""
    return pc.divide(over, _nonzero(under))


def remainder(left: DataType, right: DataType, result: DataType) -> Callable[[Any, Any], Any]:
    """The remainder, with the sign of the dividend; null where the divisor is zero."""
    kind = arrow_type(result)
    if result.name == "DECIMAL":
        return lambda a, b: _exact_remainder(_as_decimal(a, left), _as_decimal(b, right), result)
    one = _float_remainder if result.is_float else _whole_remainder
    return lambda a, b: one(plain_cast(a, kind), plain_cast(b, kind))


def _nonzero(under: Any) -> Any:
    if isinstance(under, pa.Scalar):
        return under if under.is_valid and under.as_py() else pa.scalar(None, under.type)
    return pc.if_else(pc.equal(under, pa.scalar(0, under.type)), pa.scalar(None, under.type), under)


def _whole_remainder(over: Any, under: Any) -> Any:
    under = _nonzero(under)
    # The least number divided by -1 does not fit its type.
    under = pc.if_else(pc.equal(under, pa.scalar(-1, under.type)), pa.scalar(1, under.type), under)
    return pc.subtract(over, pc.multiply(pc.divide(over, under), under))


def _float_remainder(over: Any, under: Any) -> Any:
    under = _nonzero(under)
    left, right = (one.as_py() if isinstance(one, pa.Scalar) else floats(one) for one in (over, under))
    if left is None or right is None:
        rows = next(len(one) for one in (over, under) if not isinstance(one, pa.Scalar))
        return pa.nulls(rows, over.type)
    with np.errstate(invalid="ignore"):
        found = pa.array(np.fmod(left, right), over.type)
    known = pc.and_(pc.is_valid(over), pc.is_valid(under))
    return pc.if_else(known, found, pa.scalar(None, over.type))


def _exact_remainder(over: Any, under: Any, result: DataType) -> Any:
    scale = max(over.type.scale, under.type.scale)
    units = [_units(one, scale) for one in (over, _nonzero(under))]
    if all(one.type.precision <= 18 for one in units):
        left, right = (pc.cast(one, pa.int64()) for one in units)
        whole = pc.cast(_whole_remainder(left, right), pa.decimal128(19, 0))
        return rescaled(whole.view(pa.decimal128(38, scale)), arrow_type(result))
    left, right = (pc.cast(one, pa.decimal256(one.type.precision, 0)) for one in units)
    times = pc.cast(pc.trunc(pc.divide(left, right)), pa.decimal256(left.type.precision, 0))
    whole = pc.cast(pc.subtract(left, pc.multiply(times, right)), pa.decimal256(WIDEST, 0))
    size = pc.cast(pc.abs(right), whole.type)
    while pc.any(pc.greater_equal(pc.abs(whole), size)).as_py():
        # A quotient that is too small: see `cut_off`.
        less = pc.cast(pc.subtract(pc.abs(whole).view(right.type), pc.abs(right)), whole.type)
        less = pc.if_else(pc.less(whole, pa.scalar(Decimal(0), whole.type)), pc.negate(less), less)
        whole = pc.if_else(pc.greater_equal(pc.abs(whole), size), less, whole)
    return rescaled(whole.view(pa.decimal256(WIDEST, scale)), arrow_type(result))


def _units(value: Any, scale: int) -> Any:
    """A DECIMAL as the whole number of its last digit at this scale."""
    digits = value.type.precision - value.type.scale + scale
    array = pa.array([value.as_py()], value.type) if isinstance(value, pa.Scalar) else value
    if digits <= types.MOST_DIGITS:
        units = pc.cast(array, pa.decimal128(digits, scale)).view(pa.decimal128(digits, 0))
    else:
        units = pc.cast(pc.cast(array, pa.decimal256(WIDEST, array.type.scale)), pa.decimal256(digits, scale))
        units = units.view(pa.decimal256(digits, 0))
    return units[0] if isinstance(value, pa.Scalar) else units


def negated(kind: DataType) -> Callable[[Any], Any]:
    negate: Callable[[Any], Any] = pc.negate if kind.is_float or kind.name == "DECIMAL" else pc.negate_checked
    return negate


def absolute(kind: DataType) -> Callable[[Any], Any]:
    size: Callable[[Any], Any] = pc.abs if kind.is_float or kind.name == "DECIMAL" else pc.abs_checked
    return size


def sign(value: Any) -> Any:
    """The sign of DOUBLEs; a zero keeps its own."""
    return pc.if_else(pc.equal(value, pa.scalar(0.0)), value, pc.sign(value))


def power(base: Any, exponent: Any) -> Any:
    """The power of DOUBLEs as in Java: 1 or -1 to an infinite exponent is NaN, and so is 1 to NaN."""
    undefined = pc.and_(pc.equal(pc.abs(base), pa.scalar(1.0)), pc.invert(pc.is_finite(exponent)))
    return pc.power(pc.if_else(undefined, pa.scalar(float("nan")), base), exponent)


def logarithm(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The logarithm; null where the number is not above zero."""

    def compute(value: Any) -> Any:
        outside = pc.less_equal(value, pa.scalar(0.0))
        return function(pc.if_else(outside, pa.scalar(None, value.type), value))

    return compute


def floats(value: pa.Array) -> Floats:
    """The values as a NumPy array, NaN for null."""
    return np.asarray(value.to_numpy(zero_copy_only=False), dtype=np.float64)
