"""Operands come in the types and on the rows that an operation needs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from millstream.engine.expressions.compiler import Compiler
from millstream.engine.expressions.operands import constant, row_count
from millstream.errors import InternalError
from millstream.model.expr import Call, Column, Literal
from millstream.model.functions import function
from millstream.model.types import BIGINT, DOUBLE, INT, NULL, STRING

N, S = Column(0, "n", INT), Column(0, "s", STRING)
COLUMNS = {"n": pa.array([1, None, 3], pa.int32()), "s": pa.array(["7", "x", "9"])}
NUMBER = Call("cast", (S,), INT)


def look(column: Column) -> pa.Array:
    return COLUMNS[column.name]


def both(first: Any, second: Any) -> list[Any]:
    return [first.to_pylist(), second.to_pylist()]


def test_an_operand_in_another_type() -> None:
    operands = Compiler({})
    assert operands.as_type(N, BIGINT)(look).equals(pa.array([1, None, 3], pa.int64()))
    assert operands.as_type(N, INT)(look) is COLUMNS["n"]
    assert operands.as_type(Literal(None, NULL), DOUBLE)(look).equals(pa.scalar(None, pa.float64()))
    row = Compiler({}, row=True)
    assert row.as_type(Literal(None, NULL), DOUBLE)(look).equals(pa.nulls(1, pa.float64()))


def test_the_second_operand_is_not_computed_where_the_first_is_null() -> None:
    """'x' is no number, and stands where n is null."""
    call = Call("pair", (N, NUMBER), INT)
    compiled = Compiler({}).of_both(call, both)
    for _ in range(2):
        assert compiled(look) == [[1, None, 3], [7, None, 9]]
    mirrored = Compiler({}).of_both(Call("pair", (NUMBER, N), INT), both)
    with pytest.raises(ValueError, match="'x' cannot be CAST"):
        mirrored(look)


def test_after_a_failure_it_is_no_longer_tried_on_all_rows() -> None:
    """Nor is a user's function ever called for a row that does not need it."""
    seen: list[list[Any]] = []

    @function("INT", "STRING")
    def own(texts: Any) -> list[int]:
        seen.append(list(texts))
        return [int(text) for text in texts]

    compiled = Compiler({"own": own}).of_both(Call("pair", (N, Call("own", (S,), INT)), INT), both)
    assert compiled(look) == [[1, None, 3], [7, None, 9]]
    assert seen == [["7", "9"]]


def test_how_many_rows_there_are() -> None:
    assert row_count(Call("+", (Literal(1, INT), Call("neg", (N,), INT)), INT))(look) == 3
    assert row_count(Call("neg", (Literal(1, INT),), INT))(look) == 1


def test_a_constant_must_be_one() -> None:
    assert constant(Literal("a", STRING)) == "a"
    with pytest.raises(InternalError, match="must be a constant"):
        constant(N)


def test_calls_of_users_are_seen_at_any_depth() -> None:
    own = function("INT", "INT", name="own")(lambda values: values)
    operands = Compiler({"own": own})
    assert operands.calls_users(Call("neg", (Call("own", (N,), INT),), INT))
    assert not operands.calls_users(NUMBER)
    assert operands.may_raise(NUMBER)
    assert not operands.may_raise(N)
