"""Times as text mean the same as constants of a script and as values of a column."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.expressions.casts import try_cast
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
