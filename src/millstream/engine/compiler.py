"""The compiler of expressions: for every operator and function what it does with the columns of a batch.

A compiled expression that looks at columns gives an array of as many rows; one of constants only is evaluated once,
on a single row, and gives a scalar. Parts that may raise are evaluated only on the rows that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine import casts, numbers, rounding, strings, times
from millstream.engine.arrow import Bools, arrow_type
from millstream.engine.comparing import compared_as, comparison, extreme, is_in
from millstream.engine.raising import may_raise
from millstream.engine.registered import caller
from millstream.engine.some_rows import Choice, Columns, chosen, narrowed, spread, where_known
from millstream.engine.values import as_array, as_mask
from millstream.errors import InternalError
from millstream.model import types
from millstream.model.expr import COMPARISONS, Call, Column, Expr, Literal, walk
from millstream.model.functions import Function, rounding_digits, widest
from millstream.model.types import DOUBLE, DataType, Family

Compiled = Callable[[Columns], Any]
After = Callable[[Any, Columns], Any]
"""An argument's values, given those of the argument before it."""

_REAL: Mapping[str, Callable[[Any], Any]] = {
    **{name: getattr(pc, name) for name in ("sqrt", "exp", "sin", "cos", "tan")},
    "sign": numbers.sign,
    **{name: numbers.logarithm(getattr(pc, name)) for name in ("ln", "log10")},
}
_CLOCK = ("hour", "minute", "second")
_CALENDAR = ("year", "month", "day")
_FEW = 16
"""Up to so many constants of an IN are compared one by one, which is faster than a look into a set."""
_FAILURES = (pa.ArrowInvalid, ArithmeticError, ValueError)


class Compiler:
    """With `row`, constants are arrays of one row and no column is looked at."""

    def __init__(self, functions: Mapping[str, Function], *, row: bool = False) -> None:
        self._functions = functions
        self._row = row

    def compile(self, expr: Expr) -> Compiled:
        if isinstance(expr, Column):
            return lambda columns: columns(expr)
        if isinstance(expr, Literal):
            scalar = _scalar(expr)
            constant = pa.repeat(scalar, 1) if self._row else scalar
            return lambda _: constant
        if self._row or any(isinstance(node, Column) for node in walk(expr)):
            return self._call(expr)
        return self._once(expr)

    def _once(self, call: Call) -> Compiled:
        """An expression of constants; a user's function may give another value each time."""
        compiled = Compiler(self._functions, row=True)._call(call)
        keep = not any(isinstance(node, Call) and node.op in self._functions for node in walk(call))
        kept: list[pa.Scalar] = []

        def compute(columns: Columns) -> Any:
            if kept:
                return kept[0]
            found = compiled(columns)[0]
            if keep:
                kept.append(found)
            return found

        return compute

    def _call(self, call: Call) -> Compiled:
        op = call.op
        if op in self._functions:
            return self._registered(self._functions[op], call)
        if op in COMPARISONS:
            return self._comparison(call)
        if op in strings.WITH_CONSTANTS:
            constants = [_constant(arg) for arg in call.args[1:]]
            return self._of_first(call, strings.with_constants(op, constants))
        if op in strings.PLAIN:
            return self._of_first(call, strings.PLAIN[op])
        if op in _SPECIAL:
            return _SPECIAL[op](self, call)
        raise InternalError(f"no way to evaluate {op}")

    def _rows(self, call: Call) -> Callable[[Columns], int]:
        """How many rows there are, from a column that the call looks at anyway."""
        column = next((node for node in walk(call) if isinstance(node, Column)), None)
        return (lambda _: 1) if column is None else (lambda columns: len(columns(column)))

    def _as(self, expr: Expr, kind: DataType) -> Compiled:
        """An expression in a type that has a place for all its values."""
        compiled = self.compile(expr)
        if expr.type == kind:
            return compiled
        wanted = arrow_type(kind)
        if expr.type.family == Family.NULL:
            return lambda columns: _untyped(compiled(columns), wanted)
        return lambda columns: numbers.plain_cast(compiled(columns), wanted)

    def _of_first(self, call: Call, function: Callable[[Any], Any]) -> Compiled:
        arg = self.compile(call.args[0])
        return lambda columns: function(arg(columns))

    def _of_both(self, call: Call, function: Callable[[Any, Any], Any], kind: DataType | None = None) -> Compiled:
        left, right = (self.compile(arg) if kind is None else self._as(arg, kind) for arg in call.args)
        after = self._after(call, call.args[1], right, kind)
        if after is None:
            return lambda columns: function(left(columns), right(columns))

        def compute(columns: Columns) -> Any:
            first = left(columns)
            return function(first, after(first, columns))

        return compute

    def _after(self, call: Call, arg: Expr, compiled: Compiled, kind: DataType | None = None) -> After | None:
        """An argument that may raise: as in Spark it is looked at only where the one before it is not null."""
        if not may_raise(arg, self._functions):
            return None
        rows, wanted = self._rows(call), arrow_type(kind or arg.type)
        careful = [True for node in walk(arg) if isinstance(node, Call) and node.op in self._functions]

        def compute(first: Any, columns: Columns) -> Any:
            if not careful:
                try:
                    return compiled(columns)  # on all rows, which is quick
                except _FAILURES:
                    # From now on without a try: nested ones would double the work at each level.
                    careful.append(True)
            return where_known(first, columns, rows(columns), compiled, wanted)

        return compute

    def _comparison(self, call: Call) -> Compiled:
        kind = compared_as(call)
        return self._of_both(call, comparison(call, kind or call.args[0].type), kind)

    def _arithmetic(self, call: Call) -> Compiled:
        left, right = (arg.type for arg in call.args)
        return self._of_both(call, numbers.arithmetic(call.op, left, right, call.type))

    def _division(self, call: Call) -> Compiled:
        return self._divisor_first(call, numbers.division, DOUBLE)

    def _remainder(self, call: Call) -> Compiled:
        left, right = (arg.type for arg in call.args)
        return self._divisor_first(call, numbers.remainder(left, right, call.type))

    def _divisor_first(self, call: Call, function: Callable[[Any, Any], Any], kind: DataType | None = None) -> Compiled:
        """Spark does not look at what is divided where the divisor is null."""
        mirrored = replace(call, args=call.args[::-1])
        return self._of_both(mirrored, lambda under, over: function(over, under), kind)

    def _power(self, call: Call) -> Compiled:
        return self._of_both(call, pc.power, DOUBLE)

    def _real(self, call: Call) -> Compiled:
        arg, function = self._as(call.args[0], DOUBLE), _REAL[call.op]
        return lambda columns: function(arg(columns))

    def _negated(self, call: Call) -> Compiled:
        return self._of_first(call, (numbers.negated if call.op == "neg" else numbers.absolute)(call.type))

    def _round(self, call: Call) -> Compiled:
        if len(call.args) > 1 and _constant(call.args[1]) is None:
            kind = arrow_type(call.type)
            return self._of_first(call, lambda value: pa.nulls(len(value), kind))
        return self._of_first(call, rounding.rounder(call.args[0].type, rounding_digits(call.args), call.type))

    def _whole(self, call: Call) -> Compiled:
        return self._of_first(call, rounding.whole(call.args[0].type, call.type, getattr(pc, call.op)))

    def _time_part(self, call: Call) -> Compiled:
        arg, function = self.compile(call.args[0]), times.year if call.op == "year" else getattr(pc, call.op)
        whole_days = call.args[0].type.name == "DATE" and call.op in _CLOCK
        moment, kind = arrow_type(types.TIMESTAMP_NTZ), arrow_type(call.type)
        return lambda columns: pc.cast(function(pc.cast(arg(columns), moment) if whole_days else arg(columns)), kind)

    def _not(self, call: Call) -> Compiled:
        return self._of_first(call, pc.invert)

    def _is_null(self, call: Call) -> Compiled:
        return self._of_first(call, pc.is_null)

    def _field(self, call: Call) -> Compiled:
        name = _constant(call.args[1])
        return self._of_first(call, lambda value: pc.struct_field(value, name))

    def _cast(self, call: Call) -> Compiled:
        make = casts.cast if call.op == "cast" else casts.try_cast
        return self._of_first(call, make(call.args[0].type, call.type))

    def _in(self, call: Call) -> Compiled:
        kind = widest([arg.type for arg in call.args])
        if kind is not None and len(call.args) > _FEW + 1:
            wanted = arrow_type(kind)
            scalars = [numbers.plain_cast(_scalar(arg), wanted) for arg in call.args[1:] if isinstance(arg, Literal)]
            member = is_in(call.args[1:], wanted, scalars)
            if member is not None:
                sought = self._as(call.args[0], kind)
                return lambda columns: member(sought(columns))
        equal = [Call("=", (call.args[0], option), types.BOOLEAN) for option in call.args[1:]]
        if any(may_raise(option, self._functions) for option in call.args[1:]):
            return self._logic(Call("or", tuple(equal), types.BOOLEAN))
        tests = [self._comparison(test) for test in equal]
        return lambda columns: reduce(pc.or_kleene, (test(columns) for test in tests))

    def _logic(self, call: Call) -> Compiled:
        """Parts that may raise come last and see only rows that the others leave open."""
        combine = pc.and_kleene if call.op == "and" else pc.or_kleene
        neutral = pa.scalar(call.op == "and")
        ordered = sorted(call.args, key=lambda arg: may_raise(arg, self._functions))
        careful = [may_raise(arg, self._functions) for arg in ordered]
        (first, *rest), rows = [self.compile(arg) for arg in ordered], self._rows(call)

        def compute(columns: Columns) -> Any:
            found = first(columns)
            for part, care in zip(rest, careful[1:], strict=True):
                if not care:
                    found = combine(found, part(columns))
                    continue
                count = rows(columns)
                still = as_mask(pc.fill_null(pc.equal(found, neutral), True), count)
                open_rows = np.flatnonzero(still)
                if len(open_rows) == count:
                    found = combine(found, part(columns))
                elif len(open_rows):
                    value = as_array(part(narrowed(columns, open_rows)), len(open_rows), pa.bool_())
                    other = pc.if_else(pa.array(still), spread(value, open_rows, count), neutral)
                    found = combine(found, other)
            return found

        return compute

    def _case(self, call: Call) -> Compiled:
        kind, rows = arrow_type(call.type), self._rows(call)
        *branches, otherwise = call.args
        whens = [self.compile(arg) for arg in branches[::2]]
        thens = [self._as(arg, call.type) for arg in (*branches[1::2], otherwise)]
        pairs = list(zip(whens, thens, strict=False))

        def at_once(columns: Columns) -> Any:
            result = thens[-1](columns)
            for when, then in reversed(pairs):
                result = pc.if_else(pc.fill_null(when(columns), False), then(columns), result)
            return as_array(result, rows(columns), kind)

        def in_turn(columns: Columns) -> Any:
            return chosen(columns, rows(columns), _cases(whens, thens), kind)

        return self._careful(call, at_once, in_turn)

    def _coalesce(self, call: Call) -> Compiled:
        kind, rows = arrow_type(call.type), self._rows(call)
        args = [self._as(arg, call.type) for arg in call.args]

        def at_once(columns: Columns) -> Any:
            return as_array(pc.coalesce(*(arg(columns) for arg in args)), rows(columns), kind)

        def in_turn(columns: Columns) -> Any:
            return chosen(columns, rows(columns), _first_known(args), kind)

        return self._careful(call, at_once, in_turn)

    def _careful(self, call: Call, at_once: Compiled, in_turn: Compiled) -> Compiled:
        """All rows at once, which is quick; where that raises, each branch on the rows that take it."""
        if not may_raise(call, self._functions):
            return at_once
        if any(isinstance(node, Call) and node.op in self._functions for node in walk(call)):
            return in_turn

        def compute(columns: Columns) -> Any:
            try:
                return at_once(columns)
            except _FAILURES:
                return in_turn(columns)

        return compute

    def _nullif(self, call: Call) -> Compiled:
        value, kind = self.compile(call.args[0]), arrow_type(call.type)
        same = self._comparison(Call("=", call.args, types.BOOLEAN))

        def compute(columns: Columns) -> Any:
            equal = pc.fill_null(same(columns), False)
            return pc.if_else(equal, pa.scalar(None, kind), value(columns))

        return compute

    def _extreme(self, call: Call) -> Compiled:
        args = [self._as(arg, call.type) for arg in call.args]
        greatest = call.op == "greatest"
        return lambda columns: extreme([arg(columns) for arg in args], call.type, greatest=greatest)

    def _concat(self, call: Call) -> Compiled:
        """From left to right; what comes after a null is not looked at."""
        args = [self.compile(arg) for arg in call.args]
        after = [self._after(call, arg, compiled) for arg, compiled in zip(call.args, args, strict=True)]
        if not any(after[1:]):
            return lambda columns: pc.binary_join_element_wise(*(arg(columns) for arg in args), "")

        def compute(columns: Columns) -> Any:
            found = args[0](columns)
            for arg, careful in zip(args[1:], after[1:], strict=True):
                more = arg(columns) if careful is None else careful(found, columns)
                found = pc.binary_join_element_wise(found, more, "")
            return found

        return compute

    def _registered(self, function: Function, call: Call) -> Compiled:
        takes = [function.wanted(position) for position in range(len(call.args))]
        args = [
            (self._as(arg, kind), arrow_type(kind)) if isinstance(kind, DataType) else (self.compile(arg), None)
            for arg, kind in zip(call.args, takes, strict=True)
        ]
        give, rows = caller(function, call.type), self._rows(call)

        def compute(columns: Columns) -> Any:
            count = rows(columns)
            values = [(arg(columns), kind) for arg, kind in args]
            return give([as_array(value, count, kind or value.type) for value, kind in values], count)

        return compute


def _cases(whens: Sequence[Compiled], thens: Sequence[Compiled]) -> Iterator[Choice]:
    """For each branch: which of the rows that are left take it, and what it gives for them."""
    for when, then in zip(whens, thens, strict=False):
        yield partial(_where, when, then)
    yield partial(_everywhere, thens[-1])


def _first_known(args: Sequence[Compiled]) -> Iterator[Choice]:
    """For each argument: where it is not null, and what it gives there."""
    for arg in args[:-1]:
        yield partial(_where_known, arg)
    yield partial(_everywhere, args[-1])


def _where(when: Compiled, then: Compiled, columns: Columns, rows: int) -> tuple[Bools, Compiled]:
    return as_mask(when(columns), rows), then


def _where_known(arg: Compiled, columns: Columns, rows: int) -> tuple[Bools, Compiled]:
    value = arg(columns)
    mask = as_mask(pc.is_valid(value), rows)
    known = value if isinstance(value, pa.Scalar) else value.filter(pa.array(mask))
    return mask, lambda _: known


def _everywhere(then: Compiled, _columns: Columns, rows: int) -> tuple[Bools, Compiled]:
    return np.ones(rows, dtype=np.bool_), then


_SPECIAL: Mapping[str, Callable[[Compiler, Call], Compiled]] = {
    **dict.fromkeys(("+", "-", "*"), Compiler._arithmetic),
    **dict.fromkeys(("and", "or"), Compiler._logic),
    **dict.fromkeys(("neg", "abs"), Compiler._negated),
    **dict.fromkeys(("floor", "ceil"), Compiler._whole),
    **dict.fromkeys(("cast", "try_cast"), Compiler._cast),
    **dict.fromkeys(("greatest", "least"), Compiler._extreme),
    **dict.fromkeys((*_CLOCK, *_CALENDAR), Compiler._time_part),
    **dict.fromkeys(_REAL, Compiler._real),
    "/": Compiler._division,
    "%": Compiler._remainder,
    "not": Compiler._not,
    "is_null": Compiler._is_null,
    "in": Compiler._in,
    "case": Compiler._case,
    "field": Compiler._field,
    "round": Compiler._round,
    "power": Compiler._power,
    "coalesce": Compiler._coalesce,
    "nullif": Compiler._nullif,
    "concat": Compiler._concat,
}


def _scalar(literal: Literal) -> pa.Scalar:
    kind = arrow_type(literal.type)
    if literal.type.family in (Family.TIME, Family.DURATION):
        width = pa.int32() if literal.type.name == "DATE" else pa.int64()
        return pa.scalar(literal.value, width).cast(kind)
    return pa.scalar(literal.value, kind)


def _constant(arg: Expr) -> Any:
    if not isinstance(arg, Literal):
        raise InternalError("an argument that must be a constant was let through")
    return arg.value


def _untyped(value: Any, kind: pa.DataType) -> Any:
    return pa.scalar(None, kind) if isinstance(value, pa.Scalar) else pa.nulls(len(value), kind)
