"""Rows picked four at a time from several segments are those that each segment gives by itself."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.keys import codes
from millstream.engine.probe import matches, ranges
from millstream.engine.segment import Segment, build
from millstream.engine.stacked import Stacked
from millstream.model.interval import Interval

tuples = st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 20)), min_size=1, max_size=14)


def segment(side: str, rows: list[tuple[int, int]], number: int) -> Segment:
    keys = pa.array([key for key, _ in rows], pa.int64())
    batch = pa.RecordBatch.from_pydict(
        {
            "k": keys,
            "byte": pa.array([key for key, _ in rows], pa.int8()),
            "text": pa.array([f"{number}:{key}:{time}" if time % 3 else None for key, time in rows], pa.string()),
            "Ts": pa.array([time for _, time in rows], pa.int64()).view(pa.timestamp("us", "UTC")),
        }
    )
    return build(number, side, number, 1, batch, "Ts", codes([keys], len(rows)))


@given(probe=tuples, states=st.lists(tuples, min_size=1, max_size=4), lo=st.integers(-25, 20), width=st.integers(1, 45))
def test_stacked_pairs_are_those_of_each_segment(
    probe: list[tuple[int, int]], states: list[list[tuple[int, int]]], lo: int, width: int
) -> None:
    interval = Interval(lo, lo + width)
    prober = segment("left", probe, 0)
    segments = [segment("right", rows, number) for number, rows in enumerate(states, start=1)]
    wanted: Counter[tuple[object, ...]] = Counter()
    met = []
    for one in segments:
        found = list(matches(prober, one, interval, "index"))
        met.append(sum(len(rows) for rows, _ in found))
        for rows, state_rows in found:
            columns = [one.gather(name, state_rows).to_pylist() for name in ("k", "byte", "text")]
            passed = (one.times > 0).take(state_rows).tolist()
            wanted.update(zip(rows.tolist(), *columns, one.times.take(state_rows).tolist(), passed, strict=True))
    stacked = Stacked(segments, [ranges(prober, one, interval) for one in segments])
    assert stacked.met == met
    assert len(stacked) == sum(met)
    if not stacked:
        return
    rows, positions = stacked.lay()
    columns = [stacked.gather(name, positions).to_pylist() for name in ("k", "byte", "text")]
    passed = stacked.passes(frozenset(), lambda one: one.times > 0).take(positions).tolist()
    times = stacked.times.take(positions).tolist()
    assert Counter(zip(rows.tolist(), *columns, times, passed, strict=True)) == wanted
    assert np.all(rows < len(prober))
