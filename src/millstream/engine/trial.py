"""Whether the engine can evaluate a plan's expressions, tried on zero rows.

Which functions exist depends on types only, so a missing one shows without data. Users' functions are not called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions import as_array, compile_expr
from millstream.errors import Errors, InternalError, ScriptError
from millstream.model.expr import Column, Expr
from millstream.model.functions import Function
from millstream.model.query import Query
from millstream.model.types import DataType
from millstream.plan.nodes import Plan

_MISSING = (NotImplementedError, TypeError, InternalError, ScriptError)
"""Errors that mean an operation is not supported; they include Arrow's own."""
_ABOUT_VALUES = (ValueError, ArithmeticError)


def try_out(plan: Plan, functions: Mapping[str, Function] | None = None) -> None:
    """Raises ScriptErrors that name every expression the engine cannot evaluate."""
    stubs = {name: replace(function, call=lambda *_: []) for name, function in (functions or {}).items()}
    errors = Errors()
    for query in plan.script.queries:
        for what, expr, kind in _expressions(query):
            try:
                as_array(compile_expr(expr, stubs)(_no_rows), 0, arrow_type(kind))
            except _MISSING as error:
                found = f"{what} cannot be evaluated ({str(error).partition(chr(10))[0]})"
                valid = "operators and functions take the types that the language says"
                errors.add(ScriptError(found, valid, "CAST its parts, or write it in another way.", query.where))
            except _ABOUT_VALUES:
                continue  # a constant that fails may be in a place that no row needs
    errors.raise_if_any()


def _expressions(query: Query) -> list[tuple[str, Expr, DataType]]:
    """Each expression with a description and its result type: keys are compared as a common type."""
    conditions = [*query.residual, *(one for selection in query.selections for one in selection)]
    return [
        *((f'result column "{output.name}"', output.expr, output.expr.type) for output in query.outputs),
        *(("a join key", side, key.type) for key in query.keys for side in (key.left, key.right)),
        *(("a condition", condition, condition.type) for condition in conditions),
    ]


def _no_rows(column: Column) -> pa.Array:
    return pa.array([], arrow_type(column.type))
