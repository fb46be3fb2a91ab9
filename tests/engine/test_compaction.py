"""Segments stay few whatever the sizes of batches, and none spans too long a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.compaction import run_to_merge
from millstream.engine.keys import codes
from millstream.engine.segment import Segment, build, merge

REACH = 1_000_000


def segment(number: int, rows: int, first: int, last: int) -> Segment:
    keys = pa.array(np.arange(rows))
    times = pa.array(np.linspace(first, last, rows).astype(np.int64)).view(pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([keys, times], names=["k", "Ts"])
    return build(number, "left", number, REACH, batch, "Ts", codes([keys], rows))


def compacted(sizes: list[int], busy: set[int] | None = None, reaches: int = 1) -> tuple[list[Segment], int]:
    """The lane after so many batches over some windows' time, and how many rows were merged on the way."""
    lane: list[Segment] = []
    work = 0
    step = reaches * REACH // max(len(sizes), 1)
    for number, rows in enumerate(sizes, start=1):
        lane.append(segment(number, rows, (number - 1) * step, number * step - 1))
        while (run := run_to_merge(lane, busy or set())) is not None:
            work += sum(map(len, lane[run]))
            lane[run] = [merge(1_000_000 + work, lane[run])]
    return lane, work


@pytest.mark.parametrize(
    "sizes",
    [[1, 2, 3, 1] * 60, [100] * 200, [5_000, 500, 500] * 60, [1] * 300, [20_000] + [10] * 100],
    ids=["tiny", "equal", "mixed", "ones", "one large"],
)
def test_segments_stay_few(sizes: list[int]) -> None:
    lane, work = compacted(sizes)
    assert len(lane) <= 40
    assert sum(map(len, lane)) == sum(sizes)
    assert work <= 60 * sum(sizes)


@given(st.lists(st.sampled_from([1, 50, 700, 9_000]), max_size=40), st.booleans())
def test_rows_are_kept_in_order_and_spans_stay_short(sizes: list[int], large: bool) -> None:
    sizes = [9_000] * len(sizes) if large else sizes
    lane, _ = compacted(sizes, reaches=3)
    assert sum(map(len, lane)) == sum(sizes)
    assert all(one.last <= other.first for one, other in pairwise(lane))
    merged = [one for one in lane if one.number > 1_000_000]
    assert all(one.last - one.first <= REACH // (4 if large else 1) for one in merged)


def test_a_segment_with_deferred_units_is_left_alone() -> None:
    lane, _ = compacted([10] * 30, busy={7})
    assert 7 in {one.number for one in lane}
    assert len(lane) < 30
