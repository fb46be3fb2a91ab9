"""Which expressions can fail on some value, so that they are evaluated only on the rows that need them."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.model.expr import Call, Expr, can_fail, walk
from millstream.model.functions import Function


def may_raise(expr: Expr, functions: Mapping[str, Function]) -> bool:
    """Whether some value could stop the query."""
    calls = (node for node in walk(expr) if isinstance(node, Call))
    return any(call.op in functions or can_fail(call) for call in calls)
