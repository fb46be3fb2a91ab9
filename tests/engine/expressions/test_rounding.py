"""`round`, `floor` and `ceil` against Python's DECIMALs: a number is rounded as it is written, half away from zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.engine.expressions.rounding import _as_written, _rounded, rounder, whole
from millstream.model.types import BIGINT, DOUBLE, FLOAT, INT, TINYINT, DataType

PRECISE = Context(prec=1_000, rounding=ROUND_HALF_UP, Emin=-2_000, Emax=2_000)
halves = st.integers(-(10**6), 10**6).map(lambda n: n / 1_000 + 0.0005)


def as_written(value: float, digits: int) -> float:
    if not math.isfinite(value):
        return value
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), context=PRECISE)) + 0.0


@given(value=st.one_of(st.floats(), halves), digits=st.integers(-25, 25))
@example(value=2.675, digits=2)
@example(value=1.005, digits=2)
@example(value=-0.4, digits=0)
@example(value=0.49999999999999994, digits=0)
@example(value=9007199254740993.0, digits=1)
def test_a_double_is_rounded_as_it_is_written(value: float, digits: int) -> None:
    found = rounder(DOUBLE, digits, DOUBLE)(pa.array([value, None])).to_pylist()
    assert found[1] is None
    wanted = as_written(value, digits)
    assert found[0] == wanted or (math.isnan(found[0]) and math.isnan(wanted))
    assert math.copysign(1, found[0]) == math.copysign(1, wanted) or math.isnan(wanted)


@given(values=st.lists(st.one_of(halves, st.floats(-1e15, 1e15)), min_size=1, max_size=30), digits=st.integers(-3, 6))
def test_the_quick_way_is_the_written_way(values: list[float], digits: int) -> None:
    given = np.array([value for value in values if value])
    if len(given):
        assert _rounded(given, digits).tolist() == _as_written(given, digits).tolist()


@pytest.mark.parametrize(("digits", "wanted"), [(400, [1e-300, 12.0]), (-400, [0.0, 0.0])])
def test_digits_beyond_all_numbers(digits: int, wanted: list[float]) -> None:
    assert rounder(DOUBLE, digits, DOUBLE)(pa.array([1e-300, 12.0])).to_pylist() == wanted


def test_a_float_is_rounded_as_the_double_that_it_is() -> None:
    value = np.float32(2.675)
    found = rounder(FLOAT, 2, FLOAT)(pa.array([value], pa.float32()))
    assert found.type == pa.float32()
    assert found[0].as_py() == float(np.float32(as_written(float(value), 2)))


@given(value=st.integers(-128, 127), digits=st.integers(-40, 3))
def test_whole_numbers_are_rounded_in_their_type_or_raise(value: int, digits: int) -> None:
    wanted = int(Decimal(value).quantize(Decimal(1).scaleb(-min(digits, 0)), context=PRECISE))
    compute = rounder(TINYINT, digits, TINYINT)
    if not -128 <= wanted <= 127:
        with pytest.raises(pa.ArrowInvalid):
            compute(pa.array([value], pa.int8()))
        return
    assert compute(pa.array([value, None], pa.int8())).to_pylist() == [wanted, None]


@given(units=st.integers(-(10**10) + 1, 10**10 - 1), digits=st.integers(-12, 4))
def test_decimals_are_rounded_half_up(units: int, digits: int) -> None:
    value = Decimal(units).scaleb(-2)
    scale = max(min(digits, 2), 0)
    result = DataType("DECIMAL", 14, scale)
    found = rounder(DataType("DECIMAL", 10, 2), digits, result)(pa.array([value, None], pa.decimal128(10, 2)))
    assert found.to_pylist() == [value.quantize(Decimal(1).scaleb(-min(digits, 2)), context=PRECISE), None]


def test_a_rounded_decimal_that_does_not_fit_raises() -> None:
    kind = DataType("DECIMAL", 2, 1)
    with pytest.raises(ArithmeticError, match="round gives more digits"):
        rounder(kind, 0, DataType("DECIMAL", 1, 0))(pa.array([Decimal("9.9")], pa.decimal128(2, 1)))


WAYS: list[tuple[str, Callable[[Any], int]]] = [("floor", math.floor), ("ceil", math.ceil)]


@pytest.mark.parametrize(("name", "oracle"), WAYS)
@pytest.mark.parametrize("kind", [DOUBLE, FLOAT])
def test_floor_and_ceil_raise_where_no_bigint_is(name: str, oracle: Callable[[Any], int], kind: DataType) -> None:
    compute = whole(kind, BIGINT, name)
    arrow = pa.float64() if kind == DOUBLE else pa.float32()
    fits = [0.5, -0.5, -(2.0**63), 2.0**62, 1e10]
    assert compute(pa.array([*fits, None], arrow)).to_pylist() == [*map(oracle, np.array(fits, "f4").tolist()), None]
    assert compute(pa.array([math.nan], arrow)).to_pylist() == [0], "as in every Spark"
    for value in (math.inf, -math.inf, 2.0**63, -(2.0**63) * 1.1, 1e30):
        with pytest.raises(ArithmeticError, match="a value does not fit in BIGINT"):
            compute(pa.array([0.0, value], arrow))
    assert compute(pa.array([], arrow)).to_pylist() == []


@pytest.mark.parametrize(("name", "oracle"), WAYS)
@given(units=st.integers(-(10**38) + 1, 10**38 - 1), precision=st.sampled_from([10, 38]))
def test_floor_and_ceil_of_decimals_are_exact(
    name: str, oracle: Callable[[Any], int], units: int, precision: int
) -> None:
    value = Decimal(units % 10**precision * (1 if units > 0 else -1)).scaleb(-2, PRECISE)
    compute = whole(DataType("DECIMAL", precision, 2), DataType("DECIMAL", precision - 1, 0), name)
    found = compute(pa.array([value, None], pa.decimal128(precision, 2))).to_pylist()
    assert found == [oracle(value), None]


def test_whole_numbers_stay_as_they_are() -> None:
    assert whole(INT, BIGINT, "floor")(pa.array([-7, None], pa.int32())).equals(pa.array([-7, None], pa.int64()))
