"""The compiler of expressions: makes a function over columns from each, using the tables of operations and branches.

A compiled expression that reads columns gives an array of as many rows. One of constants only is evaluated once, on a
single row, and gives a scalar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from millstream.engine.expressions.branches import BRANCHES
from millstream.engine.expressions.operands import Compiled, Operands, scalar
from millstream.engine.expressions.operations import OPERATIONS, Way, registered
from millstream.engine.expressions.some_rows import ColumnLookup
from millstream.errors import InternalError
from millstream.model.expr import Call, Column, Expr, Literal, walk
from millstream.model.functions import Function

_WAYS: Mapping[str, Way] = {**OPERATIONS, **BRANCHES}


def compile_expr(expr: Expr, functions: Mapping[str, Function]) -> Compiled:
    """A function that computes the expression from columns."""
    return Compiler(functions).compile(expr)


class Compiler(Operands):
    """With `row`, constants are arrays of one row and no column is read."""

    def __init__(self, functions: Mapping[str, Function], *, row: bool = False) -> None:
        super().__init__(functions)
        self._row = row

    def compile(self, expr: Expr) -> Compiled:
        if isinstance(expr, Column):
            return lambda columns: columns(expr)
        if isinstance(expr, Literal):
            value = scalar(expr)
            constant = pa.repeat(value, 1) if self._row else value
            return lambda _: constant
        if self._row or any(isinstance(node, Column) for node in walk(expr)):
            return self._call(expr)
        return self._once(expr)

    def _once(self, call: Call) -> Compiled:
        """Evaluates an expression of constants once; a user's function is called each time, since it may give another
        value.
        """
        compiled = Compiler(self.functions, row=True)._call(call)
        keep = not self.calls_users(call)
        kept: list[pa.Scalar] = []

        def compute(columns: ColumnLookup) -> Any:
            if kept:
                return kept[0]
            found = compiled(columns)[0]
            if keep:
                kept.append(found)
            return found

        return compute

    def _call(self, call: Call) -> Compiled:
        if call.op in self.functions:
            return registered(self, self.functions[call.op], call)
        if call.op not in _WAYS:
            raise InternalError(f"no way to evaluate {call.op}")
        return _WAYS[call.op](self, call)
