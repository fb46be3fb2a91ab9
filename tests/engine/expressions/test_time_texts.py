"""Times as text mean the same as constants of a script and as values of a column."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.expressions.casts import try_cast
from millstream.engine.expressions.time_texts import day_texts, read_days, read_microseconds
from millstream.model import moments
from millstream.model.types import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ

EPOCH = datetime(1970, 1, 1)
PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["2024", "-", ":", ".", " ", "T", "Z", "UTC", "+", "GMT", "1", "02", "29", "30", "59", "60", "18:00"]
        ),
        st.from_regex(r"[0-9]{1,2}", fullmatch=True),
    ),
    max_size=14,
).map("".join)
FORMS = st.from_regex(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"([ T][0-9]{1,2}(:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]{0,8})?( ?[+-][0-9]{1,2}(:[0-9]{1,2})?)?)?)?)?",
    fullmatch=True,
)


@given(texts=st.lists(st.one_of(PIECES, FORMS), min_size=1, max_size=20))
def test_constants_and_columns_are_read_alike(texts: list[str]) -> None:
    column = pa.array(texts)
    assert try_cast(STRING, DATE)(column).view(pa.int32()).to_pylist() == [moments.date_days(text) for text in texts]
    for kind in (TIMESTAMP, TIMESTAMP_NTZ):
        found = try_cast(STRING, kind)(column).view(pa.int64()).to_pylist()
        assert found == [moments.time_microseconds(text, zoned=kind == TIMESTAMP) for text in texts]


@given(moment=st.datetimes())
def test_a_time_is_the_time_that_its_text_says(moment: datetime) -> None:
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    assert moments.time_microseconds(moment.isoformat(sep=" "), zoned=True) == micros
    assert moments.date_days(moment.date().isoformat()) == micros // moments.DAY
    text = try_cast(TIMESTAMP, STRING)(pa.array([micros], pa.timestamp("us", "UTC")))[0].as_py()
    assert datetime.fromisoformat(text.ljust(26, "0") if "." in text else text) == moment


@pytest.mark.parametrize(
    ("text", "hour"),
    [("Z", 10), ("UTC", 10), ("+02:30", 7.5), ("-0230", 12.5), ("+1", 9), ("GMT+1:30", 8.5), (" +01:00", 9)],
)
def test_zones(text: str, hour: float) -> None:
    wanted = datetime(2024, 1, 5, tzinfo=UTC) + timedelta(hours=hour)
    found = moments.time_microseconds(f"2024-01-05 10:00:00{text}", zoned=True)
    assert found == wanted.timestamp() * 1e6


@given(year=st.integers(-5_000_000, 5_000_000), month=st.integers(1, 12), day=st.integers(1, 28))
def test_years_beyond_9999_have_a_sign(year: int, month: int, day: int) -> None:
    """Beside one that has none."""
    for one, other in ((month, day), (1, 1), (12, 31)):
        days = pa.array([moments.days_of(year, one, other), None, 0], pa.int32()).view(pa.date32())
        sign = "-" if year < 0 else "+" if year > 9999 else ""
        assert day_texts(days).to_pylist() == [f"{sign}{abs(year):04}-{one:02}-{other:02}", None, "1970-01-01"]


@pytest.mark.parametrize(
    ("text", "days"),
    [("2024-02-29", 19_782), ("2023-02-29", None), ("2024-02-30", None), ("2024-04-31", None), ("2024-13-01", None)],
)
def test_days_that_a_month_does_not_have(text: str, days: int | None) -> None:
    assert read_days(pa.array([text, None])).to_pylist() == [days, None]
    found = read_microseconds(pa.array([f"{text} 01:00:00+01:00"]), zoned=True).to_pylist()
    assert found == [None if days is None else days * moments.DAY]
