"""What a chain measures of itself are plain sums."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.keys import codes
from millstream.engine.segment import Lot, Segment, build
from millstream.engine.statistics import ChainStatistics, Measured
from millstream.model.interval import Interval

SLICES = (Interval(-5, 0), Interval(0, 9))


def segment(keys: list[int], batch: int = 1) -> Segment:
    column = pa.array(keys, pa.int64())
    times = pa.array(range(len(keys)), pa.int64()).view(pa.timestamp("us", "UTC"))
    rows = pa.RecordBatch.from_arrays([column, times], names=["k", "Ts"])
    return build(1, batch, Lot(1), rows, "Ts", codes([column], len(keys)))


work = st.tuples(
    st.sampled_from(SLICES),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 9),
    st.integers(0, 99),
    st.integers(1, 9),
)


@given(st.lists(work, max_size=8))
def test_a_slice_has_the_sums_of_its_units(units: list[tuple[Interval, int, int, int, int, int]]) -> None:
    statistics = ChainStatistics()
    for interval, probes, states, pairs, nanoseconds, batch in units:
        statistics.done(interval, segment([0] * probes, batch), states, pairs, nanoseconds)
    for interval in SLICES:
        own = [unit[1:] for unit in units if unit[0] == interval]
        probes = sum(probes for probes, *_ in own)
        nanoseconds = sum(took for *_, took, _ in own)
        assert statistics.slices[interval] == Measured(
            units=len(own),
            probes=probes,
            compared=sum(probes * states for probes, states, *_ in own),
            pairs=sum(pairs for _, _, pairs, *_ in own),
            nanoseconds=nanoseconds,
            last_batch=max((batch for *_, batch in own), default=0),
        )
        assert statistics.slices[interval].nanoseconds_per_probe == (nanoseconds / probes if probes else 0)


def test_every_query_that_gets_rows_is_said_to() -> None:
    statistics = ChainStatistics()
    statistics.served(["a", "b"], 3, 1)
    statistics.served(["b"], 4, 2)
    assert statistics.queries == {"a": Measured(pairs=3, last_batch=1), "b": Measured(pairs=7, last_batch=2)}
