"""Columns as numpy and Arrow hold them: whatever a stream may carry goes in and comes out unharmed."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.columns import Columns, merged

ROWS = pa.RecordBatch.from_pydict(
    {
        "tiny": pa.array([1, -2, 3, 4, 5, 6, 7], pa.int8()),
        "whole": pa.array([1, -2, 3, 4, 5, 6, 7], pa.int32()),
        "single": pa.array([1.5, float("nan"), -0.0, 4, 5, 6, 7], pa.float32()),
        "holes": pa.array([None, 2, None, 4, 5, 6, 7], pa.int64()),
        "flag": pa.array([True, False, True, True, False, False, True]),
        "day": pa.array(range(7), pa.int32()).view(pa.date32()),
        "at": pa.array(range(7), pa.int64()).view(pa.timestamp("us", "UTC")),
        "span": pa.array(range(7), pa.int64()).view(pa.duration("us")),
        "money": pa.array([Decimal(n).scaleb(-2) for n in range(7)], pa.decimal128(10, 2)),
        "text": ["", None, "ä", "long enough", "e", "f", "g"],
        "nested": [{"x": [1, None]}, None, {"x": []}, {"x": None}, None, None, {"x": [2]}],
        "nothing": pa.nulls(7),
    }
)
PLAIN = {"tiny", "whole", "single", "day", "at", "span"}


def same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Equal, with NaN equal to itself."""
    return bool(one.schema == other.schema and str(one.to_pydict()) == str(other.to_pydict()))


@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(2, 4), ROWS.slice(3, 0)])
def test_rows_come_out_as_they_went_in(rows: pa.RecordBatch) -> None:
    frame = Columns.of(rows)
    plain = {name for name, values in frame.values.items() if isinstance(values, np.ndarray)}
    assert plain == (PLAIN if len(rows) else set())
    assert same(frame.rows(), rows)


@pytest.mark.parametrize("start", [0, 2])
def test_rows_are_taken_as_arrow_takes_them(start: int) -> None:
    rows, order = ROWS.slice(start), np.array([4, 0, 0, 3, 1])
    assert same(Columns.of(rows).take(order).rows(), rows.take(pa.array(order)))
    for name in rows.schema.names:
        assert str(Columns.of(rows).gather(name, order)) == str(rows.column(name).take(pa.array(order)))


def test_merged_rows_are_those_of_all_parts() -> None:
    parts, order = [ROWS.slice(0, 3), ROWS.slice(3, 1), ROWS.slice(4)], np.array([6, 5, 4, 3, 2, 1, 0])
    found = merged([Columns.of(part) for part in parts], order)
    assert same(found.rows(), ROWS.take(pa.array(order)))
    assert isinstance(found.values["holes"], pa.Array), "plain in one part only"
    assert isinstance(found.values["whole"], np.ndarray)


@given(st.lists(st.integers(0, 6), max_size=12), st.integers(0, 6), st.integers(0, 7))
def test_takes_of_any_rows_are_those_of_arrow(order: list[int], start: int, count: int) -> None:
    """Of slices too, whose buffers begin elsewhere."""
    rows = ROWS.slice(start, count)
    chosen = np.array([place % len(rows) for place in order] if len(rows) else [], dtype=np.int64)
    assert same(Columns.of(rows).take(chosen).rows(), rows.take(pa.array(chosen)))


def test_plain_columns_are_not_copied() -> None:
    frame = Columns.of(ROWS)
    address = ROWS.column("whole").buffers()[1].address
    assert frame.values["whole"].ctypes.data == address
    assert frame.rows().column("whole").buffers()[1].address == address


def test_the_bytes_of_rows() -> None:
    frame = Columns.of(ROWS)
    assert frame.widths("text").tolist() == [0, 0, 2, 11, 1, 1, 1]
    assert frame.widest("text") == 11
    assert frame.widest("whole") == frame.widest("holes") == 0, "their types say it"
    assert frame.bulk == ROWS.column("text").nbytes + ROWS.column("nested").nbytes
    plain = Columns.of(ROWS.select(["whole", "at"]))
    assert (plain.nbytes, plain.bulk) == (7 * 12, 0)


def test_one_part_is_merged_as_it_is() -> None:
    assert same(merged([Columns.of(ROWS)], np.array([2, 0])).rows(), ROWS.take(pa.array([2, 0])))
