"""Masks and positions tell the same rows, those for which every predicate is true, whatever may raise among them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.expressions.conditions import compile_condition, compile_filter
from millstream.model.expr import Call, Column, Expr, Literal
from millstream.model.types import BOOLEAN, INT, STRING

N, B, S = Column(0, "n", INT), Column(0, "b", BOOLEAN), Column(0, "s", STRING)
rows = st.lists(
    st.tuples(st.none() | st.integers(-3, 3), st.none() | st.booleans(), st.sampled_from(["1", "2", "x"])), max_size=9
)


def above(limit: int) -> Expr:
    return Call(">", (N, Literal(limit, INT)), BOOLEAN)


IS_NUMBER = Call("in", (S, Literal("1", STRING), Literal("2", STRING)), BOOLEAN)
AS_NUMBER = Call("=", (Call("cast", (S,), INT), Literal(1, INT)), BOOLEAN)


@given(
    given=rows,
    limits=st.lists(st.integers(-4, 4), max_size=3),
    with_b=st.booleans(),
    constant=st.none() | st.booleans(),
)
def test_a_mask_and_positions_tell_the_rows_that_pass(
    given: list[tuple[int | None, bool | None, str]], limits: list[int], with_b: bool, constant: bool | None
) -> None:
    columns = {
        "n": pa.array([n for n, _, _ in given], pa.int32()),
        "b": pa.array([b for _, b, _ in given], pa.bool_()),
        "s": pa.array([s for _, _, s in given], pa.string()),
    }
    predicates = [*map(above, limits), *([B] if with_b else [])]
    if constant is not None:
        predicates.append(Literal(constant, BOOLEAN))
    wanted = [
        row
        for row, (n, b, _) in enumerate(given)
        if all(n is not None and n > limit for limit in limits) and (not with_b or b is True) and constant is not False
    ]

    def look(column: Column) -> pa.Array:
        return columns[column.name]

    assert compile_condition(predicates, {})(look, len(given)).nonzero()[0].tolist() == wanted
    assert compile_filter(predicates, {})(look, len(given)).tolist() == wanted
    # What may raise comes last wherever it is written, and sees only texts that are numbers.
    careful = [AS_NUMBER, *predicates, IS_NUMBER]
    number = [row for row in wanted if given[row][2] == "1"]
    assert compile_filter(careful, {})(look, len(given)).tolist() == number
    assert compile_condition(careful, {})(look, len(given)).nonzero()[0].tolist() == number


def test_what_raises_on_a_row_that_it_sees_raises() -> None:
    look = {"s": pa.array(["1", "x"])}
    for make in (compile_condition, compile_filter):
        with pytest.raises(ValueError, match="'x' cannot be CAST"):
            make([AS_NUMBER], {})(lambda column: look[column.name], 2)


def test_no_predicate_lets_all_pass() -> None:
    def never(_: Column) -> pa.Array:
        raise AssertionError

    assert compile_condition([], {})(never, 3).tolist() == [True] * 3
    assert compile_filter([], {})(never, 3).tolist() == [0, 1, 2]
