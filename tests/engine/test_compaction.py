"""Segments, and merges of a row, grow with the logarithm of the number of batches, and none spans too long a time.

With r = 2 + 4096 / rows of a batch, but 8 at most, n equal batches are at most 1 + log(n) / log(1 + r) segments at any
time, and a row is merged at most (r / 2 + 1) log(n) / log(1 + r) times; r = 8 for small batches. Large ones, of
8,192 rows or more, begin anew in each quarter of a window.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.compaction import run_to_merge
from millstream.engine.keys import codes
from millstream.engine.segment import Lot, Segment, build, merge

REACH = 1_000_000
MERGED = 1_000_000
"""Numbers of merged segments are above."""


def segment(number: int, rows: int, first: int, last: int) -> Segment:
    keys = pa.array(np.arange(rows))
    times = pa.array(np.linspace(first, last, rows).astype(np.int64)).view(pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([keys, times], names=["k", "Ts"])
    return build(number, number, Lot(REACH), batch, "Ts", codes([keys], rows))


class Lane:
    """A lane into which batches come over some windows' time, and what was done with it on the way."""

    def __init__(self, busy: set[int] | None = None) -> None:
        self.segments: list[Segment] = []
        self.most = self.merged = self._number = 0
        self._busy = busy or set()

    def after(self, sizes: list[int], reaches: int = 1) -> Lane:
        step = reaches * REACH // max(len(sizes), 1)
        for number, rows in enumerate(sizes, start=1):
            self.segments.append(segment(number, rows, (number - 1) * step, number * step - 1))
            while (run := run_to_merge(self.segments, self._busy)) is not None:
                self._merge(run)
            self.most = max(self.most, len(self.segments))
        return self

    def _merge(self, run: slice) -> None:
        self._number += 1
        self.merged += sum(map(len, self.segments[run]))
        self.segments[run] = [merge(MERGED + self._number, self.segments[run])]


@pytest.mark.parametrize(
    ("rows", "batches"),
    [(1, 10), (1, 100), (1, 1_000), (100, 1_000), (1_000, 300), (3_000, 100), (8_000, 60), (8_192, 10), (8_192, 100)],
)
def test_segments_and_merges_grow_with_the_logarithm(rows: int, batches: int) -> None:
    lane = Lane().after([rows] * batches)
    assert sum(map(len, lane.segments)) == rows * batches
    ratio = min(2 + 4_096 / rows, 8)
    parts = 4 if rows >= 8_192 else 1
    levels = math.log(batches / parts, 1 + ratio)
    assert lane.most <= parts + 1 + levels - (parts == 1)
    merges = lane.merged / (rows * batches)
    assert merges <= (ratio / 2 + 1) * levels
    assert merges >= levels / 2 or parts > 1, "what is merged less is not kept together"


@given(st.lists(st.sampled_from([1, 50, 700, 4_000, 8_000]), min_size=1, max_size=60))
def test_each_segment_is_twice_as_large_as_all_younger_ones(sizes: list[int]) -> None:
    """So a lane of one window grows threefold with each."""
    found = [len(one) for one in Lane().after(sizes).segments]
    assert sum(found) == sum(sizes)
    assert all(size >= 2 * sum(found[place + 1 :]) for place, size in enumerate(found[:-1]))
    assert len(found) <= 1 + math.log(sum(sizes) / found[-1], 3)


@given(st.lists(st.sampled_from([1, 50, 700, 9_000]), max_size=40), st.booleans())
def test_rows_are_kept_in_order_and_spans_stay_short(sizes: list[int], large: bool) -> None:
    sizes = [9_000] * len(sizes) if large else sizes
    lane = Lane().after(sizes, reaches=3).segments
    assert sum(map(len, lane)) == sum(sizes)
    assert all(one.last <= other.first for one, other in pairwise(lane))
    merged = [one for one in lane if one.number > MERGED]
    assert all(one.last - one.first <= REACH // (4 if large else 1) for one in merged)


def test_a_segment_with_deferred_units_is_left_alone() -> None:
    """Those before it and those after it are merged without it."""
    lane = Lane(busy={7}).after([10] * 30).segments
    place = next(place for place, one in enumerate(lane) if one.number == 7)
    assert len(lane[place]) == 10
    assert sum(map(len, lane[:place])) == 60
    assert place <= 2
    assert len(lane) <= 5
