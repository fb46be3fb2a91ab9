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
from millstream.engine.compiled_chain import CompiledChain
from millstream.engine.intake import CODE, equal_columns
from millstream.engine.keys import codes, scramble
from millstream.plan.nodes import LEFT, RIGHT, Chain

COLUMNS = "id BIGINT, k INT, s STRING, v INT, Ts TIMESTAMP"


def chain_of(*queries: str) -> Chain:
    script = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts');" for name in "AB")
    for number, query in enumerate(queries):
        script += f"CREATE QUERY q{number} AS SELECT A.id, B.id AS other FROM A, B WHERE {query};"
    (chain,) = compile_script(script).chains
    return chain


LANES = chain_of(
    "A.k = B.k AND A.v > 0 WINDOW 1 HOUR",
    "A.k = B.k AND A.v > 2 AND B.v > 2 WINDOW 2 HOURS",
    "A.k = B.k AND A.v < 0 AND B.v > 0 WINDOW 1 MINUTE",
)
MINUTE = 60_000_000
TAKEN: dict[str, list[tuple[int, Callable[[int | None], bool]]]] = {
    LEFT: [
        (120 * MINUTE, lambda v: v is not None and v > 2),
        (60 * MINUTE, lambda v: v is not None and v > 0),
        (MINUTE, lambda v: v is not None and v < 0),
    ],
    RIGHT: [(120 * MINUTE, lambda v: v is not None and v > 2), (60 * MINUTE, lambda _: True)],
}
"""What those queries ask of each side, the farthest first."""
TEXTS = chain_of("A.s = B.s AND A.k + 1 = B.k WINDOW 1 HOUR")
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


@pytest.mark.parametrize("side", [LEFT, RIGHT])
@given(rows=rows_of)
def test_a_row_is_in_the_first_lane_that_takes_it(side: str, rows: list[Row]) -> None:
    lanes = LANES.lanes(side)
    assert len(lanes) == len(TAKEN[side])
    numbers = count(7)
    segments = CompiledChain(LANES, {}, {}).intake[side].segments(batch(rows), 5, lanes, lambda: next(numbers))
    found = {one: segment.reach for segment in segments for one in segment.rows.column("id").to_pylist()}
    wanted = {}
    for number, (key, _, value, _) in enumerate(rows):
        reach = next((reach for reach, takes in TAKEN[side] if takes(value)), None)
        if key is not None and reach is not None:
            wanted[number] = reach
    assert found == wanted
    assert sum(map(len, segments)) == len(found), "in one lane only"
    assert [segment.number for segment in segments] == list(range(7, 7 + len(segments)))
    assert all((segment.side, segment.batch) == (side, 5) for segment in segments)


@given(rows=rows_of)
def test_rows_with_a_null_in_their_key_match_nothing_and_are_left_out(rows: list[Row]) -> None:
    compiled = CompiledChain(TEXTS, {}, {})
    for side, shift in ((LEFT, 1), (RIGHT, 0)):
        intake = compiled.intake[side]
        assert not intake.exact
        segments = intake.segments(batch(rows), 1, TEXTS.lanes(side), lambda: 1)
        kept = {one for segment in segments for one in segment.rows.column("id").to_pylist()}
        assert kept == {number for number, (key, text, *_) in enumerate(rows) if key is not None and text is not None}
        for segment in segments:
            own = [rows[one] for one in segment.rows.column("id").to_pylist()]
            keys = [pa.array([(row[0] or 0) + shift for row in own], pa.int32()), pa.array([row[1] for row in own])]
            assert segment.row_keys().tolist() == codes(keys, len(own)).tolist(), "equal keys have equal codes"


@given(rows=rows_of, given_codes=st.lists(st.integers(0, 2**64 - 1), min_size=12, max_size=12))
def test_codes_that_came_with_the_rows_are_used_as_they_are(rows: list[Row], given_codes: list[int]) -> None:
    own = np.array(given_codes[: len(rows)], dtype=np.uint64)
    routed = batch(rows).append_column(CODE, pa.array(own.view(np.int64)))
    segments = CompiledChain(LANES, {}, {}).intake[RIGHT].segments(routed, 1, LANES.lanes(RIGHT), lambda: 1)
    for segment in segments:
        assert CODE not in segment.rows.schema.names
        ids = segment.rows.column("id").to_pylist()
        assert segment.row_keys().tolist() == [given_codes[one] for one in ids]


def test_without_given_codes_an_integer_key_is_scrambled() -> None:
    rows: list[Row] = [(2, "", 3, 0), (1, "", 3, 0)]
    (segment,) = CompiledChain(LANES, {}, {}).intake[LEFT].segments(batch(rows), 1, LANES.lanes(LEFT), lambda: 1)
    keys = np.array(segment.rows.column("k").to_pylist(), dtype=np.uint64)
    assert segment.row_keys().tolist() == scramble(keys).tolist()


def test_columns_that_are_the_key_need_be_gathered_on_one_side_only() -> None:
    assert equal_columns(LANES, LEFT) == {(1, "k"): (0, "k")}
    assert equal_columns(LANES, RIGHT) == {(0, "k"): (1, "k")}
    assert equal_columns(TEXTS, LEFT) == {}, "hashed keys may collide, and are looked at on both"
