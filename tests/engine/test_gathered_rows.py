"""Rows picked four at a time from several segments are those that each segment gives by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.arrow import Ints
from millstream.engine.gathered_rows import GatheredRows, MatchRanges
from millstream.engine.keys import codes
from millstream.engine.probe import matches, ranges
from millstream.engine.segment import Lot, Segment, build
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT

tuples = st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 20)), min_size=1, max_size=14)


def segment(rows: list[tuple[int, int]], number: int) -> Segment:
    keys = pa.array([key for key, _ in rows], pa.int64())
    batch = pa.RecordBatch.from_pydict(
        {
            "k": keys,
            "byte": pa.array([key for key, _ in rows], pa.int8()),
            "text": pa.array([f"{number}:{key}:{time}" if time % 3 else None for key, time in rows], pa.string()),
            "Ts": pa.array([time for _, time in rows], pa.int64()).view(pa.timestamp("us", "UTC")),
        }
    )
    return build(number, number, Lot(1), batch, "Ts", codes([keys], len(rows)))


@given(
    probe=tuples,
    states=st.lists(tuples, min_size=1, max_size=4),
    lo=st.integers(-25, 20),
    width=st.integers(1, 45),
    most=st.integers(1, 40),
)
def test_stacked_pairs_are_those_of_each_segment(
    probe: list[tuple[int, int]], states: list[list[tuple[int, int]]], lo: int, width: int, most: int
) -> None:
    interval = Interval(lo, lo + width)
    prober = segment(probe, 0)
    segments = [segment(rows, number) for number, rows in enumerate(states, start=1)]
    wanted: Counter[tuple[object, ...]] = Counter()
    of_each, longest = [], 0
    for one in segments:
        pairs = 0
        for rows, state_rows in matches(prober, LEFT, one, interval, "index"):
            pairs += len(rows)
            longest = max(longest, *Counter(rows.tolist()).values())
            wanted.update(tuples_of(one, rows, state_rows))
        of_each.append(pairs)
    met = MatchRanges(segments, [ranges(prober, LEFT, one, interval) for one in segments])
    assert met.of_each() == of_each
    assert len(met) == sum(of_each)
    stacked = met.stacked(most)
    if longest > most:
        assert stacked is None
        return
    assert stacked is not None
    found = list(stacked)
    assert all(0 < len(some.rows) <= most for some in found)
    assert Counter(row for some in found for row in tuples_of(some, some.rows, some.positions)) == wanted


def tuples_of(state: Segment | GatheredRows, rows: Ints, positions: Ints) -> Iterator[tuple[object, ...]]:
    """What pairs hold of every kind of column, of times, of codes and of a condition."""
    columns = [state.gather(name, positions).to_pylist() for name in ("k", "byte", "text")]
    columns += [some.take(positions).tolist() for some in (state.numbers("k"), state.row_keys())]
    passed = state.passes(frozenset(), lambda one: one.times > 0).take(positions).tolist()
    return zip(rows.tolist(), *columns, state.times.take(positions).tolist(), passed, strict=True)
