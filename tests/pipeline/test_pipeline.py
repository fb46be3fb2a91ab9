"""Spark gives what the engine gives: several chains, all kinds of keys, live changes, restarts, deferred work."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import millstream as ms
from millstream.errors import QueryFailed, ScriptError, ScriptErrors
from millstream.model.functions import function
from millstream.pipeline import Pipeline
from millstream.pipeline.session import make_session
from millstream.testing import Session, run
from two_streams import PAIR, START, STREAMS, Rows, same


def some_rows(seed: int, count: int, first: int, last: int) -> Rows:
    rng = np.random.default_rng(seed)
    seconds = np.sort(rng.integers(first, last, count))
    return [
        {"k": int(key), "v": round(float(value), 3), "Ts": START + timedelta(seconds=int(second))}
        for key, value, second in zip(rng.integers(0, 8, count), rng.random(count), seconds, strict=True)
    ]


def test_a_stream_in_several_chains_by_several_keys() -> None:
    streams = "\n".join(
        f"CREATE STREAM {name} (k INT, t STRING, n BIGINT, Ts TIMESTAMP) WITH (time = 'Ts', delay = '1 minute');"
        for name in "ABC"
    )
    queries = {
        "by_int": "A, B WHERE x.k = y.k",
        "by_text": "A, B WHERE x.t = y.t",
        "by_both": "B, C WHERE x.k = y.k AND x.t = y.t",
        "mixed_types": "A, C WHERE x.k = y.n",
        "computed": "A, B WHERE x.k + 1 = y.n",
        "itself": "A, A WHERE x.k = y.n",
        "no_key": "B, C WHERE x.n < y.n",
    }
    for name, text in queries.items():
        left, right = text.split(" WHERE ")[0].split(", ")
        streams += f"\nCREATE QUERY {name} AS SELECT x.k AS xk, y.k AS yk, x.t AS xt, y.n AS yn, x.Ts AS at FROM " + (
            text.replace(f"{left}, {right}", f"{left} x, {right} y", 1) + " WINDOW 20 SECONDS;"
        )
    rng = np.random.default_rng(5)
    rows: dict[str, list[Rows]] = {name: [] for name in "ABC"}
    for batch in range(3):
        for parts in rows.values():
            parts.append(
                [
                    {
                        "k": None if key == 0 else int(key),
                        "t": None if key == 1 else f"text {key}",
                        "n": int(number),
                        "Ts": START + timedelta(seconds=int(second) + batch * 20),
                    }
                    for key, number, second in zip(*(rng.integers(0, high, 40) for high in (9, 9, 30)), strict=True)
                ]
            )
    expected = run(streams, rows)
    found = run(streams, rows, runner="spark", settings={"slots": "3"})
    for name, table in expected.items():
        assert len(table) > 0, name
        same(found[name], table)


def test_queries_come_and_go_as_in_the_engine(mill: Callable[..., Any]) -> None:
    script = f"{STREAMS} CREATE QUERY stays AS {PAIR} WINDOW 10 SECONDS; CREATE QUERY goes AS {PAIR} WINDOW 5 SECONDS;"
    batches = [
        {"A": some_rows(2 * n, 30, n * 10, n * 10 + 10), "B": some_rows(2 * n + 1, 30, n * 10, n * 10 + 10)}
        for n in range(4)
    ]
    session = Session(script)
    found = mill(script)
    found.pipeline.start()
    for number, batch in enumerate(batches):
        if number == 1:
            session.change(f"{script} CREATE QUERY wide AS {PAIR} WINDOW 25 SECONDS;")
            found.pipeline.query("wide", f"{PAIR} WINDOW 25 SECONDS")
        if number == 2:
            gone = session.results("goes").to_pylist()
            session.change(
                f"{STREAMS} CREATE QUERY stays AS {PAIR} WINDOW 10 SECONDS;"
                f"CREATE QUERY wide AS {PAIR} WINDOW 25 SECONDS;"
            )
            goes = found.results("goes")
            found.pipeline.drop("goes")
        found.put(batch)
        session.feed(batch)
        found.await_rows(60)
    found.pipeline.stop()
    same(goes, gone)
    same(found.results("stays"), session.results("stays"))
    same(found.results("wide"), session.results("wide"))
    with pytest.raises(ScriptError, match='no query "goes"'):
        found.pipeline.drop("goes")


def test_streams_may_change_places_in_the_script(mill: Callable[..., Any]) -> None:
    first, second = STREAMS.strip().splitlines()
    query = f"CREATE QUERY q AS {PAIR} WINDOW 60 SECONDS;"
    batches = [{"A": some_rows(n, 20, n * 8, n * 8 + 8), "B": some_rows(n + 7, 9, n * 8, n * 8 + 8)} for n in range(2)]
    for batch, script in zip(batches, (f"{first} {second} {query}", f"{second} {query} {first}"), strict=True):
        found = mill(script)
        found.put(batch)
        found.pipeline.drain()
    same(
        found.results("q"), run(f"{STREAMS} {query}", {name: [batch[name] for batch in batches] for name in "AB"})["q"]
    )


def test_deferred_work_is_finished_without_new_rows(mill: Callable[..., Any]) -> None:
    script = f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 10 SECONDS; CREATE QUERY r AS {PAIR} WINDOW 60 SECONDS;"
    batches = [
        {"A": some_rows(n, 40, n * 9, n * 9 + 30), "B": some_rows(n + 9, 40, n * 9, n * 9 + 30)} for n in range(2)
    ]
    script = script.replace("time = 'Ts'", "time = 'Ts', delay = '2 minutes'")
    found = mill(script, settings={"budget": "1 microsecond", "heartbeat": "100 milliseconds", "slicing": "memory"})
    found.pipeline.start()
    deferred = []
    for batch in batches:
        found.put(batch)
        deferred.append(found.await_rows(80).deferred)
    assert max(deferred) > 0, "the budget leaves work for later"
    if deferred[-1]:
        found.await_rows(0, until=lambda batch: batch.deferred == 0)
    found.pipeline.stop()
    expected = run(script, {name: [batch[name] for batch in batches] for name in "AB"})
    for name in "qr":
        same(found.results(name), expected[name])


def heartbeats() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "millstream-heartbeats"]


def test_a_started_pipeline_that_is_drained_stops_first(mill: Callable[..., Any]) -> None:
    """Two runs at once, each with its own idea of the last batch, would lose and double rows."""
    script = f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 10 SECONDS; CREATE QUERY r AS {PAIR} WINDOW 60 SECONDS;"
    script = script.replace("time = 'Ts'", "time = 'Ts', delay = '2 minutes'")
    batches = [
        {"A": some_rows(n, 40, n * 9, n * 9 + 30), "B": some_rows(n + 9, 40, n * 9, n * 9 + 30)} for n in range(6)
    ]
    found = mill(script, settings={"budget": "1 microsecond", "heartbeat": "50 milliseconds", "slicing": "memory"})
    for batch in batches[:4]:
        found.put(batch)
    found.pipeline.start()
    found.done.get(timeout=90)
    with pytest.raises(ScriptError, match="the pipeline runs already; it is started once until it stops"):
        found.pipeline.start()
    assert len(heartbeats()) == 1, "the one that runs goes on"
    for batch in batches[4:]:
        found.put(batch)
    found.pipeline.drain()
    assert heartbeats() == []
    again = mill(script)
    again.pipeline.drain()
    expected = run(script, {name: [batch[name] for batch in batches] for name in "AB"})
    for name in "qr":
        same(found.results(name), expected[name])
        same(again.results(name), expected[name])


def test_a_stopped_pipeline_may_be_started_again(mill: Callable[..., Any]) -> None:
    found = mill(f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 10 SECONDS;")
    for second in (0, 1):
        found.put({name: [{"k": 1, "v": 1.0, "Ts": START + timedelta(seconds=second)}] for name in "AB"})
        found.pipeline.start()
        found.await_rows(2)
        found.pipeline.stop()
        assert heartbeats() == []
    assert len(found.results("q")) == 4


def test_callbacks_outlive_a_stop_and_go_with_their_query(mill: Callable[..., Any]) -> None:
    """Of a query that was there from the start, of one added while it ran, and of one that was dropped."""
    got: Counter[str] = Counter()
    found = mill(f"{STREAMS} CREATE QUERY plain AS {PAIR} WINDOW 10 SECONDS;")

    def ask(name: str) -> None:
        found.pipeline.query(name, f"{PAIR} WINDOW 10 SECONDS", sink=lambda _, rows: got.update({name: len(rows)}))

    def join(second: int) -> None:
        found.put({name: [{"k": 1, "v": 1.0, "Ts": START + timedelta(seconds=second)}] for name in "AB"})
        found.await_rows(2)
        found.pipeline.stop()

    ask("first")
    ask("gone")
    found.pipeline.start()
    ask("added")
    found.pipeline.drop("gone")
    join(0)
    assert got == {"first": 1, "added": 1}
    found.pipeline.start()
    found.pipeline.query("gone", f"{PAIR} WINDOW 10 SECONDS")
    join(1)
    assert got == {"first": 4, "added": 4}
    assert len(found.results("gone")) == 3, "its rows go to files now: those with a row that came since"


def test_a_directory_that_a_stream_reads_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pipeline = Pipeline("test", folder / "state", script=f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 10 SECONDS;")
    for name in "AB":
        pipeline.read(name, "parquet", path=str(folder))
    with pytest.raises(ScriptError, match="lies where stream A reads; state, logs and results would be taken for rows"):
        pipeline.drain()


def test_an_edited_script_goes_on_with_the_state(mill: Callable[..., Any]) -> None:
    """What reads as before goes on; of what has changed, only the rows since then are its results."""
    stays = f"CREATE QUERY stays WITH (results = 'shared') AS {PAIR} WINDOW 10 SECONDS;"
    changes = f"CREATE QUERY changes AS {PAIR} WINDOW 5 SECONDS;"
    shared = f"CREATE QUERY pooled WITH (results = 'shared') AS {PAIR} WINDOW 10 SECONDS;"
    quoted = f"CREATE QUERY quoted AS {PAIR} AND 'a b' <> 'a  b' WINDOW 5 SECONDS;"
    before = f"{STREAMS} SET slots = 2; {stays} {changes} {shared} {quoted}"
    changed = (
        changes.replace("5 SECONDS", "9 SECONDS"),
        stays.replace(" AS ", " as -- a remark\n  ", 1),
        shared.replace("SELECT A.k", "SELECT 'new' AS c, A.k"),
        quoted.replace("'a b'", "'a   b'"),
    )
    after = f"{STREAMS} SET slots = 3; {' '.join(changed)}"
    batches = [{"A": some_rows(n, 30, n * 8, n * 8 + 8), "B": some_rows(n + 7, 30, n * 8, n * 8 + 8)} for n in range(2)]
    session = Session(before)
    first = mill(before)
    first.put(batches[0])
    first.pipeline.drain()
    session.feed(batches[0])
    for name in ("stays", "changes", "pooled", "quoted"):
        same(first.results(name), session.results(name))
    session.change(after)
    second = mill(after)
    second.put(batches[1])
    second.pipeline.drain()
    session.feed(batches[1])
    session.close()
    same(second.results("stays"), session.results("stays"))
    for name in ("changes", "pooled", "quoted"):
        rows = session.results(name).to_pylist()
        assert rows, name
        same(second.results(name.upper()), rows)
    assert [said for said in second.said if "2 slots become 3: 341 groups move" in said]
    assert sorted(second.pipeline.executors) == [0, 1, 2]
    other = after.replace("v DOUBLE", "v DOUBLE, more INT")
    with pytest.raises(ScriptError, match="stream A has changed: columns was"):
        mill(other).pipeline.drain()


def test_a_function_that_raises_stops_its_query_and_no_other(mill: Callable[..., Any]) -> None:
    @function("BOOLEAN", "DOUBLE", "DOUBLE")
    def picky(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if np.any(a + b > 100):
            raise ValueError("too much")
        return a < b

    functions = {"picky": picky}
    script = f"{STREAMS} CREATE QUERY good AS {PAIR} WINDOW 10 SECONDS;"
    script += f"CREATE QUERY bad AS {PAIR} AND picky(A.v, B.v) WINDOW 10 SECONDS;"
    script += f"CREATE QUERY narrow AS {PAIR} AND picky(A.v, B.v) WINDOW 1 SECOND;"
    fine = {"A": [{"k": 1, "v": 1.0, "Ts": START}], "B": [{"k": 1, "v": 2.0, "Ts": START}]}
    too_much = {
        "A": [{"k": 1, "v": 90.0, "Ts": START + timedelta(seconds=1)}],
        "B": [{"k": 1, "v": 91.0, "Ts": START + timedelta(seconds=4)}],
    }
    found = mill(script, functions=functions)
    found.put(fine)
    found.put(too_much)
    found.pipeline.drain()
    same(
        found.results("good"),
        run(
            f"{STREAMS} CREATE QUERY good AS {PAIR} WINDOW 10 SECONDS;",
            {name: [fine[name], too_much[name]] for name in "AB"},
        )["good"],
    )
    same(found.results("narrow"), [{"k": 1, "av": 1.0, "bv": 2.0}])
    assert [said.splitlines()[0] for said in found.said] == ["query bad is stopped: ValueError: too much"]
    again = mill(script, functions=functions)
    again.pipeline.drain()
    assert "bad" not in again.pipeline.queries()
    assert any("bad was stopped" in said and "too much" in said for said in again.said)


def test_on_error_stop_stops_everything(mill: Callable[..., Any]) -> None:
    @function("BOOLEAN", "DOUBLE")
    def never(_: np.ndarray) -> np.ndarray:
        raise ValueError("not today")

    found = mill(
        f"{STREAMS} CREATE QUERY q AS {PAIR} AND never(A.v) WINDOW 10 SECONDS;",
        functions={"never": never},
        settings={"on_error": "stop"},
    )
    found.put({"A": some_rows(1, 5, 0, 5), "B": some_rows(2, 5, 0, 5)})
    with pytest.raises(QueryFailed, match="query 'q': ValueError: not today"):
        found.pipeline.drain()
    assert found.pipeline.batch == 0


def test_strict_order_survives_a_restart(mill: Callable[..., Any]) -> None:
    script = f"{STREAMS} CREATE QUERY q AS SELECT A.Ts AS a, B.Ts AS b FROM A, B WHERE A.k = B.k WINDOW 30 SECONDS;"
    script = script.replace("time = 'Ts'", "time = 'Ts', delay = '20 seconds'")
    batches = [
        {"A": some_rows(n, 30, n * 8, n * 8 + 12), "B": some_rows(n + 7, 30, n * 8, n * 8 + 12)} for n in range(3)
    ]
    options = {"settings": {"order": "strict", "slots": "1"}}
    for batch in batches:
        found = mill(script, **options)
        found.put(batch)
        found.pipeline.start()
        found.await_rows(60)
        found.pipeline.stop()
    held = len(found.results("q"))
    last = mill(script, **options)
    last.pipeline.drain()
    rows = last.results("q")
    expected = run(script, {name: [batch[name] for batch in batches] for name in "AB"})["q"].to_pylist()
    assert held < len(rows), "rows were held when the pipeline stopped"
    same(rows, expected)
    order = [max(row["a"], row["b"]) for row in rows]
    assert order == sorted(order)


def test_a_backlog_holds_back_reading(mill: Callable[..., Any]) -> None:
    script = f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 5 SECONDS; CREATE QUERY r AS {PAIR} WINDOW 60 SECONDS;"
    script = script.replace("time = 'Ts'", "time = 'Ts', delay = '2 minutes'")
    batches = [
        {"A": some_rows(n, 40, n * 9, n * 9 + 30), "B": some_rows(n + 9, 40, n * 9, n * 9 + 30)} for n in range(3)
    ]
    limited = {"budget": "1 microsecond", "backlog": "1", "slicing": "memory", "slots": "1"}
    found = mill(script, settings=limited)
    for batch in batches:
        found.put(batch)
    found.pipeline.drain()
    seen = list(found.done.queue)
    assert any(batch.held_back for batch in seen)
    reading = [number for number, batch in enumerate(seen) if batch.rows_in]
    for first, second in pairwise(reading):
        assert seen[second - 1].deferred <= 1, "a batch is read when no more than one unit waits"
        assert second > first + 1
    expected = run(script, {name: [batch[name] for batch in batches] for name in "AB"})
    for name in "qr":
        same(found.results(name), expected[name])


def test_a_stream_to_read_is_found_in_any_case_or_told(tmp_path: Path) -> None:
    script = "CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts');"
    script += "CREATE QUERY q AS SELECT x.k FROM A x, A y WHERE x.k = y.k WINDOW 1 SECOND;"
    mill = Pipeline("test", tmp_path / "state", script=script)
    mill.read("a", "parquet", path=str(tmp_path / "none"))
    with pytest.raises(ScriptError, match=r"stream A reads '.*/none'"):
        mill.drain()
    mill.read("b", "parquet", path=str(tmp_path))
    with pytest.raises(ScriptError, match='no stream "b" to read; the streams are A'):
        mill.drain()


def test_streaming_dataframes(tmp_path: Path) -> None:
    spark = make_session("test")
    mill = ms.Pipeline("rates", directory=tmp_path / "state", spark=spark)
    for name in ("A", "B"):
        frame = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
        mill.stream(name, frame.withColumnRenamed("timestamp", "Ts"), time="Ts", delay="5 seconds")
    got: queue.Queue[pa.Table] = queue.Queue()
    join = "FROM A, B WHERE A.value = B.value"
    mill.query(
        "same", f"SELECT A.value, A.Ts AS a, B.Ts AS b {join} WINDOW 1 MINUTE", sink=lambda _, rows: got.put(rows)
    )
    assert "Chain 1: A.value = B.value" in mill.explain()
    with mill:
        first = got.get(timeout=120)
        later = mill.query("later", f"SELECT A.value {join} AND A.value % 2 = 0 WINDOW 1 MINUTE")
        with pytest.raises(ScriptErrors, match="no column"):
            mill.query("wrong", f"SELECT A.nothing {join} WINDOW 1 MINUTE")
        with pytest.raises(ScriptError, match="is there already"):
            mill.query("same", f"SELECT A.value {join} WINDOW 1 MINUTE")
        rows = [first]
        while not len(later.results() if "later" in mill.queries() else ()):
            rows.append(got.get(timeout=120))
        later.drop()
        while "later" in mill.queries():
            rows.append(got.get(timeout=120))
    values = pa.concat_tables(rows)["value"].to_pylist()
    assert len(values) == len(set(values)) > 0, "no pair comes twice"


def test_a_pipeline_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="the pipeline has no streams"):
        ms.Pipeline("empty", directory=tmp_path).start()
    with pytest.raises(ScriptError, match="cannot be the name of a pipeline"):
        ms.Pipeline("no good", directory=tmp_path)
    with pytest.raises(ScriptError, match='query "q" is not running'):
        ms.Pipeline("empty", directory=tmp_path).drop("q")
    with pytest.raises(ScriptError, match="has not been started"):
        ms.Pipeline("empty", directory=tmp_path).results("q")
