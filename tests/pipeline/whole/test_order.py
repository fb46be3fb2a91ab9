"""Strict order through restarts, replaced queries and changes of the setting; idle streams on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from millstream.pipeline.progress import BatchProgress
from millstream.testing import Session, run
from two_streams import START

STREAMS = """
CREATE STREAM A (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', delay = '20 seconds');
CREATE STREAM B (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', delay = '20 seconds');
"""
FROM = "FROM A, B WHERE A.k = B.k WINDOW 15 SECONDS"
OLD = f"SELECT A.v AS av, B.v AS bv {FROM}"
NEW = f"SELECT A.k AS k, A.v + B.v AS s, CASE WHEN A.Ts > B.Ts THEN A.Ts ELSE B.Ts END AS t {FROM}"


def batches(count: int) -> list[dict[str, list[dict[str, Any]]]]:
    return [
        {
            name: [
                {"k": n % 2, "v": 100.0 * batch + n + shift, "Ts": START + timedelta(seconds=10 * batch + n)}
                for n in range(10)
            ]
            for name, shift in (("A", 0.0), ("B", 0.5))
        }
        for batch in range(count)
    ]


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


def test_a_replaced_query_does_not_give_out_what_was_held_for_the_old_one(mill: Callable[..., Any]) -> None:
    rows = batches(4)
    texts = [f"{STREAMS} CREATE QUERY q AS {text}; SET order = 'strict';" for text in (OLD, OLD, NEW, NEW)]
    session = Session(texts[0])
    for number, text in enumerate(texts):
        if number == 2:
            assert session.engine.held_rows > 0, "something is held when the query is replaced"
        session.change(text)
        if number == 2:
            session._found.clear()  # what the old definition gave
        session.feed(rows[number])
        found = mill(text)
        found.put(rows[number])
        found.pipeline.start()
        found.await_rows(20)
        found.pipeline.stop()
    session.close()
    last = mill(texts[-1])
    last.pipeline.drain()
    assert bag(last.results("q")) == bag(session.results("q").to_pylist())


@pytest.mark.parametrize("waits", [True, False], ids=["once it is gone", "at once"])
def test_a_query_dropped_and_added_under_its_name_begins_anew(mill: Callable[..., Any], waits: bool) -> None:
    rows = batches(4)
    script = f"{STREAMS} CREATE QUERY stays AS {OLD}; SET order = 'strict';"
    session = Session(f"{script} CREATE QUERY q AS {OLD};")
    found = mill(f"{script} CREATE QUERY q AS {OLD};")
    found.pipeline.start()
    for number, batch in enumerate(rows):
        if number == 2:
            found.pipeline.drop("q")
            if waits:
                found.await_rows(0, until=lambda _: "q" not in found.pipeline.queries())
            found.pipeline.query("q", NEW)
            session.change(script)
            session.change(f"{script} CREATE QUERY q AS {NEW};")
            session._found.pop("q", None)
        session.feed(batch)
        found.put(batch)
        found.await_rows(20)
    found.pipeline.stop()
    session.close()
    last = mill(f"{script} CREATE QUERY q AS {OLD};")
    last.pipeline.drain()
    for name in ("q", "stays"):
        assert bag(last.results(name)) == bag(session.results(name).to_pylist())


@pytest.mark.parametrize("orders", [("eager", "strict", "strict"), ("strict", "eager", "strict")])
def test_the_order_may_change_at_a_restart(mill: Callable[..., Any], orders: tuple[str, ...]) -> None:
    rows = batches(len(orders))
    expected = run(f"{STREAMS} CREATE QUERY q AS {OLD};", {name: [batch[name] for batch in rows] for name in "AB"})["q"]
    found = None
    for number, order in enumerate(orders):
        found = mill(f"{STREAMS} CREATE QUERY q AS {OLD}; SET order = '{order}';", settings={"slots": "1"})
        found.put(rows[number])
        if number == len(orders) - 1:
            found.pipeline.drain()
        else:
            found.pipeline.start()
            found.await_rows(20)
            found.pipeline.stop()
    assert found is not None
    assert bag(found.results("q")) == bag(expected.to_pylist())


def test_strict_rows_come_in_the_order_of_their_later_time(mill: Callable[..., Any]) -> None:
    rows = batches(4)
    script = f"{STREAMS} CREATE QUERY q AS {NEW}; SET order = 'strict';"
    taken: list[datetime] = []
    found = mill(script, settings={"slots": "1"})
    found.pipeline.query("r", NEW, sink=lambda _, table: taken.extend(table.column("t").to_pylist()))
    for batch in rows:
        found.put(batch)
    found.pipeline.drain()
    assert len(taken) == len(found.results("q")) > 0
    assert all(one <= other for one, other in pairwise(taken))


IDLE = STREAMS.replace("delay = '20 seconds'", "delay = '0 seconds'").replace(
    "CREATE STREAM B (k INT, v DOUBLE, Ts TIMESTAMP) WITH (", "CREATE STREAM B (k INT, v DOUBLE, Ts TIMESTAMP) WITH ({}"
)


def test_a_slow_batch_and_a_stopped_pipeline_are_no_silence(mill: Callable[..., Any]) -> None:
    """Every batch takes longer than B may be idle, and so does every restart; B has rows whenever it is asked."""
    script = IDLE.format("idle = '1 millisecond', ") + f"CREATE QUERY q AS {OLD};"
    late = 0
    for restart in range(2):
        found = mill(script)
        for number in range(3):
            second = 3 * restart + number
            rows = [{"k": 1, "v": float(second), "Ts": START + timedelta(seconds=second)}]
            ahead = [{"k": 1, "v": float(second), "Ts": START + timedelta(seconds=1_000 + second)}]
            found.put({"A": ahead, "B": rows})
        found.pipeline.drain()
        late += sum(sum(found.done.get_nowait().late.values()) for _ in range(found.done.qsize()))
    assert late == 0


def test_a_stream_that_is_asked_in_vain_lets_time_go_on(mill: Callable[..., Any]) -> None:
    """The row's later time is beyond all that B ever had: only B's silence can let it out."""
    script = IDLE.format("idle = '100 milliseconds', ") + f"CREATE QUERY q AS {OLD}; SET order = 'strict';"
    found = mill(script, settings={"heartbeat": "50 milliseconds"})
    a, b, ahead = ([{"k": 1, "v": 1.0, "Ts": START + timedelta(seconds=second)}] for second in (10, 0, 60))
    found.put({"A": a, "B": b})
    found.put({"A": ahead})
    found.pipeline.start()  # with all files there: B must not be asked in vain before its first row
    given = 0

    def is_given(batch: BatchProgress) -> bool:
        nonlocal given
        given += batch.queries["q"].rows if "q" in batch.queries else 0
        return given > 0

    found.await_rows(0, until=is_given)
    found.pipeline.stop()
    assert given == 1
