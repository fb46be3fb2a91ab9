"""Access paths agree, hash collisions do no harm, and a hot key streams through in bounded memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.engine import Engine
from millstream.engine.keys import codes
from millstream.engine.probe import CHUNK, differences, matches, searched, spread
from millstream.engine.segment import Lot, Segment, build
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, RIGHT


def segment(rows: list[tuple[int, int]], number: int = 1, *, indexed: bool = True) -> Segment:
    keys = pa.array([key for key, _ in rows], pa.int64())
    times = pa.array([time for _, time in rows], pa.int64()).view(pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([keys, times], names=["k", "Ts"])
    return build(number, number, Lot(1), batch, "Ts", codes([keys], len(rows)), indexed=indexed)


def rows_of(one: Segment) -> list[tuple[int, int]]:
    return list(zip(one.rows.column("k").to_pylist(), one.times.tolist(), strict=True))


tuples = st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 20)), min_size=1, max_size=12)
wide_tuples = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([-(2**61), -5, 0, 5, 2**61])), min_size=1, max_size=8
)


@given(
    probe=st.one_of(tuples, wide_tuples),
    state=st.one_of(tuples, wide_tuples),
    lo=st.integers(-25, 20),
    width=st.integers(1, 20),
    right_probes=st.booleans(),
    chunk=st.integers(1, 9),
    indexed=st.tuples(st.booleans(), st.booleans()),
)
def test_index_and_scan_find_the_pairs_of_nested_loops(
    probe: list[tuple[int, int]],
    state: list[tuple[int, int]],
    lo: int,
    width: int,
    right_probes: bool,
    chunk: int,
    indexed: tuple[bool, bool],
) -> None:
    """Whether the rows were kept for an index or for a scan."""
    interval = Interval(lo, lo + width)
    prober, kept = segment(probe, indexed=indexed[0]), segment(state, indexed=indexed[1])
    at = RIGHT if right_probes else LEFT
    sign = 1 if right_probes else -1
    wanted = sorted(
        (a, b)
        for a in rows_of(prober)
        for b in rows_of(kept)
        if a[0] == b[0] and interval.lo <= sign * (a[1] - b[1]) < interval.hi
    )
    for access in ("index", "scan"):
        waiter = searched(kept, access)
        chunks = list(matches(prober, at, waiter, interval, access, chunk))
        found = [
            (rows_of(prober)[p], rows_of(waiter)[s]) for some in chunks for p, s in zip(*map(list, some), strict=True)
        ]
        assert sorted(found) == wanted
        assert all(0 < len(some[0]) <= chunk for some in chunks)


@pytest.mark.parametrize("hash_bits", [1, 3])
def test_forced_collisions_change_nothing(hash_bits: int) -> None:
    script = "".join(f"CREATE STREAM {n} (k STRING, j DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');" for n in "AB")
    script += "CREATE QUERY q AS SELECT A.k, B.k AS m, A.j FROM A, B WHERE A.k = B.k AND A.j = B.j WINDOW 1 SECOND;"
    rng = np.random.default_rng(3)
    tables = {
        name: pa.table(
            {
                "k": [f"key {n}" for n in rng.integers(0, 9, 200)],
                "j": rng.choice([0.0, -0.0, 1.0, np.nan], 200),
                "Ts": pa.array(rng.integers(0, 5, 200) * 400_000).view(pa.timestamp("us", "UTC")),
            }
        )
        for name in "AB"
    }
    answers = []
    for bits in (64, hash_bits):
        rows: list[str] = []
        engine = Engine(
            compile_script(script),
            lambda _, batch, rows=rows: rows.extend(map(repr, batch.to_pylist())),
            hash_bits=bits,
        )
        engine.feed(tables)
        answers.append(sorted(rows))
    assert answers[0] == answers[1]
    assert answers[0]


def test_a_hot_key_streams_through_in_bounded_memory() -> None:
    """3,000 x 30,000 rows of one key: 90 million pairs, of which a chunk at a time is in memory."""
    script = "".join(f"CREATE STREAM {n} (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');" for n in "AB")
    script += "CREATE QUERY q AS SELECT A.v, B.v AS w FROM A, B WHERE A.k = B.k WINDOW 1 HOUR;"
    tables = {
        name: pa.table(
            {
                "k": np.ones(count, dtype=np.int32),
                "v": np.arange(count, dtype=np.float64),
                "Ts": pa.array(np.arange(count)).view(pa.timestamp("us", "UTC")),
            }
        )
        for name, count in (("A", 3_000), ("B", 30_000))
    }
    counted = [0]

    def count(_: str, batch: pa.RecordBatch) -> None:
        counted[0] += batch.num_rows

    engine = Engine(compile_script(script), count)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    engine.feed(tables)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert counted[0] == 3_000 * 30_000
    assert peak < 200e6


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=9))
def test_ranges_are_spread_into_their_numbers(some: list[tuple[int, int]]) -> None:
    begin, counts = (np.array([one[place] for one in some], dtype=np.int64) for place in (0, 1))
    assert spread(begin, counts).tolist() == [first + n for first, count in some for n in range(count)]


def test_more_numbers_than_are_at_hand_are_spread_too() -> None:
    counts = np.array([CHUNK, 3])
    assert spread(np.array([5, 0]), counts).tolist() == [*range(5, CHUNK + 5), 0, 1, 2]


@given(probe=tuples, state=tuples, right_probes=st.booleans())
def test_differences_are_those_of_the_farthest_rows(
    probe: list[tuple[int, int]], state: list[tuple[int, int]], right_probes: bool
) -> None:
    sign = 1 if right_probes else -1
    apart = [sign * (a - b) for _, a in probe for _, b in state]
    assert differences(segment(probe), RIGHT if right_probes else LEFT, segment(state)) == (min(apart), max(apart))
