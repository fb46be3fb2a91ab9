"""Operators and functions that compute whole columns: a table of implementations by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions import casts, numbers, rounding, strings, times
from millstream.engine.expressions.comparing import compared_as, comparison, extreme
from millstream.engine.expressions.operands import Compiled, Operands, constant, row_count
from millstream.engine.expressions.registered import caller
from millstream.engine.expressions.some_rows import ColumnLookup
from millstream.engine.expressions.values import as_array
from millstream.model import types
from millstream.model.expr import COMPARISONS, Call
from millstream.model.functions import Function, rounding_digits
from millstream.model.types import DOUBLE, DataType

Way = Callable[[Operands, Call], Compiled]
_REAL: Mapping[str, Callable[[Any], Any]] = {
    **{name: getattr(pc, name) for name in ("sqrt", "exp", "sin", "cos", "tan")},
    "sign": numbers.sign,
    **{name: numbers.logarithm(getattr(pc, name)) for name in ("ln", "log10")},
}
_CLOCK = ("hour", "minute", "second")
_CALENDAR = ("year", "month", "day")


def compared(operands: Operands, call: Call) -> Compiled:
    kind = compared_as(call)
    return operands.of_both(call, comparison(call, kind or call.args[0].type), kind)


def _arithmetic(operands: Operands, call: Call) -> Compiled:
    left, right = (arg.type for arg in call.args)
    return operands.of_both(call, numbers.arithmetic(call.op, left, right, call.type))


def _division(operands: Operands, call: Call) -> Compiled:
    return _divisor_first(operands, call, numbers.division, DOUBLE)


def _remainder(operands: Operands, call: Call) -> Compiled:
    left, right = (arg.type for arg in call.args)
    return _divisor_first(operands, call, numbers.remainder(left, right, call.type))


def _divisor_first(
    operands: Operands, call: Call, function: Callable[[Any, Any], Any], kind: DataType | None = None
) -> Compiled:
    """As in Spark, the dividend is not evaluated where the divisor is null."""
    mirrored = replace(call, args=call.args[::-1])
    return operands.of_both(mirrored, lambda under, over: function(over, under), kind)


def _power(operands: Operands, call: Call) -> Compiled:
    return operands.of_both(call, numbers.power, DOUBLE)


def _real(operands: Operands, call: Call) -> Compiled:
    arg, function = operands.as_type(call.args[0], DOUBLE), _REAL[call.op]
    return lambda columns: function(arg(columns))


def _negated(operands: Operands, call: Call) -> Compiled:
    return operands.of_first(call, (numbers.negated if call.op == "neg" else numbers.absolute)(call.type))


def _round(operands: Operands, call: Call) -> Compiled:
    if len(call.args) > 1 and constant(call.args[1]) is None:
        kind = arrow_type(call.type)
        return operands.of_first(call, lambda value: pa.nulls(len(value), kind))
    return operands.of_first(call, rounding.rounder(call.args[0].type, rounding_digits(call.args), call.type))


def _whole(operands: Operands, call: Call) -> Compiled:
    return operands.of_first(call, rounding.whole(call.args[0].type, call.type, call.op))


def _time_part(operands: Operands, call: Call) -> Compiled:
    arg, function = operands.compile(call.args[0]), times.year if call.op == "year" else getattr(pc, call.op)
    whole_days = call.args[0].type.name == "DATE" and call.op in _CLOCK
    moment, kind = arrow_type(types.TIMESTAMP_NTZ), arrow_type(call.type)
    return lambda columns: pc.cast(function(pc.cast(arg(columns), moment) if whole_days else arg(columns)), kind)


def _not(operands: Operands, call: Call) -> Compiled:
    return operands.of_first(call, pc.invert)


def _is_null(operands: Operands, call: Call) -> Compiled:
    return operands.of_first(call, pc.is_null)


def _field(operands: Operands, call: Call) -> Compiled:
    name = constant(call.args[1])
    return operands.of_first(call, lambda value: pc.struct_field(value, name))


def _cast(operands: Operands, call: Call) -> Compiled:
    make = casts.cast if call.op == "cast" else casts.try_cast
    return operands.of_first(call, make(call.args[0].type, call.type))


def _text(operands: Operands, call: Call) -> Compiled:
    return operands.of_first(call, strings.PLAIN[call.op])


def _text_with_constants(operands: Operands, call: Call) -> Compiled:
    return operands.of_first(call, strings.with_constants(call.op, [constant(arg) for arg in call.args[1:]]))


def _extreme(operands: Operands, call: Call) -> Compiled:
    args = [operands.as_type(arg, call.type) for arg in call.args]
    greatest = call.op == "greatest"
    return lambda columns: extreme([arg(columns) for arg in args], call.type, greatest=greatest)


def _concat(operands: Operands, call: Call) -> Compiled:
    """From left to right; arguments after a null are not evaluated."""
    args = [operands.compile(arg) for arg in call.args]
    after = [operands.after(call, arg, compiled) for arg, compiled in zip(call.args, args, strict=True)]
    if not any(after[1:]):
        return lambda columns: pc.binary_join_element_wise(*(arg(columns) for arg in args), "")

    def compute(columns: ColumnLookup) -> Any:
        found = args[0](columns)
        for arg, careful in zip(args[1:], after[1:], strict=True):
            more = arg(columns) if careful is None else careful(found, columns)
            found = pc.binary_join_element_wise(found, more, "")
        return found

    return compute


def registered(operands: Operands, function: Function, call: Call) -> Compiled:
    """A call of a user's function."""
    takes = [function.wanted(position) for position in range(len(call.args))]
    args = [
        (operands.as_type(arg, kind), arrow_type(kind)) if isinstance(kind, DataType) else (operands.compile(arg), None)
        for arg, kind in zip(call.args, takes, strict=True)
    ]
    give, rows = caller(function, call.type), row_count(call)

    def compute(columns: ColumnLookup) -> Any:
        count = rows(columns)
        values = [(arg(columns), kind) for arg, kind in args]
        return give([as_array(value, count, kind or value.type) for value, kind in values], count)

    return compute


OPERATIONS: Mapping[str, Way] = {
    **dict.fromkeys(COMPARISONS, compared),
    **dict.fromkeys(("+", "-", "*"), _arithmetic),
    **dict.fromkeys(("neg", "abs"), _negated),
    **dict.fromkeys(("floor", "ceil"), _whole),
    **dict.fromkeys(("cast", "try_cast"), _cast),
    **dict.fromkeys(("greatest", "least"), _extreme),
    **dict.fromkeys((*_CLOCK, *_CALENDAR), _time_part),
    **dict.fromkeys(_REAL, _real),
    **dict.fromkeys(strings.PLAIN, _text),
    **dict.fromkeys(strings.WITH_CONSTANTS, _text_with_constants),
    "/": _division,
    "%": _remainder,
    "not": _not,
    "is_null": _is_null,
    "field": _field,
    "round": _round,
    "power": _power,
    "concat": _concat,
}
