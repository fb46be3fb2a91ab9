"""Parts of times against Python's calendar, and beyond it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.expressions import times
from millstream.model import moments

EPOCH = datetime(1970, 1, 1)


@given(moment=st.datetimes())
def test_parts_of_times(moment: datetime) -> None:
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    column = pa.array([micros, None]).view(pa.timestamp("us"))
    assert times.year(column).to_pylist() == [moment.year, None]
    midnight = datetime(moment.year, moment.month, moment.day)
    assert times.clock(column).tolist() == [(moment - midnight) // timedelta(microseconds=1), 0]


@given(
    years=st.lists(st.none() | st.integers(-290_000, 290_000), max_size=6),
    month=st.integers(1, 12),
    day=st.integers(1, 28),
)
def test_years_beyond_16_bits(years: list[int | None], month: int, day: int) -> None:
    """The first and the last day of a year too, where an estimate of the year is worst."""
    for one, other in ((month, day), (1, 1), (12, 31)):
        days = [None if year is None else moments.days_of(year, one, other) for year in years]
        dates = pa.array(days, pa.int32()).view(pa.date32())
        assert times.year(dates).to_pylist() == years
        micros = pa.array([None if some is None else some * moments.DAY for some in days], pa.int64())
        assert times.year(micros.view(pa.timestamp("us"))).to_pylist() == years


def test_no_rows() -> None:
    assert times.year(pa.array([], pa.date32())).to_pylist() == []
