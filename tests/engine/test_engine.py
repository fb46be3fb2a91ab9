"""The engine: rows go in by stream, results go out by query, and event time is what it has seen."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.compile import compile_script
from millstream.engine import widths
from millstream.engine.arrow import arrow_schema
from millstream.engine.backlog import Budget
from millstream.engine.engine import Engine
from millstream.errors import ScriptError
from millstream.plan import Plan

START = datetime(2024, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
QUERIES = {
    "narrow": "A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 2 SECONDS",
    "wide": "A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 9 SECONDS",
    "self": "x.id AS a, y.id AS b FROM A x, A y WHERE x.k = y.k WINDOW 2 SECONDS",
    "three": "x.id AS a, z.id AS b FROM A x, B y, A z WHERE x.k = y.k AND y.k = z.k WINDOW 2 SECONDS",
}


def plan_of(*names: str, idle: str = "", **queries: str) -> Plan:
    script = "".join(
        f"CREATE STREAM {name} (id BIGINT, k INT, Ts TIMESTAMP) WITH (time = 'Ts'{idle});" for name in "AB"
    )
    for name in names:
        script += f"CREATE QUERY {name} AS SELECT {queries.get(name, QUERIES[name])};"
    return compile_script(script)


def table(*rows: tuple[int, float]) -> pa.Table:
    """Rows by number and second."""
    schema = arrow_schema(plan_of("wide").script.streams[0])
    return pa.Table.from_pylist(
        [{"id": one, "k": 1, "Ts": START + timedelta(seconds=second)} for one, second in rows], schema=schema
    )


class Found:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[str, int, int]] = Counter()

    def __call__(self, query: str, rows: pa.RecordBatch) -> None:
        self.rows.update((query, row["a"], row["b"]) for row in rows.to_pylist())


def state(engine: Engine) -> int:
    return sum(len(one) for pool in engine.pools() for one in pool.segments)


def test_every_query_gets_its_rows_under_its_name() -> None:
    found = Found()
    engine = Engine(plan_of("narrow", "wide", "self"), found)
    engine.feed({"A": table((1, 0)), "B": table((2, 1))})
    engine.feed({"B": table((3, 5))})
    assert found.rows == {("narrow", 1, 2): 1, ("wide", 1, 2): 1, ("wide", 1, 3): 1, ("self", 1, 1): 1}


def test_rows_of_no_stream_are_refused() -> None:
    with pytest.raises(ScriptError) as failure:
        Engine(plan_of("wide"), Found()).feed({"Nope": table((1, 0))})
    assert str(failure.value) == 'rows for "Nope"; the streams are A, B. Declare the stream, or rename the rows.'


def test_columns_of_other_types_and_in_another_order_are_made_to_fit() -> None:
    found = Found()
    engine = Engine(plan_of("wide"), found)
    odd = pa.table({"Ts": [START.replace(tzinfo=None)], "k": pa.array([1], pa.int8()), "id": pa.array([7], pa.int16())})
    engine.feed({"A": odd, "B": table((2, 0))})
    assert found.rows == {("wide", 7, 2): 1}
    assert engine.pools()[0].segments[0].rows.schema == table((1, 0)).schema


def test_what_a_batch_says_of_event_time_holds_at_once() -> None:
    engine = Engine(plan_of("narrow"), Found())
    engine.feed({"A": table((1, 0)), "B": table((2, 0))})
    assert state(engine) == 2
    engine.feed({"A": table((3, 60)), "B": table((4, 60))})
    assert state(engine) == 2, "what nothing can meet any more is gone"
    engine.feed({"A": table((5, 59), (6, 61))})
    assert [(late.stream, late.reason, late.rows.column("id").to_pylist()) for late in engine.late] == [
        ("A", "older than the watermark", [5])
    ]


def test_a_stream_that_is_idle_holds_nobody_up() -> None:
    for idle, left in ((", idle = '1 second'", 2), ("", 4)):
        engine = Engine(plan_of("narrow", idle=idle), Found())
        engine.feed({"A": table((1, 0)), "B": table((2, 0))})
        for now in (10 * SECOND, 20 * SECOND):
            engine.feed({"A": table((now, 60))}, now=now)
        assert state(engine) == left


def rows_by_hand(engine: Engine) -> None:
    engine.feed({"A": table((1, 0), (2, 1)), "B": table((3, 0))}, Budget(units=0))
    engine.feed({"A": table((4, 2)), "B": table((5, 1), (6, 5))}, Budget(units=0))


WANTED = {("wide", a, b): 1 for a in (1, 2, 4) for b in (3, 5, 6)}


def test_work_goes_on_without_new_rows_and_closing_finishes_it() -> None:
    found = Found()
    engine = Engine(plan_of("wide"), found)
    rows_by_hand(engine)
    assert not found.rows
    waiting = engine.deferred
    assert waiting > 1
    engine.work(Budget(units=1))
    assert engine.deferred == waiting - 1
    assert engine.choosing > 0
    engine.close()
    assert engine.deferred == 0
    assert found.rows == WANTED


def test_rows_held_for_their_turn_come_out_when_it_is_closed() -> None:
    found = Found()
    engine = Engine(plan_of("wide"), found, order="strict")
    rows_by_hand(engine)
    engine.work()
    assert 0 < engine.held_rows == 9 - found.rows.total()
    engine.close()
    assert engine.held_rows == 0
    assert found.rows == WANTED


def test_with_a_directory_segments_are_files_there(tmp_path: Path) -> None:
    found = Found()
    engine = Engine(plan_of("wide", "self"), found, directory=tmp_path)
    rows_by_hand(engine)
    engine.work()
    segments = [one for pool in engine.pools() for one in pool.segments]
    assert len(list(tmp_path.glob("*.arrow"))) == 2 * len(segments) > 0
    assert len({one.number for one in segments}) == len(segments), "numbered over all pools"
    assert {key: count for key, count in found.rows.items() if key[0] == "wide"} == WANTED


def test_more_than_a_column_can_hold_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Found()
    engine = Engine(plan_of("wide"), found)
    monkeypatch.setattr(widths, "LARGEST", 30)
    chunks = {
        "A": pa.concat_tables([table((1, 0)), table((2, 1)), table((4, 2))]),
        "B": pa.concat_tables([table((3, 0)), table((5, 1)), table((6, 2))]),
    }
    engine.feed(chunks)
    assert found.rows == WANTED


def test_a_query_that_has_changed_begins_anew_and_one_that_has_not_goes_on() -> None:
    found = Found()
    engine = Engine(plan_of("narrow", "wide"), found)
    engine.feed({"A": table((1, 0)), "B": table((2, 0))}, Budget(units=0))
    turned = "A.id AS a, B.id + 100 AS b FROM A, B WHERE A.k = B.k WINDOW 2 SECONDS"
    engine.change(plan_of("narrow", "wide", narrow=turned))
    engine.feed({"A": table((3, 1))})
    assert found.rows == {("wide", 1, 2): 1, ("wide", 3, 2): 1, ("narrow", 3, 102): 1}
    engine.change(plan_of("wide"))
    engine.feed({"A": table((4, 1))})
    assert found.rows == {("wide", 1, 2): 1, ("wide", 3, 2): 1, ("narrow", 3, 102): 1, ("wide", 4, 2): 1}


def test_all_chains_that_join_a_stream_by_a_key_keep_it_once() -> None:
    found = Found()
    engine = Engine(plan_of("narrow", "wide", "self", "three"), found)
    assert len(engine.chains()) == 3
    assert [pool.pool.title for pool in engine.pools()] == ["A by k", "B by k"]
    rows_by_hand(engine)
    assert state(engine) == 6, "three rows of each stream"
    engine.close()
    assert {key: count for key, count in found.rows.items() if key[0] == "wide"} == WANTED
    assert {key for key in found.rows if key[0] == "three"} == {
        ("three", a, b) for a, b in ((1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (4, 2), (4, 4))
    }
    assert sum(count for key, count in found.rows.items() if key[0] == "three") == 11


def test_a_pool_goes_when_no_chain_reads_it_and_another_is_read_by_a_new_one() -> None:
    found = Found()
    engine = Engine(plan_of("wide"), found)
    engine.feed({"A": table((1, 0)), "B": table((2, 0))})
    engine.change(plan_of("self"))
    assert [pool.pool.title for pool in engine.pools()] == ["A by k"]
    engine.feed({"A": table((3, 1))})
    assert {key for key in found.rows if key[0] == "self"} == {("self", 1, 3), ("self", 3, 1), ("self", 3, 3)}
