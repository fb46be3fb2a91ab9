"""CAST and TRY_CAST between all types but text: against Python's numbers and times."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions.casts import cast, try_cast
from millstream.model import types
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DataType,
)

EXACT = Context(prec=400, rounding=ROUND_HALF_UP)
EPOCH = datetime(1970, 1, 1)
INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
edges = [0, 1, -1, 127, 128, -128, -129, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]
whole = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from(edges))


def tried(value: Any, source: DataType, target: DataType) -> Any:
    """What TRY_CAST gives beside a null; CAST gives the same, or raises where a value is lost."""
    column = pa.array([value, None], arrow_type(source))
    found = try_cast(source, target)(column)
    assert found.type == arrow_type(target)
    assert not found[1].is_valid
    if (
        found[0].is_valid
        or value is None
        or (source.is_float and not math.isfinite(value) and target.name == "DECIMAL")
    ):
        assert str(cast(source, target)(column)) == str(found)
    else:
        with pytest.raises(ValueError, match=r"cannot be CAST to .*; TRY_CAST gives NULL"):
            cast(source, target)(column)
    return found[0].as_py()


def limits(kind: DataType) -> tuple[int, int]:
    bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[kind.name]
    return -(2**bits), 2**bits - 1


@given(value=whole, target=st.sampled_from(INTEGERS))
def test_a_whole_number_that_fits_is_itself(value: int, target: DataType) -> None:
    low, high = limits(target)
    assert tried(value, BIGINT, target) == (value if low <= value <= high else None)


@given(value=st.floats() | whole.map(float), target=st.sampled_from(INTEGERS))
@example(value=2.0**63, target=BIGINT)
@example(value=-(2.0**63), target=BIGINT)
def test_a_real_number_loses_what_stands_after_the_point(value: float, target: DataType) -> None:
    low, high = limits(target)
    fits = math.isfinite(value) and low <= math.trunc(value) <= high
    # 2 to the 63rd is the greatest BIGINT as a DOUBLE, and passes for it as in Spark.
    top = target == BIGINT and value == 2.0**63
    assert tried(value, DOUBLE, target) == (high if top else math.trunc(value) if fits else None)


@given(value=st.floats())
def test_beyond_a_float_lies_infinity(value: float) -> None:
    with np.errstate(over="ignore"):
        wanted = float(np.float32(value))
    found = tried(value, DOUBLE, FLOAT)
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))


sizes = st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(lambda size: size[0] >= size[1])


def placed(value: Decimal, size: tuple[int, int]) -> Decimal | None:
    """Rounded half up, if it fits."""
    precision, scale = size
    rounded = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    return rounded if rounded.copy_abs() < Decimal(10) ** (precision - scale) else None


@given(value=whole, size=sizes)
def test_whole_numbers_to_decimals(value: int, size: tuple[int, int]) -> None:
    assert tried(value, BIGINT, types.decimal(*size)) == placed(Decimal(value), size)


@given(value=st.floats(), size=sizes)
def test_a_double_is_the_decimal_that_it_is_written_as(value: float, size: tuple[int, int]) -> None:
    found = tried(value, DOUBLE, types.decimal(*size))
    if not math.isfinite(value):
        assert found is None
    elif abs(value) >= 1e-20 or value == 0:
        assert found == (None if abs(value) >= 1e38 else placed(Decimal(repr(value)), size))
    else:
        assert abs(found - Decimal(value)) <= Decimal(1).scaleb(-size[1])


@given(units=st.integers(-(10**20) + 1, 10**20 - 1), size=sizes, target=st.sampled_from(INTEGERS))
def test_decimals_to_decimals_and_whole_numbers(units: int, size: tuple[int, int], target: DataType) -> None:
    value, source = Decimal(units).scaleb(-5, EXACT), types.decimal(20, 5)
    if size != (20, 5):
        assert tried(value, source, types.decimal(*size)) == placed(value, size)
    low, high = limits(target)
    assert tried(value, source, target) == (int(value) if low <= int(value) <= high else None)
    assert tried(value, source, DOUBLE) == float(value)


@pytest.mark.parametrize("kind", [TINYINT, BIGINT, DOUBLE, types.decimal(38, 30), types.decimal(3, 2)])
def test_booleans_are_ones_and_zeros(kind: DataType) -> None:
    assert [tried(value, BOOLEAN, kind) for value in (True, False)] == [1, 0]
    assert [tried(value, kind, BOOLEAN) for value in (Decimal(2) if kind.name == "DECIMAL" else 2, 0)] == [True, False]


@given(moment=st.datetimes())
def test_times_are_seconds_since_1970(moment: datetime) -> None:
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    column = pa.array([micros], pa.int64()).view(pa.timestamp("us", "UTC"))
    assert cast(TIMESTAMP, BIGINT)(column)[0].as_py() == micros // 1_000_000
    assert cast(TIMESTAMP, DOUBLE)(column)[0].as_py() == micros / 1e6
    assert cast(TIMESTAMP, types.decimal(30, 6))(column)[0].as_py() == Decimal(micros).scaleb(-6)
    assert cast(TIMESTAMP, DATE)(column)[0].as_py() == moment.date()
    assert cast(TIMESTAMP, TIMESTAMP_NTZ)(column)[0].as_py() == moment


@given(seconds=whole, fraction=st.integers(0, 10**8 - 1))
def test_seconds_since_1970_are_times(seconds: int, fraction: int) -> None:
    def micros(value: Any, kind: DataType) -> int | None:
        found: int | None = try_cast(kind, TIMESTAMP)(pa.array([value], arrow_type(kind))).view(pa.int64())[0].as_py()
        return found

    limit = 2**63 // 10**6
    assert micros(seconds, BIGINT) == (seconds * 10**6 if -limit < seconds < limit else None)
    exact = Decimal(seconds) + Decimal(fraction).scaleb(-8)
    wanted = int(EXACT.multiply(exact, Decimal(10**6)))
    assert micros(exact, types.decimal(38, 8)) == (wanted if -(2**63) <= wanted < 2**63 else None)
    near = seconds % 10**9 + fraction / 10**8
    assert micros(near, DOUBLE) == math.trunc(near * 1e6)
    assert micros(math.nan, DOUBLE) is micros(1e300, DOUBLE) is None


@given(day=st.dates())
def test_a_date_is_its_midnight(day: date) -> None:
    found = cast(DATE, TIMESTAMP_NTZ)(pa.array([day, None]))
    assert found.to_pylist() == [datetime(day.year, day.month, day.day), None]
    far = pa.array([2**31 - 1], pa.int32()).view(pa.date32())
    assert try_cast(DATE, TIMESTAMP)(far)[0].as_py() is None


def test_the_first_value_that_is_lost_is_told_and_not_all_of_it() -> None:
    with pytest.raises(ValueError, match=r"^'300' cannot be CAST to TINYINT; TRY_CAST gives NULL$"):
        cast(INT, TINYINT)(pa.array([None, 5, 300, 400], pa.int32()))
    with pytest.raises(ValueError, match=r"^'x{39}\.\.\. cannot be CAST to INT"):
        cast(STRING, INT)(pa.array(["x" * 1_000]))


def test_null_is_null_of_every_type() -> None:
    for kind in (INT, STRING, TIMESTAMP, types.decimal(5, 2)):
        assert cast(NULL, kind)(pa.nulls(2)).equals(pa.nulls(2, arrow_type(kind)))
