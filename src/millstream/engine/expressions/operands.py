"""The operands of an operation, as functions of columns, in the types and on the rows that it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions.numbers import plain_cast
from millstream.engine.expressions.raising import may_raise
from millstream.engine.expressions.some_rows import ColumnLookup, where_known
from millstream.errors import InternalError
from millstream.model.expr import Call, Column, Expr, Literal, walk
from millstream.model.functions import Function
from millstream.model.types import DataType, Family

Compiled = Callable[[ColumnLookup], Any]
After = Callable[[Any, ColumnLookup], Any]
"""An argument's values, given those of the argument before it."""
FAILURES = (pa.ArrowInvalid, ArithmeticError, ValueError)
"""What a value makes an operation raise."""


class Operands(ABC):
    """The part of the compiler that operations know."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = functions

    @abstractmethod
    def compile(self, expr: Expr) -> Compiled:
        """A function that computes the expression from columns: an array, or a scalar where it is a constant."""

    def may_raise(self, expr: Expr) -> bool:
        return may_raise(expr, self.functions)

    def calls_users(self, expr: Expr) -> bool:
        """Whether the expression calls a user's function."""
        return any(isinstance(node, Call) and node.op in self.functions for node in walk(expr))

    def as_type(self, expr: Expr, kind: DataType) -> Compiled:
        """An expression cast to a type that can hold all its values."""
        compiled = self.compile(expr)
        if expr.type == kind:
            return compiled
        wanted = arrow_type(kind)
        if expr.type.family == Family.NULL:
            return lambda columns: _untyped(compiled(columns), wanted)
        return lambda columns: plain_cast(compiled(columns), wanted)

    def of_first(self, call: Call, function: Callable[[Any], Any]) -> Compiled:
        arg = self.compile(call.args[0])
        return lambda columns: function(arg(columns))

    def of_both(self, call: Call, function: Callable[[Any, Any], Any], kind: DataType | None = None) -> Compiled:
        left, right = (self.compile(arg) if kind is None else self.as_type(arg, kind) for arg in call.args)
        after = self.after(call, call.args[1], right, kind)
        if after is None:
            return lambda columns: function(left(columns), right(columns))

        def compute(columns: ColumnLookup) -> Any:
            first = left(columns)
            return function(first, after(first, columns))

        return compute

    def after(self, call: Call, arg: Expr, compiled: Compiled, kind: DataType | None = None) -> After | None:
        """An argument that may raise: as in Spark, it is evaluated only where the argument before it is not null."""
        if not self.may_raise(arg):
            return None
        rows, wanted = row_count(call), arrow_type(kind or arg.type)
        careful = self.calls_users(arg)

        def compute(first: Any, columns: ColumnLookup) -> Any:
            nonlocal careful
            if not careful:
                try:
                    return compiled(columns)  # on all rows: bench tricks
                except FAILURES:
                    # From now on do not try all rows first: nested tries would double the work at each level.
                    careful = True
            return where_known(first, columns, rows(columns), compiled, wanted)

        return compute


def row_count(call: Call) -> Callable[[ColumnLookup], int]:
    """The number of rows, from a column that the call reads anyway."""
    column = next((node for node in walk(call) if isinstance(node, Column)), None)
    return (lambda _: 1) if column is None else (lambda columns: len(columns(column)))


def scalar(literal: Literal) -> pa.Scalar:
    """A constant as an Arrow scalar."""
    kind = arrow_type(literal.type)
    if literal.type.family in (Family.TIME, Family.DURATION):
        width = pa.int32() if literal.type.name == "DATE" else pa.int64()
        return pa.scalar(literal.value, width).cast(kind)
    return pa.scalar(literal.value, kind)


def constant(arg: Expr) -> Any:
    """The value of an argument that must be a constant."""
    if not isinstance(arg, Literal):
        raise InternalError("an argument that must be a constant was let through")
    return arg.value


def _untyped(value: Any, kind: pa.DataType) -> Any:
    return pa.scalar(None, kind) if isinstance(value, pa.Scalar) else pa.nulls(len(value), kind)
