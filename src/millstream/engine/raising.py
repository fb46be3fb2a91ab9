"""Which expressions some value could make fail, so that they are kept from rows that do not need them."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.model import types
from millstream.model.expr import Call, Expr, walk
from millstream.model.functions import Function


def may_raise(expr: Expr, functions: Mapping[str, Function]) -> bool:
    """Whether some value could stop the query."""
    return any(_raises(node, functions) for node in walk(expr) if isinstance(node, Call))


def _raises(call: Call, functions: Mapping[str, Function]) -> bool:
    if call.op in functions:
        return True
    if call.op in ("+", "-", "*", "neg", "abs"):
        return not call.type.is_float
    if call.op == "cast":
        return not types.widens(call.args[0].type, call.type)
    return call.op in ("floor", "ceil", "round")
