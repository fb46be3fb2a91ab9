"""Comparisons as in Spark: NaN equals itself and is greater than any other number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model import types
from millstream.model.expr import COMPARISONS, MIRROR, Call, Expr, Literal
from millstream.model.types import DataType

Compare = Callable[[Any, Any], Any]
_COMPARE: Mapping[str, Compare] = dict(
    zip(COMPARISONS, (pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal), strict=True)
)
_OPPOSITE: Mapping[str, Compare] = {">": pc.less_equal, ">=": pc.less}


def compared_as(call: Call) -> DataType | None:
    """The type both sides are cast to; None where they have it already."""
    left, right = (arg.type for arg in call.args)
    return types.common(left, right) if left != right else None


def comparison(call: Call, kind: DataType) -> Compare:
    """The comparison for operands of this type."""
    op = call.op
    if not kind.is_float:
        return _COMPARE[op]
    if not isinstance(call.args[1], Literal):
        return _of_floats(op)
    if op in _OPPOSITE:
        # A constant is never NaN, so a value that is not below it counts as above it, NaN included (bench tricks).
        opposite = _OPPOSITE[op]
        return lambda left, right: pc.invert(opposite(left, right))
    return _COMPARE[op]


def _of_floats(op: str) -> Compare:
    if op in _OPPOSITE:
        mirrored = _of_floats(MIRROR[op])
        return lambda left, right: mirrored(right, left)
    plain = _COMPARE[op]

    def compute(left: Any, right: Any) -> Any:
        found = plain(left, right)
        if not _has_nan(right):
            return found
        unknown = pc.is_nan(right)
        if op == "<=":
            return pc.or_(found, unknown)
        if op == "<":
            return pc.or_(found, pc.and_not(unknown, pc.is_nan(left)))
        both = pc.and_(unknown, pc.is_nan(left))
        return pc.or_(found, both) if op == "=" else pc.and_not(found, both)

    return compute


def _has_nan(value: Any) -> bool:
    if isinstance(value, pa.Scalar):
        return bool(value.is_valid and value.as_py() != value.as_py())
    if not len(value):
        return False
    width = np.float64 if value.type == pa.float64() else np.float32
    numbers = np.frombuffer(value.buffers()[1], dtype=width)[value.offset : value.offset + len(value)]
    # The minimum is NaN if any number is NaN: the fastest test for NaN (bench tricks). The values under nulls may be
    # NaN too, which does no harm.
    return bool(np.isnan(np.minimum.reduce(numbers)))


def is_in(options: Sequence[Expr], kind: pa.DataType, scalars: Sequence[pa.Scalar]) -> Callable[[Any], Any] | None:
    """Membership in constants, all at once; None where the options are not all constants."""
    if not all(isinstance(option, Literal) for option in options):
        return None
    known = [scalar.as_py() for scalar in scalars if scalar.is_valid]
    values = _one_zero(pa.array(known, kind))
    otherwise = pa.scalar(None if len(known) < len(scalars) else False, pa.bool_())

    def compute(value: Any) -> Any:
        found = pc.if_else(pc.is_in(_one_zero(value), value_set=values), pa.scalar(True), otherwise)
        return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))

    return compute


def _one_zero(value: Any) -> Any:
    """Turns -0.0 into 0.0, since they are equal."""
    return pc.add(value, pa.scalar(0, value.type)) if pa.types.is_floating(value.type) else value


def extreme(values: Sequence[Any], kind: DataType, *, greatest: bool) -> Any:
    """The greatest or least of each row's values that are not null; NaN is the greatest number."""
    if kind.family in _BY_NUMBER:
        arrow = values[0].type
        number = pa.uint8() if kind.name == "BOOLEAN" else pa.int64()
        found = _element_wise([_as(value, number) for value in values], greatest=greatest)
        return pc.cast(found, arrow) if kind.name == "BOOLEAN" else _as(found, arrow)
    found = _element_wise(values, greatest=greatest)
    if greatest and kind.is_float:
        unknown = reduce(pc.or_, (pc.fill_null(pc.is_nan(value), False) for value in values))
        return pc.if_else(unknown, pa.scalar(float("nan"), found.type), found)
    return found


_BY_NUMBER = ("boolean", "time")


def _as(value: Any, kind: pa.DataType) -> Any:
    """Casts between a value and the number that Arrow orders it by; dates stay as they are."""
    if pa.types.is_date(value.type) or pa.types.is_date(kind):
        return value
    return pc.cast(value, kind)


def _element_wise(values: Sequence[Any], *, greatest: bool) -> Any:
    return (pc.max_element_wise if greatest else pc.min_element_wise)(*values)
