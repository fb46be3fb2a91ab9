"""Rows to segments: every row in the first lane that takes it, none without a key, codes as they were given."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.intake import CODE, Intake
from millstream.engine.keys import codes, scramble
from millstream.engine.pairs import Conditions
from millstream.engine.segment import Lot, Segment
from millstream.errors import QueryFailed
from millstream.model.expr import Column
from millstream.plan import Plan
from millstream.plan.nodes import LEFT, RIGHT

COLUMNS = "id BIGINT, k INT, s STRING, v INT, Ts TIMESTAMP"


def plan_of(*queries: str) -> Plan:
    script = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts');" for name in "AB")
    for number, query in enumerate(queries):
        script += f"CREATE QUERY q{number} AS SELECT A.id, B.id AS other FROM A, B WHERE {query};"
    return compile_script(script)


LANES = plan_of(
    "A.k = B.k AND A.v > 0 WINDOW 1 HOUR",
    "A.k = B.k AND A.v > 2 AND B.v > 2 WINDOW 2 HOURS",
    "A.k = B.k AND A.v < 0 AND B.v > 0 WINDOW 1 MINUTE",
)
MINUTE = 60_000_000
TAKEN: dict[int, list[tuple[int, Callable[[int | None], bool]]]] = {
    LEFT: [
        (120 * MINUTE, lambda v: v is not None and v > 2),
        (60 * MINUTE, lambda v: v is not None and v > 0),
        (MINUTE, lambda v: v is not None and v < 0),
    ],
    RIGHT: [(120 * MINUTE, lambda v: v is not None and v > 2), (60 * MINUTE, lambda _: True)],
}
"""What those queries ask at each position, the farthest first."""
TEXTS = plan_of("A.s = B.s AND A.k + 1 = B.k WINDOW 1 HOUR")
rows_of = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 2]),
        st.sampled_from([None, "", "a", "b"]),
        st.sampled_from([None, -1, 0, 1, 3]),
        st.integers(0, 9),
    ),
    max_size=12,
)
Row = tuple[int | None, str | None, int | None, int]


def batch(rows: list[Row]) -> pa.RecordBatch:
    keys, texts, values, times = ([row[place] for row in rows] for place in range(4))
    columns = {
        "id": pa.array(range(len(rows)), pa.int64()),
        "k": pa.array(keys, pa.int32()),
        "s": pa.array(texts, pa.string()),
        "v": pa.array(values, pa.int32()),
        "Ts": pa.array(times, pa.int64()).view(pa.timestamp("us", "UTC")),
    }
    return pa.RecordBatch.from_pydict(columns)


def taken_in(
    plan: Plan, pool: str, rows: pa.RecordBatch, hidden_from: frozenset[str] = frozenset(), hash_bits: int = 64
) -> list[Segment]:
    """Segments of batch 5, numbered from 7 on."""
    intake = Intake(plan.pool(pool), {}, readers=("q0",), conditions=Conditions({}, {}), hash_bits=hash_bits)
    numbers = count(7)
    return intake.segments(rows, 5, hidden_from, lambda: next(numbers))


def pool_at(plan: Plan, position: int) -> str:
    (chain,) = plan.chains
    return chain.pools[position]


@pytest.mark.parametrize("side", [LEFT, RIGHT])
@given(rows=rows_of, hidden_from=st.frozensets(st.sampled_from(["A B", "A C"])))
def test_a_row_is_in_the_first_lane_that_takes_it(side: int, rows: list[Row], hidden_from: frozenset[str]) -> None:
    assert len(LANES.pool(pool_at(LANES, side)).lanes) == len(TAKEN[side])
    segments = taken_in(LANES, pool_at(LANES, side), batch(rows), hidden_from)
    found = {one: segment.reach for segment in segments for one in segment.rows.column("id").to_pylist()}
    wanted = {}
    for number, (key, _, value, _) in enumerate(rows):
        reach = next((reach for reach, takes in TAKEN[side] if takes(value)), None)
        if key is not None and reach is not None:
            wanted[number] = reach
    assert found == wanted
    assert sum(map(len, segments)) == len(found), "in one lane only"
    assert [segment.number for segment in segments] == list(range(7, 7 + len(segments)))
    assert all((one.batch, one.lot) == (5, Lot(one.reach, hidden_from)) for one in segments)


@given(rows=rows_of)
def test_rows_with_a_null_in_their_key_match_nothing_and_are_left_out(rows: list[Row]) -> None:
    for side, shift in ((LEFT, 1), (RIGHT, 0)):
        segments = taken_in(TEXTS, pool_at(TEXTS, side), batch(rows))
        kept = {one for segment in segments for one in segment.rows.column("id").to_pylist()}
        assert kept == {number for number, (key, text, *_) in enumerate(rows) if key is not None and text is not None}
        for segment in segments:
            own = [rows[one] for one in segment.rows.column("id").to_pylist()]
            keys = [pa.array([(row[0] or 0) + shift for row in own], pa.int64()), pa.array([row[1] for row in own])]
            assert segment.row_keys().tolist() == codes(keys, len(own)).tolist(), "equal keys have equal codes"


@given(rows=rows_of, given_codes=st.lists(st.integers(0, 2**64 - 1), min_size=12, max_size=12))
def test_codes_that_came_with_the_rows_are_used_as_they_are(rows: list[Row], given_codes: list[int]) -> None:
    own = np.array(given_codes[: len(rows)], dtype=np.uint64)
    routed = batch(rows).append_column(CODE, pa.array(own.view(np.int64)))
    segments = taken_in(LANES, pool_at(LANES, RIGHT), routed)
    for segment in segments:
        assert CODE not in segment.rows.schema.names
        ids = segment.rows.column("id").to_pylist()
        assert segment.row_keys().tolist() == [given_codes[one] for one in ids]


def test_without_given_codes_an_integer_key_is_scrambled() -> None:
    rows: list[Row] = [(2, "", 3, 0), (1, "", 3, 0)]
    (segment,) = taken_in(LANES, pool_at(LANES, LEFT), batch(rows))
    keys = np.array(segment.rows.column("k").to_pylist(), dtype=np.uint64)
    assert segment.row_keys().tolist() == scramble(keys).tolist()


TWO_KEYS = compile_script(
    "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts', rate = 1000000);" for name in "AB")
    + f"CREATE STREAM C ({COLUMNS}) WITH (time = 'Ts');"
    "CREATE QUERY q0 AS SELECT A.id FROM A, B, C WHERE A.k = B.k AND B.s = C.s WINDOW 1 HOUR;"
)
"""B is routed by its key with A; tuples of C look it up by its other key, and C goes everywhere."""


def pool_of(stream: str, column: str) -> str:
    (found,) = (
        pool.name
        for pool in TWO_KEYS.pools
        if pool.stream.name == stream
        and [part.expr.name for part in pool.by if isinstance(part.expr, Column)] == [column]
    )
    return found


@given(rows=rows_of, coded=st.booleans(), hash_bits=st.sampled_from([2, 64]))
def test_a_row_found_by_another_key_keeps_the_code_it_is_routed_by(
    rows: list[Row], coded: bool, hash_bits: int
) -> None:
    routed_by = np.arange(len(rows), dtype=np.int64) * 1000 - 5
    given_rows = batch(rows).append_column(CODE, pa.array(routed_by)) if coded else batch(rows)
    name = pool_of("B", "s")
    assert not TWO_KEYS.pool(name).is_routed
    segments = taken_in(TWO_KEYS, name, given_rows, hash_bits=hash_bits)
    whole = {number for number, (key, text, *_) in enumerate(rows) if key is not None and text is not None}
    assert {one for segment in segments for one in segment.rows.column("id").to_pylist()} == whole
    for segment in segments:
        ids = segment.rows.column("id").to_pylist()
        own = [rows[one] for one in ids]
        assert segment.row_keys().tolist() == codes([pa.array([row[1] for row in own])], len(own), hash_bits).tolist()
        by_key = codes([pa.array([row[0] for row in own], pa.int64())], len(own), hash_bits).view(np.int64)
        assert segment.numbers(CODE).tolist() == (routed_by[ids].tolist() if coded else by_key.tolist())


@given(rows=rows_of)
def test_rows_that_go_everywhere_have_no_code_of_their_route(rows: list[Row]) -> None:
    """The code that brought them says only to which slot."""
    given_rows = batch(rows).append_column(CODE, pa.array(np.zeros(len(rows), dtype=np.int64)))
    segments = taken_in(TWO_KEYS, pool_of("C", "s"), given_rows)
    assert sum(map(len, segments)) == sum(text is not None for _, text, *_ in rows)
    for segment in segments:
        assert CODE not in segment.rows.schema.names
        texts = segment.rows.column("s")
        assert segment.row_keys().tolist() == codes([texts], len(segment)).tolist()


def test_a_key_that_cannot_be_computed_is_the_failure_of_those_who_read_the_pool() -> None:
    plan = plan_of("CAST(A.s AS INT) = B.k WINDOW 1 HOUR")
    intake = Intake(plan.pool(pool_at(plan, LEFT)), {}, readers=("a", "b"), conditions=Conditions({}, {}), hash_bits=64)
    with pytest.raises(QueryFailed, match="CAST") as failure:
        intake.segments(batch([(1, "x", 1, 0)]), 1, frozenset(), lambda: 1)
    assert failure.value.queries == ("a", "b")
