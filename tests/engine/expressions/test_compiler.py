"""Columns give arrays, constants are evaluated once and give scalars, and every operator of the language has a way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.engine.expressions.compiler import _WAYS, Compiler, compile_expr
from millstream.errors import InternalError
from millstream.model.expr import COMPARISONS, Call, Column, Literal
from millstream.model.functions import BUILTINS, function
from millstream.model.types import BOOLEAN, DATE, INT, INTERVAL, STRING, TIMESTAMP, DataType

N = Column(0, "n", INT)
VALUES = pa.array([1, 2, None], pa.int32())


def look(_: Column) -> pa.Array:
    return VALUES


def never(_: Column) -> pa.Array:
    raise AssertionError("no column is needed")


def plus(*args: Any) -> Call:
    return Call("+", args, INT)


def test_a_column_is_the_column() -> None:
    assert compile_expr(N, {})(look) is VALUES


@pytest.mark.parametrize(
    ("value", "kind", "arrow"),
    [
        (7, INT, pa.scalar(7, pa.int32())),
        (None, STRING, pa.scalar(None, pa.string())),
        (19_000, DATE, pa.scalar(19_000, pa.int32()).cast(pa.date32())),
        (5, TIMESTAMP, pa.scalar(5, pa.int64()).cast(pa.timestamp("us", "UTC"))),
        (5, INTERVAL, pa.scalar(5, pa.int64()).cast(pa.duration("us"))),
    ],
)
def test_a_constant_is_a_scalar_of_its_type(value: Any, kind: DataType, arrow: pa.Scalar) -> None:
    assert compile_expr(Literal(value, kind), {})(never).equals(arrow)


def test_constants_are_evaluated_once_and_give_a_scalar() -> None:
    compiled = compile_expr(plus(Literal(1, INT), Literal(2, INT)), {})
    first = compiled(never)
    assert first.equals(pa.scalar(3, pa.int32()))
    assert compiled(never) is first


def test_constants_that_fail_do_so_when_they_are_asked_for() -> None:
    compiled = compile_expr(plus(Literal(2**31 - 1, INT), Literal(1, INT)), {})
    for _ in range(2):
        with pytest.raises(pa.ArrowInvalid, match="overflow"):
            compiled(never)


def test_a_users_function_of_constants_is_called_each_time() -> None:
    calls: list[np.ndarray] = []

    @function("INT", "INT")
    def count(values: np.ndarray) -> list[int]:
        calls.append(values)
        return [len(calls)] * len(values)

    compiled = compile_expr(Call("count", (Literal(5, INT),), INT), {"count": count})
    assert [compiled(never).as_py() for _ in range(3)] == [1, 2, 3]
    assert [call.tolist() for call in calls] == [[5]] * 3


def test_columns_and_constants_meet() -> None:
    assert compile_expr(plus(N, plus(Literal(1, INT), Literal(2, INT))), {})(look).to_pylist() == [4, 5, None]


def test_every_operator_and_function_has_a_way() -> None:
    words = {
        "and",
        "or",
        "not",
        "neg",
        "in",
        "is_null",
        "like",
        "case",
        "cast",
        "try_cast",
        "field",
        "+",
        "-",
        "*",
        "/",
        "%",
    }
    assert {*COMPARISONS, *words, *BUILTINS} - {"if"} <= set(_WAYS)
    with pytest.raises(InternalError, match="no way to evaluate frobnicate"):
        Compiler({}).compile(Call("frobnicate", (N,), BOOLEAN))
