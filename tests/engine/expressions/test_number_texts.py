"""Numbers as text: whatever Python reads as a number is the number it reads, in every form that Spark knows."""

from __future__ import annotations

import math
import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.engine.expressions import number_texts

EXACT = Context(prec=6_000, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999)
NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
blanks = st.sampled_from(["", " ", "\n ", "\t"])
pieces = st.lists(st.sampled_from([*"0123456789", ".", "-", "+", "e", "E", " ", "d", "x", "inf", "NaN"]), max_size=9)
texts = st.one_of(
    st.from_regex(NUMBER, fullmatch=True),
    pieces.map("".join),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
)
columns = st.lists(st.none() | st.tuples(blanks, texts, blanks).map("".join), max_size=12)


def whole(text: str) -> int | None:
    found = text.strip(" \n\t")
    return int(found) if re.fullmatch("[+-]?[0-9]+", found) else None


def real(text: str) -> float | None:
    found = text.strip(" \n\t")
    if re.fullmatch(f"({NUMBER}[dDfF]?)", found):
        return float(found.rstrip("dDfF"))
    if re.fullmatch("[+-]?inf(inity)?|nan", found, re.IGNORECASE):
        return float(found)
    return None


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64()])
@given(values=columns)
@example(
    values=[
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "+000",
        "0" * 60 + "7",
        str(2**140 + 5),
    ]
)
def test_whole_numbers_are_read(kind: pa.DataType, values: list[str | None]) -> None:
    bits = kind.bit_width - 1
    read = [None if text is None else whole(text) for text in values]
    wanted = [one if one is not None and -(2**bits) <= one < 2**bits else None for one in read]
    assert number_texts.read_integers(pa.array(values, pa.string()), kind).to_pylist() == wanted


@given(values=columns)
@example(values=["-Infinity", "+inf", "NaN", "1.5d", "-.5e-2", "1e400", None, "1."])
def test_real_numbers_are_read(values: list[str | None]) -> None:
    wanted = [None if text is None else real(text) for text in values]
    found = number_texts.read_reals(pa.array(values, pa.string()), pa.float64()).to_pylist()
    assert list(map(repr, found)) == list(map(repr, wanted))


@pytest.mark.parametrize("size", [(10, 2), (38, 0), (38, 38), (3, 1)])
@given(values=columns)
@example(values=["99.995", "123456789012345678901234567890.5", "1e-30", "4" * 60, "1e999999999", "1e-999999999", "-0"])
def test_decimals_are_read_and_rounded_half_up(size: tuple[int, int], values: list[str | None]) -> None:
    precision, scale = size

    def wanted(text: str | None) -> Decimal | None:
        if text is None or not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text.strip(" \n\t")):
            return None
        number = Decimal(text.strip(" \n\t"))
        if not number or number.adjusted() > 40:
            return None if number else Decimal(0)
        rounded = number.quantize(Decimal(1).scaleb(-scale), context=EXACT) if number.adjusted() > -99 else Decimal(0)
        return rounded if rounded.copy_abs() < Decimal(10) ** (precision - scale) else None

    found = number_texts.read_decimals(pa.array(values, pa.string()), pa.decimal128(precision, scale)).to_pylist()
    assert found == [wanted(text) for text in values]


def test_digits_of_other_scripts_are_digits_of_decimals_only() -> None:
    given = pa.array(["٣", "1٣.５e२", None, "7"])
    assert number_texts.read_decimals(given, pa.decimal128(10, 1)).to_pylist() == [3, 1350, None, 7]
    assert number_texts.read_integers(given, pa.int64()).to_pylist() == [None, None, None, 7]
    assert number_texts.read_reals(given, pa.float64()).to_pylist() == [None, None, None, 7.0]


def java(value: float) -> str:
    """How Java writes a DOUBLE since version 19: the fewest digits, with an exponent outside of 0.001 to 10 million."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    size = abs(value)
    if math.isinf(size):
        return f"{sign}Infinity"
    if size == 0:
        return f"{sign}0.0"
    digits = Decimal(repr(size)).normalize(EXACT)
    if 1e-3 <= size < 1e7:
        text = f"{digits:f}"
        return f"{sign}{text}" if "." in text else f"{sign}{text}.0"
    mantissa, shift = "".join(map(str, digits.as_tuple().digits)), digits.adjusted()
    return f"{sign}{mantissa[0]}.{mantissa[1:] or '0'}E{shift}"


@given(values=st.lists(st.none() | st.floats() | st.integers(-(10**9), 10**9).map(float), max_size=12))
@example(values=[0.0, -0.0, 1e7, 9999999.0, 1e-3, 0.00099, 1e23, 5e-324, None, math.nan, -math.inf, 123456.789])
def test_real_numbers_are_written_as_java_writes_them(values: list[float | None]) -> None:
    found = number_texts.real_texts(pa.array(values, pa.float64())).to_pylist()
    assert found == [None if one is None else java(one) for one in values]


@given(bits=st.integers(0, 2**32 - 1))
def test_a_float_is_told_apart_by_its_text(bits: int) -> None:
    value = struct.unpack("f", struct.pack("I", bits))[0]
    (text,) = number_texts.real_texts(pa.array([value], pa.float32())).to_pylist()
    again = np.float32(text.replace("Infinity", "inf"))
    assert again == np.float32(value) or math.isnan(value)
    assert text == "NaN" or math.isinf(value) or re.fullmatch(r"-?[0-9]+\.[0-9]+(E-?[0-9]+)?", text)


@given(units=st.integers(-(10**38) + 1, 10**38 - 1), scale=st.integers(0, 38))
def test_decimals_are_written_with_all_their_digits(units: int, scale: int) -> None:
    value = Decimal(units).scaleb(-scale, EXACT)
    found = number_texts.decimal_texts(pa.array([value, None], pa.decimal128(38, scale))).to_pylist()
    assert found == [f"{value:f}", None]
