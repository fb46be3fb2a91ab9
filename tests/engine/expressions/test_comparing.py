"""Comparisons, membership and extremes: NaN equals itself and is greater than any other number."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions.comparing import _has_nan, compared_as, comparison, extreme, is_in
from millstream.engine.expressions.operands import scalar
from millstream.model import types
from millstream.model.expr import COMPARISONS, Call, Column, Literal
from millstream.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, DataType

numbers = st.none() | st.sampled_from([0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf])
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def placed(value: float) -> tuple[bool, float]:
    """Where a number stands among all: NaN last."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def call(op: str, left: DataType, right: Any) -> Call:
    return Call(op, (Column(0, "a", left), right), BOOLEAN)


@pytest.mark.parametrize("kind", [DOUBLE, FLOAT])
@given(
    pairs=st.lists(st.tuples(numbers, numbers), max_size=12), op=st.sampled_from(COMPARISONS), skip=st.integers(0, 3)
)
def test_columns_are_compared_with_nan_as_the_greatest(
    kind: DataType, pairs: list[tuple[float | None, float | None]], op: str, skip: int
) -> None:
    """Of slices too, whose buffers begin elsewhere."""
    arrow = arrow_type(kind)
    left, right = (pa.array([pair[side] for pair in pairs], arrow).slice(skip) for side in (0, 1))
    found = comparison(call(op, kind, Column(0, "b", kind)), kind)(left, right).to_pylist()
    wanted = [None if a is None or b is None else ORDER[op](placed(a), placed(b)) for a, b in pairs[skip:]]
    assert found == wanted


@given(
    values=st.lists(numbers, max_size=12), op=st.sampled_from(COMPARISONS), constant=st.sampled_from([0.0, -1.5, 9.0])
)
def test_a_constant_is_compared_alike(values: list[float | None], op: str, constant: float) -> None:
    compare = comparison(call(op, DOUBLE, Literal(constant, DOUBLE)), DOUBLE)
    wanted = [None if one is None else ORDER[op](placed(one), placed(constant)) for one in values]
    assert compare(pa.array(values, pa.float64()), pa.scalar(constant)).to_pylist() == wanted


@given(values=st.lists(numbers, max_size=9), skip=st.integers(0, 3), kind=st.sampled_from([pa.float32(), pa.float64()]))
@example(values=[1.0, 1.0, math.nan], skip=2, kind=pa.float64())
@example(values=[math.nan, 1.0, 1.0], skip=1, kind=pa.float32())
def test_a_nan_is_found_wherever_it_is(values: list[float | None], skip: int, kind: pa.DataType) -> None:
    column, rest = pa.array(values, kind).slice(skip), values[skip:]
    if any(one is not None and math.isnan(one) for one in rest):
        assert _has_nan(column)
    elif None not in rest:
        assert not _has_nan(column)
    assert _has_nan(pa.scalar(math.nan))
    assert not _has_nan(pa.scalar(None, pa.float64()))


def test_the_type_in_which_sides_meet() -> None:
    assert compared_as(call("=", INT, Literal(1, INT))) is None
    assert compared_as(call("=", INT, Column(0, "b", DOUBLE))) == DOUBLE
    assert compared_as(call("=", INT, Literal(1, BIGINT))) == BIGINT


OPTIONS: list[tuple[DataType, list[Any]]] = [
    (INT, [1, 2, -7]),
    (DOUBLE, [0.0, 1.5, math.nan]),
    (STRING, ["a", "", "ä"]),
    (BOOLEAN, [True]),
]


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
@pytest.mark.parametrize("null", [False, True])
def test_membership_is_equality_with_one_of_the_options(kind: DataType, options: list[Any], null: bool) -> None:
    literals = [Literal(one, kind) for one in options] + [Literal(None, kind)] * null
    member = is_in(literals, arrow_type(kind), [scalar(one) for one in literals])
    assert member is not None
    given = [*options, -0.0 if kind == DOUBLE else options[0], {"INT": 9, "DOUBLE": 7.0}.get(kind.name), None]
    found = member(pa.array(given, arrow_type(kind))).to_pylist()
    known = [True] * (len(options) + 1)
    other = (None if null else False) if given[-2] is not None else None
    assert found == [*known, other, None]


def test_options_that_are_no_constants_are_no_set() -> None:
    assert is_in([Literal(1, INT), Column(0, "b", INT)], pa.int32(), [pa.scalar(1)]) is None


EXTREMES: list[tuple[DataType, list[list[Any]]]] = [
    (DOUBLE, [[1.0, math.nan, None, -0.5], [2.0, 1.0, None, None]]),
    (BOOLEAN, [[True, False, None, False], [False, False, None, True]]),
    (STRING, [["b", "", None, "ä"], ["a", None, None, "z"]]),
    (
        types.decimal(10, 2),
        [[Decimal("1.00"), None, None, Decimal(-3)], [Decimal("1.01"), Decimal(0), None, Decimal(2)]],
    ),
]


@pytest.mark.parametrize("greatest", [True, False])
@pytest.mark.parametrize(("kind", "columns"), EXTREMES)
def test_extremes_leave_nulls_out(kind: DataType, columns: list[list[Any]], greatest: bool) -> None:
    found = extreme([pa.array(one, arrow_type(kind)) for one in columns], kind, greatest=greatest)
    assert found.type == arrow_type(kind)
    for row, value in enumerate(found.to_pylist()):
        known = [one[row] for one in columns if one[row] is not None]
        place: Callable[[Any], Any] = placed if kind == DOUBLE else lambda one: one
        wanted = (max if greatest else min)(known, key=place) if known else None
        assert value == wanted or (math.isnan(value) and math.isnan(wanted))


@pytest.mark.parametrize("kind", [TIMESTAMP, DATE])
def test_extremes_of_times_are_times(kind: DataType) -> None:
    width = pa.int32() if kind == DATE else pa.int64()
    columns = [pa.array(one, width).cast(arrow_type(kind)) for one in ([5, None], [-7, 3])]
    assert extreme(columns, kind, greatest=True).cast(width).to_pylist() == [5, 3]
    assert extreme(columns, kind, greatest=False).cast(width).to_pylist() == [-7, 3]
