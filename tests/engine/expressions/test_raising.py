"""Which expressions some value could make fail."""

from __future__ import annotations

import pytest

from millstream.engine.expressions.raising import may_raise
from millstream.model.expr import Call, Column, Expr, Literal
from millstream.model.functions import function
from millstream.model.types import BOOLEAN, DOUBLE, INT, STRING

N, X, S = Column(0, "i", INT), Column(0, "x", DOUBLE), Column(0, "s", STRING)


@function("INT", "INT")
def own(values: object) -> object:
    return values


@pytest.mark.parametrize(
    ("expr", "raises"),
    [
        (N, False),
        (Literal(1, INT), False),
        (Call("+", (X, X), DOUBLE), False),
        (Call("+", (N, N), INT), True),
        (Call("cast", (S,), INT), True),
        (Call("try_cast", (S,), INT), False),
        (Call("cast", (N,), DOUBLE), False),
        (Call("upper", (S,), STRING), False),
        (Call("own", (N,), INT), True),
        (Call("floor", (X,), INT), True),
    ],
)
def test_what_may_raise_does_so_at_any_depth(expr: Expr, raises: bool) -> None:
    known = {"own": own}
    assert may_raise(expr, known) == raises
    deep = Call("not", (Call("is_null", (expr,), BOOLEAN),), BOOLEAN)
    assert may_raise(deep, known) == raises
