"""Arithmetic against Python's own integers, DECIMALs and floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions import numbers
from millstream.model import types
from millstream.model.types import BIGINT, DATE, DOUBLE, INT, INTERVAL, DataType

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
WHOLE: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
IN_DECIMALS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
}
bigints = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 2**31, 2**32]))


def column(values: list[Any], kind: DataType) -> pa.Array:
    return pa.array(values, arrow_type(kind))


def as_written(left: Any, right: Any, side: str) -> tuple[Any, Any]:
    """Two arrays, or one of them as a scalar."""
    return (left[0] if side == "left" else left), (right[0] if side == "right" else right)


sides = st.sampled_from(["both", "left", "right"])


@given(a=st.none() | bigints, b=st.none() | bigints, op=st.sampled_from("+-*"), side=sides)
def test_whole_numbers_are_exact_or_raise(a: int | None, b: int | None, op: str, side: str) -> None:
    left, right = as_written(column([a], BIGINT), column([b], BIGINT), side)
    compute = numbers.arithmetic(op, BIGINT, BIGINT, BIGINT)
    wanted = None if a is None or b is None else WHOLE[op](a, b)
    if wanted is not None and not -(2**63) <= wanted < 2**63:
        with pytest.raises(pa.ArrowInvalid, match="overflow"):
            compute(left, right)
        return
    assert compute(left, right).to_pylist() == [wanted]


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    edges = st.sampled_from([0, 1, -1, most, -most, 5, 10**scale if scale < precision else 1])
    return st.one_of(st.integers(-most, most), edges).map(lambda units: Decimal(units).scaleb(-scale, EXACT))


@st.composite
def operands(draw: st.DrawFn) -> tuple[DataType, Decimal, DataType, Decimal]:
    def operand() -> tuple[DataType, Decimal]:
        precision = draw(st.sampled_from([1, 4, 10, 18, 19, 37, 38]))
        scale = draw(st.integers(0, precision))
        return DataType("DECIMAL", precision, scale), draw(decimals(precision, scale))

    return *operand(), *operand()


@given(given=operands(), op=st.sampled_from("+-*"))
def test_decimals_are_rounded_half_up_to_the_digits_of_the_result_or_raise(
    given: tuple[DataType, Decimal, DataType, Decimal], op: str
) -> None:
    left, a, right, b = given
    result = types.decimal_result(op, left, right)
    compute = numbers.arithmetic(op, left, right, result)
    exact = IN_DECIMALS[op](a, b)
    if op != "*" and numbers._digits(op, arrow_type(left), arrow_type(right))[0] > numbers.WIDEST:
        return  # each operand loses its last digit before they meet, as in Spark
    wanted = exact.quantize(Decimal(1).scaleb(-(result.scale or 0)), context=EXACT)
    if wanted.copy_abs() >= Decimal(10) ** ((result.precision or 0) - (result.scale or 0)):
        with pytest.raises(ArithmeticError, match="more digits"):
            compute(column([a], left), column([b], right))
        return
    assert compute(column([a, None], left), column([b, b], right)).to_pylist() == [wanted, None]


def test_a_sum_that_has_77_digits_by_the_rule_loses_the_last_one_of_each_operand() -> None:
    """No type of Arrow's has 77 digits; as in Spark, the result has fewer after the point anyway."""
    wide, whole = DataType("DECIMAL", 38, 37), DataType("DECIMAL", 38, 0)
    result = types.decimal_result("+", wide, whole)
    a, b = Decimal("1.2345678901234567890123456789012345678"), Decimal(10**20)
    found = numbers.arithmetic("+", wide, whole, result)(column([a], wide), column([b], whole))
    assert found.to_pylist() == [(a + b).quantize(Decimal(1).scaleb(-(result.scale or 0)), context=EXACT)]


@given(a=st.floats(allow_subnormal=False), b=st.floats(allow_subnormal=False), op=st.sampled_from("+-*"))
def test_doubles_never_raise(a: float, b: float, op: str) -> None:
    found = numbers.arithmetic(op, DOUBLE, DOUBLE, DOUBLE)(column([a], DOUBLE), column([b], DOUBLE))[0].as_py()
    wanted = {"+": a + b, "-": a - b, "*": a * b}[op]
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))


def test_a_date_moves_by_days() -> None:
    day, week = pa.scalar(19_000, pa.int32()).cast(pa.date32()), pa.scalar(7 * 86_400_000_000, pa.duration("us"))
    dates = pa.array([19_000, None], pa.int32()).view(pa.date32())
    assert numbers.arithmetic("-", DATE, INTERVAL, DATE)(dates, week).cast(pa.int32()).to_pylist() == [18_993, None]
    assert numbers.arithmetic("+", INTERVAL, DATE, DATE)(week, dates)[0].as_py() > day.as_py()


@given(a=st.none() | bigints, b=st.none() | bigints, side=sides)
@example(a=-(2**63), b=-1, side="both")
def test_a_remainder_has_the_sign_of_the_dividend(a: int | None, b: int | None, side: str) -> None:
    left, right = as_written(column([a], BIGINT), column([b], BIGINT), side)
    found = numbers.remainder(BIGINT, BIGINT, BIGINT)(left, right)
    wanted = None if a is None or not b else a - abs(a) // abs(b) * abs(b) * (1 if a >= 0 else -1)
    assert found.to_pylist() == [wanted]


@given(given=operands(), side=sides)
def test_remainders_of_decimals_are_exact(given: tuple[DataType, Decimal, DataType, Decimal], side: str) -> None:
    left, a, right, b = given
    scale = max(left.scale or 0, right.scale or 0)
    if sum((kind.precision or 0) - (kind.scale or 0) + scale for kind in (left, right)) > 74:
        return  # refused by the language
    result = types.decimal_result("%", left, right)
    one, other = as_written(column([a], left), column([b], right), side)
    wanted = None if not b else EXACT.remainder(a, b)
    assert numbers.remainder(left, right, result)(one, other).to_pylist() == [wanted]


@given(a=st.none() | st.floats(), b=st.none() | st.floats(), side=sides)
def test_division_and_remainder_of_doubles(a: float | None, b: float | None, side: str) -> None:
    left, right = as_written(column([a], DOUBLE), column([b], DOUBLE), side)
    found = numbers.remainder(DOUBLE, DOUBLE, DOUBLE)(left, right)[0].as_py()
    quotient = numbers.division(left, right)[0].as_py()
    if a is None or not b:
        assert found is quotient is None
        return
    same = math.isnan(a) or math.isnan(b) or math.isinf(a)
    wanted = math.nan if same else math.fmod(a, b)
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))
    with_sign = math.nan if math.isinf(a) and math.isinf(b) else _divided(a, b)
    assert quotient == with_sign or (math.isnan(quotient) and math.isnan(with_sign))


def _divided(a: float, b: float) -> float:
    try:
        return a / b
    except OverflowError:
        return math.copysign(math.inf, a) * math.copysign(1, b)


@given(given=operands(), target=st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(lambda one: one[0] >= one[1]))
def test_rescaled_rounds_half_up_or_gives_null(
    given: tuple[DataType, Decimal, DataType, Decimal], target: tuple[int, int]
) -> None:
    source, value, *_ = given
    precision, scale = target
    found = numbers.rescaled(column([value, None], source), pa.decimal128(precision, scale)).to_pylist()
    rounded = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    assert found == [rounded if rounded.copy_abs() < Decimal(10) ** (precision - scale) else None, None]


NINES = ["312499999999999999999999999999.9999995", "79999999999999999999999999.9999995", "-0.79999999999999999999995"]


@pytest.mark.parametrize("text", NINES)
@pytest.mark.parametrize("scale", [15, 21, 30, 44])
def test_numbers_that_arrow_divides_wrongly(text: str, scale: int) -> None:
    """Its guess of a quotient's digit overflows for some divisors of more than 32 bits."""
    value = Decimal(text)
    if scale < -int(value.as_tuple().exponent):
        return
    column = pa.array([value], pa.decimal256(numbers.WIDEST, scale))
    for kept in range(scale):
        found = numbers.rounded_off(column, scale - kept)
        assert found.type.scale == kept
        assert found[0].as_py() == value.quantize(Decimal(1).scaleb(-kept), context=EXACT)
        cut = numbers.cut_off(column, scale - kept)[0].as_py()
        assert cut == value.quantize(Decimal(1).scaleb(-kept), rounding="ROUND_DOWN", context=EXACT)


@pytest.mark.parametrize(
    ("over", "under"),
    [
        (107374182393750000000, 12500000000),
        (5070602400912773473206550921216, 35184372088831),
        (61844244265344129175608360959, 3599808799646802315),
    ],
)
def test_remainders_that_arrow_divides_wrongly(over: int, under: int) -> None:
    """A quotient that is too small leaves more than the divisor."""
    wide, narrow = DataType("DECIMAL", 37, 0), DataType("DECIMAL", 19, 0)
    compute = numbers.remainder(wide, narrow, narrow)
    for sign, other in product((1, -1), (1, -1)):
        found = compute(column([sign * over], wide), column([other * under], narrow))
        assert found.to_pylist() == [sign * (over % under)]


@given(value=decimals(38, 6), kind=st.sampled_from([pa.int8(), pa.int32(), pa.int64()]))
def test_decimals_to_whole_numbers_lose_what_stands_after_the_point(value: Decimal, kind: pa.DataType) -> None:
    low, high = numbers.limits(kind)
    assert (low, high) == (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    found = numbers.exact_to_integer(pa.array([value], pa.decimal128(38, 6)), kind)
    assert found.type == kind
    assert found.to_pylist() == [int(value) if low <= int(value) <= high else None]


@given(value=st.one_of(decimals(15, 2), decimals(15, 15), decimals(16, 3), decimals(38, 18)))
def test_a_decimal_becomes_the_nearest_double(value: Decimal) -> None:
    """Both ways: by a division where that is exact, and as text."""
    digits = len(value.as_tuple().digits)
    scale = -int(value.as_tuple().exponent)
    for precision in {max(15, digits, scale), 38}:
        column = pa.array([value, None], pa.decimal128(precision, scale))
        assert numbers.plain_cast(column, pa.float64()).to_pylist() == [float(value), None]
        assert numbers.plain_cast(column[0], pa.float64()).as_py() == float(value)


@pytest.mark.parametrize("make", [numbers.negated, numbers.absolute])
def test_the_least_number_has_no_opposite(make: Callable[[DataType], Callable[[Any], Any]]) -> None:
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        make(INT)(column([-(2**31)], INT))
    wanted = 2**31 - 1
    assert make(INT)(column([-wanted, None], INT)).to_pylist() == [wanted, None]
    wide = DataType("DECIMAL", 38, 0)
    assert make(wide)(column([-(10**38) + 1], wide)).to_pylist() == [10**38 - 1]


def test_a_zero_keeps_its_sign_and_what_has_no_logarithm_is_null() -> None:
    given = column([0.0, -0.0, -3.0, 1.0, math.nan, None], DOUBLE)
    signs = numbers.sign(given).to_pylist()
    assert [math.copysign(1, one) for one in signs[:2]] == [1.0, -1.0]
    assert signs[2:4] == [-1.0, 1.0]
    assert math.isnan(signs[4])
    logs = numbers.logarithm(pc.ln)(given).to_pylist()
    assert logs[:4] == [None, None, None, 0.0]
    assert math.isnan(logs[4])
    assert logs[5] is None


@pytest.mark.parametrize("side", ["columns", "constant base", "constant exponent", "constants"])
def test_powers_of_one_are_those_of_java(side: str) -> None:
    edges = [None, 0.0, -0.0, 1.0, -1.0, 2.0, -3.0, math.inf, -math.inf, math.nan]
    for a, b in product(edges, edges):
        one, other = column([a], DOUBLE), column([b], DOUBLE)
        base = one[0] if side in ("constant base", "constants") else one
        exponent = other[0] if side in ("constant exponent", "constants") else other
        found = numbers.power(base, exponent)
        value = found.as_py() if isinstance(found, pa.Scalar) else found[0].as_py()
        if a is None or b is None:
            assert value is None
        elif b == 0:
            assert value == 1.0
        elif math.isnan(a) or math.isnan(b) or (abs(a) == 1 and math.isinf(b)):
            assert math.isnan(value)
        else:
            assert value == pc.power(one, other)[0].as_py()


def test_a_null_that_no_operand_has_raises() -> None:
    known, unknown = pa.array([1, None]), pa.array([None, None], pa.int64())
    assert numbers.checked(unknown, unknown, known, "why").null_count == 2
    with pytest.raises(ArithmeticError, match="why"):
        numbers.checked(unknown, known, known, "why")
