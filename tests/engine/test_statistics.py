"""What a chain measures of itself adds up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from millstream.engine.keys import GROUP_BITS, codes, groups
from millstream.engine.segment import Segment, build
from millstream.engine.statistics import ChainStatistics, Measured, group_bytes
from millstream.model.interval import Interval

NEAR, FAR = Interval(0, 10), Interval(10, 20)


def segment(rows: int, batch: int = 1) -> Segment:
    keys = pa.array(np.arange(rows))
    times = pa.array(np.arange(rows)).view(pa.timestamp("us", "UTC"))
    columns = pa.RecordBatch.from_arrays([keys, times], names=["k", "Ts"])
    return build(batch, "left", batch, 1, columns, "Ts", codes([keys], rows))


def test_rates_of_nothing_are_nothing() -> None:
    nothing = Measured()
    assert (nothing.selectivity, nothing.nanoseconds_per_probe, nothing.nanoseconds_per_pair) == (0.0, 0.0, 0.0)


def test_work_is_counted_by_slice() -> None:
    found = ChainStatistics()
    found.done(NEAR, segment(3, batch=5), segment(4), pairs=6, nanoseconds=600)
    found.done(NEAR, segment(2, batch=4), segment(10), pairs=2, nanoseconds=200)
    found.done(FAR, segment(1), segment(1), pairs=0, nanoseconds=7)
    near = found.slices[NEAR]
    assert near == Measured(units=2, probes=5, compared=32, pairs=8, nanoseconds=800, last_batch=5)
    assert near.selectivity == 0.25
    assert near.nanoseconds_per_probe == 160
    assert near.nanoseconds_per_pair == 100
    assert found.slices[FAR].units == 1


def test_rows_are_counted_by_side_and_group() -> None:
    found, some = ChainStatistics(), [segment(100), segment(30)]
    found.arrived("left", some)
    found.arrived("right", [segment(7)])
    assert found.rows == {"left": 130, "right": 7}
    wanted = sum(np.bincount(groups(one.row_keys()), minlength=1 << GROUP_BITS) for one in [*some, segment(7)])
    assert found.group_rows.tolist() == wanted.tolist()


def test_results_are_counted_for_every_query_that_gets_them() -> None:
    found = ChainStatistics()
    found.served(["a", "b"], 5, batch=3)
    found.served(["b"], 2, batch=4)
    assert (found.queries["a"].pairs, found.queries["a"].last_batch) == (5, 3)
    assert (found.queries["b"].pairs, found.queries["b"].last_batch) == (7, 4)


def test_bytes_of_groups_are_shares_of_the_segments() -> None:
    some = [segment(1_000), segment(64)]
    found = group_bytes(some)
    assert found.sum() == pytest.approx(sum(one.nbytes for one in some), rel=0.05)
    assert found.sum() <= sum(one.nbytes for one in some)
    alone = group_bytes([some[0]])
    counts = np.bincount(groups(some[0].row_keys()), minlength=1 << GROUP_BITS)
    assert np.all(np.abs(alone / some[0].nbytes - counts / 1_000) < 0.001)
    assert group_bytes([]).tolist() == [0] * (1 << GROUP_BITS)
