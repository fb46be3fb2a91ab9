"""Typed expressions to functions over Arrow columns, compiled once per plan and called once per batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Bools, Ints, arrow_type
from millstream.errors import InternalError, ScriptError
from millstream.model import types
from millstream.model.expr import COMPARISONS, Call, Column, Expr, Literal
from millstream.model.functions import Function
from millstream.model.types import DOUBLE, DataType, Family

Columns = Callable[[Column], pa.Array]
Compiled = Callable[[Columns], Any]

_COMPARE = dict(
    zip(COMPARISONS, (pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal), strict=True)
)
_ONE: Mapping[str, Callable[[Any], Any]] = {
    "neg": pc.negate,
    "not": pc.invert,
    "is_null": pc.is_null,
    "abs": pc.abs,
    "sign": pc.sign,
    "length": pc.utf8_length,
    "upper": pc.utf8_upper,
    "lower": pc.utf8_lower,
    "trim": pc.utf8_trim_whitespace,
    "ltrim": pc.utf8_ltrim_whitespace,
    "rtrim": pc.utf8_rtrim_whitespace,
    **{name: getattr(pc, name) for name in ("year", "month", "day", "hour", "minute", "second", "floor", "ceil")},
    **{name: getattr(pc, name) for name in ("sqrt", "exp", "ln", "log10", "sin", "cos", "tan")},
}
_PATTERN: Mapping[str, Callable[..., Any]] = {
    "like": pc.match_like,
    "startswith": pc.starts_with,
    "endswith": pc.ends_with,
    "contains": pc.match_substring,
}


def compile_expr(expr: Expr, functions: Mapping[str, Function]) -> Compiled:
    """A function that computes the expression from columns."""
    return _Compiler(functions).compile(expr)


def compile_condition(predicates: Sequence[Expr], functions: Mapping[str, Function]) -> Callable[[Columns, int], Bools]:
    """All predicates at once: which of so many rows pass; unknown (null) does not pass."""
    compiled = [compile_expr(predicate, functions) for predicate in predicates]

    def passes(columns: Columns, rows: int) -> Bools:
        kept = np.ones(rows, dtype=np.bool_)
        for one in compiled:
            kept &= as_mask(one(columns), rows)
        return kept

    return passes


def compile_filter(predicates: Sequence[Expr], functions: Mapping[str, Function]) -> Callable[[Columns, int], Ints]:
    """The same as positions of the rows that pass, which is faster where few do."""
    compiled = [compile_expr(predicate, functions) for predicate in predicates]

    def passing(columns: Columns, rows: int) -> Ints:
        kept: pa.Array | None = None
        for one in compiled:
            value = one(columns)
            if not isinstance(value, pa.Scalar):
                kept = value if kept is None else pc.and_kleene(kept, value)
            elif not value.as_py():
                return np.empty(0, dtype=np.int64)
        if kept is None:
            return np.arange(rows)
        return np.asarray(pc.indices_nonzero(kept)).view(np.int64)

    return passing


def as_mask(value: Any, rows: int) -> Bools:
    if isinstance(value, pa.Scalar):
        return np.full(rows, bool(value.as_py()), dtype=np.bool_)
    return np.asarray(pc.fill_null(value, False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def as_array(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """A result as a column of this type; a constant is repeated."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value if value.type == kind else value.cast(kind), rows)
    return value if value.type == kind else pc.cast(value, kind, safe=False)


class _Compiler:
    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions

    def compile(self, expr: Expr) -> Compiled:
        if isinstance(expr, Column):
            return lambda columns: columns(expr)
        if isinstance(expr, Literal):
            scalar = _scalar(expr)
            return lambda _: scalar
        return self._call(expr)

    def _call(self, call: Call) -> Compiled:
        op = call.op
        if op in _COMPARE:
            return self._binary(_COMPARE[op], call, compared_as(call))
        if op in ("+", "-", "*"):
            return self._arithmetic(call)
        if op in ("/", "%"):
            return self._division(call)
        if op in ("and", "or"):
            combine = pc.and_kleene if op == "and" else pc.or_kleene
            parts = [self.compile(arg) for arg in call.args]
            return lambda columns: reduce(combine, (part(columns) for part in parts))
        if op in _PATTERN:
            text, pattern = self.compile(call.args[0]), _constant(call, 1)
            return lambda columns: _PATTERN[op](text(columns), pattern)
        if op in self._functions:
            return self._registered(self._functions[op], call)
        if op in _SPECIAL:
            return _SPECIAL[op](self, call)
        if op in _ONE:
            arg, kind = self.compile(call.args[0]), arrow_type(call.type)
            return lambda columns: _cast(_ONE[op](arg(columns)), kind)
        raise InternalError(f"no way to evaluate {op}")

    def _args(self, call: Call, kind: DataType | None = None) -> list[Compiled]:
        compiled = [self.compile(arg) for arg in call.args]
        if kind is None:
            return compiled
        wanted = arrow_type(kind)
        return [_casting(one, wanted) for one in compiled]

    def _binary(self, function: Callable[[Any, Any], Any], call: Call, kind: DataType | None) -> Compiled:
        left, right = self._args(call, kind)
        return lambda columns: function(left(columns), right(columns))

    def _arithmetic(self, call: Call) -> Compiled:
        function = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}[call.op]
        numbers = all(arg.type.family == Family.NUMBER for arg in call.args)
        left, right = self._args(call, call.type if numbers and call.type.name != "DECIMAL" else None)
        kind = arrow_type(call.type)
        return lambda columns: _cast(function(left(columns), right(columns)), kind)

    def _division(self, call: Call) -> Compiled:
        """Division by zero is null."""
        left, right = self._args(call, DOUBLE if call.op == "/" or call.type.name == "DECIMAL" else call.type)
        kind = arrow_type(call.type)
        divide = pc.divide if call.op == "/" else _remainder

        def compute(columns: Columns) -> Any:
            over, under = left(columns), right(columns)
            zero = pc.equal(under, pa.scalar(0, under.type))
            safe = pc.if_else(zero, pa.scalar(1, under.type), under)
            return _cast(pc.if_else(zero, pa.scalar(None, under.type), divide(over, safe)), kind)

        return compute

    def _in(self, call: Call) -> Compiled:
        tests = [self._call(Call("=", (call.args[0], option), types.BOOLEAN)) for option in call.args[1:]]
        return lambda columns: reduce(pc.or_kleene, (test(columns) for test in tests))

    def _case(self, call: Call) -> Compiled:
        kind = arrow_type(call.type)
        *branches, otherwise = [self.compile(arg) for arg in call.args]
        pairs = list(zip(branches[::2], branches[1::2], strict=True))

        def compute(columns: Columns) -> Any:
            result = _cast(otherwise(columns), kind)
            for when, then in reversed(pairs):
                result = pc.if_else(pc.fill_null(when(columns), False), _cast(then(columns), kind), result)
            return result

        return compute

    def _cast(self, call: Call) -> Compiled:
        return _casting(self.compile(call.args[0]), arrow_type(call.type))

    def _try_cast(self, call: Call) -> Compiled:
        """Null where a value cannot be cast."""
        compiled, kind = self.compile(call.args[0]), arrow_type(call.type)
        return lambda columns: _cast_or_null(compiled(columns), kind)

    def _field(self, call: Call) -> Compiled:
        struct, name = self.compile(call.args[0]), _constant(call, 1)
        return lambda columns: pc.struct_field(struct(columns), name)

    def _round(self, call: Call) -> Compiled:
        digits = _constant(call, 1) if len(call.args) > 1 else 0
        number, kind = self.compile(call.args[0]), arrow_type(call.type)
        return lambda columns: _cast(pc.round(number(columns), digits, "half_towards_infinity"), kind)

    def _power(self, call: Call) -> Compiled:
        return self._binary(pc.power, call, DOUBLE)

    def _greatest(self, call: Call) -> Compiled:
        args = self._args(call, call.type)
        return lambda columns: pc.max_element_wise(*(arg(columns) for arg in args))

    def _least(self, call: Call) -> Compiled:
        args = self._args(call, call.type)
        return lambda columns: pc.min_element_wise(*(arg(columns) for arg in args))

    def _coalesce(self, call: Call) -> Compiled:
        args = self._args(call, call.type)
        return lambda columns: pc.coalesce(*(arg(columns) for arg in args))

    def _nullif(self, call: Call) -> Compiled:
        value, kind = self.compile(call.args[0]), arrow_type(call.type)
        same = self._call(Call("=", call.args, types.BOOLEAN))

        def compute(columns: Columns) -> Any:
            equal = pc.fill_null(same(columns), False)
            return pc.if_else(equal, pa.scalar(None, kind), _cast(value(columns), kind))

        return compute

    def _substring(self, call: Call) -> Compiled:
        text = self.compile(call.args[0])
        start = max(_constant(call, 1) - 1, 0)
        stop = start + _constant(call, 2) if len(call.args) > 2 else None
        return lambda columns: pc.utf8_slice_codeunits(text(columns), start, stop)

    def _replace(self, call: Call) -> Compiled:
        text, old, new = self.compile(call.args[0]), _constant(call, 1), _constant(call, 2)
        return lambda columns: pc.replace_substring(text(columns), old, new)

    def _concat(self, call: Call) -> Compiled:
        args = self._args(call)
        return lambda columns: pc.binary_join_element_wise(*(arg(columns) for arg in args), "")

    def _registered(self, function: Function, call: Call) -> Compiled:
        args = [
            _casting(self.compile(arg), arrow_type(kind)) if isinstance(kind, DataType) else self.compile(arg)
            for arg, kind in zip(call.args, function.takes, strict=True)
        ]
        kind = arrow_type(call.type)

        def compute(columns: Columns) -> Any:
            values = [arg(columns) for arg in args]
            plain = [v.as_py() if isinstance(v, pa.Scalar) else v.to_numpy(zero_copy_only=False) for v in values]
            if function.call is None:
                raise InternalError(f"{function.name} has no body")
            return pa.array(function.call(*plain), type=kind)

        return compute


_SPECIAL: Mapping[str, Callable[[_Compiler, Call], Compiled]] = {
    "in": _Compiler._in,
    "case": _Compiler._case,
    "cast": _Compiler._cast,
    "try_cast": _Compiler._try_cast,
    "field": _Compiler._field,
    "round": _Compiler._round,
    "power": _Compiler._power,
    "greatest": _Compiler._greatest,
    "least": _Compiler._least,
    "coalesce": _Compiler._coalesce,
    "nullif": _Compiler._nullif,
    "substring": _Compiler._substring,
    "replace": _Compiler._replace,
    "concat": _Compiler._concat,
}


def _scalar(literal: Literal) -> pa.Scalar:
    kind = arrow_type(literal.type)
    if literal.type.family in (Family.TIME, Family.DURATION):
        width = pa.int32() if literal.type.name == "DATE" else pa.int64()
        return pa.scalar(literal.value, width).cast(kind)
    return pa.scalar(literal.value, kind)


def _constant(call: Call, position: int) -> Any:
    arg = call.args[position]
    if not isinstance(arg, Literal):
        raise ScriptError(
            f"argument {position + 1} of {call.op} is not a constant", "it is fixed for all rows", "Write a constant."
        )
    return arg.value


def compared_as(call: Call) -> DataType | None:
    left, right = (arg.type for arg in call.args)
    return types.common(left, right) if left != right else None


def _casting(compiled: Compiled, kind: pa.DataType) -> Compiled:
    return lambda columns: _cast(compiled(columns), kind)


def _cast(value: Any, kind: pa.DataType) -> Any:
    return value if value.type == kind else pc.cast(value, kind, safe=False)


def _cast_or_null(value: Any, kind: pa.DataType) -> Any:
    try:
        return pc.cast(value, kind)
    except pa.ArrowInvalid:
        if isinstance(value, pa.Scalar):
            return pa.scalar(None, kind)
    coded = value.dictionary_encode()
    possible = pa.concat_arrays([_repeated(_cast_or_null(one, kind), kind) for one in coded.dictionary])
    return possible.take(coded.indices)


def _repeated(scalar: pa.Scalar, kind: pa.DataType) -> pa.Array:
    return pa.array([scalar.as_py()], type=kind)


def _remainder(over: Any, under: Any) -> Any:
    """The remainder with the sign of the dividend, as in SQL."""
    quotient = pc.divide(over, under)
    if pa.types.is_floating(over.type):
        quotient = pc.trunc(quotient)
    return pc.subtract(over, pc.multiply(quotient, under))
