"""Every arriving row is judged once, by its time and by what is known of time, as row by row."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.judge import UNREAD, Late, Limits, by_lateness, judged
from millstream.engine.watermark import FAR
from millstream.model.stream import Stream, StreamColumn
from millstream.model.types import BIGINT, TIMESTAMP

STREAM = Stream("A", (StreamColumn("id", BIGINT), StreamColumn("Ts", TIMESTAMP)), "Ts")
HIDDEN = "\x01code"
Row = tuple[int | None, str | None]
"""A time, and the text of a row that did not parse."""
rows_of = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 20)), st.sampled_from([None, None, None, "{"])), max_size=9
)
marks = st.lists(st.tuples(st.sampled_from(["A B", "A C", "A D"]), st.integers(-1, 12)), max_size=3)


def batch(rows: list[Row], *, unread: bool = True) -> pa.RecordBatch:
    columns = {
        "id": pa.array(range(len(rows)), pa.int64()),
        "Ts": pa.array([time for time, _ in rows], pa.int64()).view(pa.timestamp("us", "UTC")),
        HIDDEN: pa.array(range(len(rows)), pa.int64()),
    }
    if unread:
        columns[UNREAD] = pa.array([text for _, text in rows], pa.string())
    return pa.RecordBatch.from_pydict(columns)


def verdict(row: Row, limits: Limits) -> tuple[str, tuple[str, ...]] | None:
    """Why a row is set aside, and for which chains; None where it is not."""
    time, text = row
    if text is not None:
        return "does not parse", ()
    if time is None:
        return "null time", ()
    if time > limits.horizon:
        return "in the future", ()
    late_for = tuple(sorted({chain for chain, watermark in limits.watermarks if time < watermark}))
    return ("older than the watermark", late_for) if late_for else None


def told(late: list[Late]) -> Counter[tuple[int, str, tuple[str, ...]]]:
    return Counter((one, some.reason, some.chains) for some in late for one in some.rows.column("id").to_pylist())


@given(rows=rows_of, watermarks=marks, horizon=st.one_of(st.just(FAR), st.integers(0, 20)))
def test_a_row_is_usable_or_told_of_once(rows: list[Row], watermarks: list[tuple[str, int]], horizon: int) -> None:
    limits = Limits(horizon, watermarks)
    usable, late = judged(STREAM, batch(rows), limits)
    verdicts = {number: verdict(row, limits) for number, row in enumerate(rows)}
    assert told(late) == Counter((number, *why) for number, why in verdicts.items() if why is not None)
    has_sense = [n for n, why in verdicts.items() if why is None or why[1]]
    assert usable.column("id").to_pylist() == has_sense, "what is late for some chains is not for others"
    assert usable.schema.names == ["id", "Ts", HIDDEN]
    for some in late:
        assert some.stream == "A"
        assert some.rows.num_rows
        assert some.rows.schema.names == ["id", "Ts"], "no hidden column is told"
        assert (some.text is None) == (some.reason != "does not parse")
        if some.text is not None:
            assert some.text.to_pylist() == ["{"] * some.rows.num_rows


levels_of = st.dictionaries(st.sampled_from(["A B", "A C", "A D"]), st.integers(-1, 21), min_size=1)


@given(rows=rows_of, watermarks=levels_of)
def test_rows_are_apart_by_the_chains_that_they_are_late_for(rows: list[Row], watermarks: dict[str, int]) -> None:
    usable, _ = judged(STREAM, batch([(time, None) for time, _ in rows], unread=False), Limits())
    parts = by_lateness(STREAM, usable, watermarks)
    found = {one: hidden for some, hidden in parts for one in some.column("id").to_pylist()}
    late_for = {
        number: frozenset(chain for chain, watermark in watermarks.items() if time < watermark)
        for number, (time, _) in enumerate(rows)
        if time is not None
    }
    assert found == {one: chains for one, chains in late_for.items() if len(chains) < len(watermarks)}, (
        "without those that are late for all"
    )
    assert sum(some.num_rows for some, _ in parts) == len(found), "each in one part"
    assert len({hidden for _, hidden in parts}) == len(parts)
    for some, _ in parts:
        ids = some.column("id").to_pylist()
        assert ids == sorted(ids), "as they came"
        assert some.schema.names == ["id", "Ts", HIDDEN]


def test_rows_in_time_for_all_are_not_copied() -> None:
    usable, _ = judged(STREAM, batch([(5, None), (9, None)], unread=False), Limits())
    ((some, hidden),) = by_lateness(STREAM, usable, {"A B": 5, "A C": -1})
    assert some is usable
    assert not hidden
