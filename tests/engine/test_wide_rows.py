"""Rows whose width is their own go through the whole engine in parts that columns can hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.compile import compile_script
from millstream.engine import release, widths
from millstream.engine.arrow import arrow_schema
from millstream.engine.backlog import Budget
from millstream.engine.compaction import run_to_merge
from millstream.engine.engine import Engine
from millstream.engine.files import DamagedFileError, Files
from millstream.engine.keys import codes
from millstream.engine.release import OrderedBuffer, OrderedRun
from millstream.engine.segment import Lot, Segment, build, merge
from millstream.errors import QueryFailed
from millstream.testing import run

START = datetime(2024, 1, 1, tzinfo=UTC)
STREAMS = """
CREATE STREAM A (k INT, s STRING, n ARRAY<STRING>, v INT, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM B (k INT, s STRING, n ARRAY<STRING>, v INT, Ts TIMESTAMP) WITH (time = 'Ts');
"""
EQUAL = "FROM A, B WHERE A.k = B.k"
ALL = "A.v AS a, B.v AS b"
WIDE = f"{ALL}, A.s AS s, B.s AS t, B.n AS n"


def rows(stream: str, count: int, width: int = 50) -> list[dict[str, Any]]:
    """Three keys; a row in ten is very wide, one has nothing."""
    found = []
    for number in range(count):
        text = None if number == 3 else stream * (width * 10 if number % 10 == 0 else number % 7)
        nested = None if number == 5 else [text, "", None] * (number % 4)
        at = START + timedelta(milliseconds=100 * number)
        found.append({"k": number % 3, "s": text, "n": nested, "v": number, "Ts": at})
    return found


ROWS = {"A": rows("a", 60), "B": rows("b", 70)}


def plain(some: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, some))


def all_at_once(script: str) -> dict[str, list[str]]:
    """What queries give where nothing comes near a limit."""
    found = {name: plain(table.to_pylist()) for name, table in run(script, ROWS).items()}
    assert all(found.values())
    return found


LOW = 2_000


@pytest.fixture
def lower(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes limits so low that a test reaches them."""

    def lower() -> None:
        monkeypatch.setattr(widths, "CHUNK_BYTES", LOW)
        monkeypatch.setattr(widths, "LARGEST", 2 * LOW)

    return lower


@pytest.mark.parametrize("batches", [1, 7])
@pytest.mark.parametrize("order", ["eager", "strict"])
@pytest.mark.parametrize(
    "where",
    ["A.k = B.k", "A.v < B.v", "A.s = B.s", "A.k = B.k AND length(concat(A.s, B.s)) > 0"],
    ids=["keys", "no key", "wide keys", "residual"],
)
def test_wide_rows_come_out_complete_a_bounded_part_at_a_time(
    lower: Callable[[], None], batches: int, order: str, where: str
) -> None:
    script = f"{STREAMS} SET order = '{order}';"
    script += f"CREATE QUERY near AS SELECT {WIDE} FROM A, B WHERE {where} WINDOW 2 SECONDS;"
    script += f"CREATE QUERY far AS SELECT {WIDE} FROM A, B WHERE {where} WINDOW 9 SECONDS;"
    wanted = all_at_once(script)
    lower()
    found: dict[str, list[dict[str, Any]]] = {"near": [], "far": []}

    def sink(query: str, some: pa.RecordBatch) -> None:
        assert some.num_rows == 1 or some.nbytes < 2 * LOW + 40 * some.num_rows
        found[query] += some.to_pylist()

    engine = Engine(compile_script(script), sink)
    tables = {name: _table(engine, name, some) for name, some in ROWS.items()}
    for number in range(batches):
        start, stop = round(number * 70 / batches), round((number + 1) * 70 / batches)
        engine.feed({name: table.slice(start, stop - start) for name, table in tables.items()})
    engine.close()
    assert {name: plain(some) for name, some in found.items()} == wanted


def _table(engine: Engine, name: str, some: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(some, schema=arrow_schema(engine.plan.script.streams["AB".index(name)]))


def segments(engine: Engine, stream: str) -> list[Segment]:
    return [one for pool in engine.pools() if pool.pool.stream.name == stream for one in pool.segments]


def test_pairs_with_a_shared_bound_are_bounded_too(lower: Callable[[], None]) -> None:
    script = STREAMS + "".join(
        f"CREATE QUERY q{n} AS SELECT {WIDE} {EQUAL} AND length(A.s) + length(B.s) > {500 + n} WINDOW 9 SECONDS;"
        for n in range(4)
    )
    wanted = all_at_once(script)
    lower()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}

    def sink(query: str, some: pa.RecordBatch) -> None:
        assert some.num_rows == 1 or some.nbytes < 2 * LOW + 40 * some.num_rows
        found[query] += some.to_pylist()

    engine = Engine(compile_script(script), sink)
    engine.feed({name: _table(engine, name, some) for name, some in ROWS.items()})
    engine.close()
    assert {name: plain(some) for name, some in found.items()} == wanted


def test_expressions_that_outgrow_a_column_are_worked_on_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"{STREAMS} CREATE QUERY grows AS SELECT {ALL}, replace(A.s, 'a', 'twelve chars') AS s {EQUAL}"
    script += " AND length(replace(B.s, 'b', '12')) >= 0 WINDOW 2 SECONDS;"
    script += f"CREATE QUERY constant AS SELECT {ALL}, '{'x' * 900}' AS s {EQUAL} WINDOW 2 SECONDS;"
    wanted = all_at_once(script)
    monkeypatch.setattr(widths, "CAPACITY", 20_000)
    for batches in (1, 9):
        found = run(script, ROWS, batches=batches)
        assert {name: plain(table.to_pylist()) for name, table in found.items()} == wanted


def test_a_single_row_that_outgrows_a_column_is_its_querys_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widths, "CAPACITY", 5_000)
    script = f"{STREAMS} CREATE QUERY far AS SELECT replace(A.s, 'a', 'twelve chars') AS s {EQUAL} WINDOW 2 SECONDS;"
    script += f"CREATE QUERY fits AS SELECT replace(A.s, 'a', 'two') AS s {EQUAL} WINDOW 2 SECONDS;"
    with pytest.raises(QueryFailed) as failure:
        run(script, ROWS)
    assert failure.value.queries == ("far",)


def texts(number: int, count: int, width: int, first: int = 0, reach: int = 10**6) -> Segment:
    keys = pa.array(np.arange(count))
    times = pa.array(np.arange(first, first + count)).view(pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([keys, pa.array(["x" * width] * count), times], names=["k", "s", "Ts"])
    return build(number, number, Lot(reach), batch, "Ts", codes([keys], count))


def test_no_merge_makes_a_segment_larger_than_columns_can_hold(lower: Callable[[], None]) -> None:
    lower()
    lane: list[Segment] = []
    for number in range(1, 60):
        lane.append(texts(number, 10, 100, first=10 * number))
        while (run_ := run_to_merge(lane, ())) is not None:
            lane[run_] = [merge(1_000 + number, lane[run_])]
    assert sum(map(len, lane)) == 590
    assert max(one.bulk for one in lane) <= widths.LARGEST
    assert len(lane) <= 30
    lane = [texts(1, 300, 100), *(texts(n, 10, 100, first=300 * n) for n in range(2, 5))]
    assert lane[0].bulk > widths.LARGEST
    assert run_to_merge(lane, ()) == slice(1, 4), "what came too large stays as it is, and stands in nobody's way"


def test_few_wide_rows_are_worth_trimming(lower: Callable[[], None]) -> None:
    lower()
    script = f"{STREAMS} CREATE QUERY q AS SELECT {ALL} {EQUAL} WINDOW 60 SECONDS;"
    engine = Engine(compile_script(script), lambda *_: None)
    engine.feed({"A": _table(engine, "A", rows("a", 550))})
    for second in (50, 100):
        later = [{"k": 1, "s": "", "n": [], "v": 0, "Ts": START + timedelta(seconds=second)}]
        engine.feed({name: _table(engine, name, later) for name in "AB"})
    kept = segments(engine, "A")
    assert sum(map(len, kept)) < 300


@pytest.mark.parametrize("budget", [None, Budget(units=1)])
@pytest.mark.parametrize("order", ["eager", "strict"])
def test_a_batch_larger_than_columns_can_hold_is_taken_in_whole(
    lower: Callable[[], None], order: str, budget: Budget | None
) -> None:
    script = f"{STREAMS} CREATE QUERY q AS SELECT {ALL} {EQUAL} WINDOW 9 SECONDS;"
    wanted = all_at_once(script)["q"]
    lower()
    found: list[dict[str, Any]] = []
    engine = Engine(compile_script(script), lambda _, some: found.extend(some.to_pylist()), order=order)
    tables = {name: _table(engine, name, some) for name, some in ROWS.items()}
    chunks = {
        name: pa.concat_tables([one.slice(start, 9) for start in range(0, 70, 9)]) for name, one in tables.items()
    }
    engine.feed(chunks, budget)
    assert len(segments(engine, "A")) > 1, "more than one batch of Arrow's"
    assert bool(engine.deferred) == (budget is not None)
    engine.close()
    assert plain(found) == wanted


def parts() -> Iterator[OrderedRun]:
    """Parts whose places interleave."""
    for number in range(12):
        places = np.arange(number, 600, 12)
        made = pa.RecordBatch.from_pydict({"at": places, "s": ["y" * (int(one) % 90) for one in places]})
        zeros = np.zeros(len(places), dtype=np.int64)
        yield OrderedRun.sorted((places, zeros, zeros, zeros, zeros), made)


def test_held_rows_are_saved_and_let_out_in_bounded_batches(lower: Callable[[], None], tmp_path: Path) -> None:
    lower()
    held = OrderedBuffer()
    for part in parts():
        held.add(part)
    files = Files.at(tmp_path)
    saved = held.saved()
    assert len(saved.to_batches()) > 1
    files.write_arrow("held.arrow", saved)
    with pytest.raises(DamagedFileError, match="12 batches instead of one"):
        files.read_arrow("held.arrow")
    again = OrderedBuffer()
    again.take_back(files.read_table("held.arrow"))
    assert len(again) == len(held) == 600
    out: list[pa.RecordBatch] = []
    out += [rows for rows, _ in again.release(release.Bounds((300, 0, 0), (300, 0, 0)))]
    out += [rows for rows, _ in again.release(None)]
    assert all(one.nbytes <= 2 * LOW for one in out)
    assert [row["at"] for one in out for row in one.to_pylist()] == list(range(600))
    assert all(len(row["s"]) == row["at"] % 90 for one in out for row in one.to_pylist())


@pytest.mark.skipif("MILLSTREAM_LARGE" not in os.environ, reason="8 GB and a minute: set MILLSTREAM_LARGE=1")
@pytest.mark.parametrize("order", ["eager", "strict"])
def test_more_than_two_gigabytes_of_a_column(tmp_path: Path, order: str) -> None:
    """Three batches of 1 GB each are state and are joined; a 40 KB text meets 60,000 rows."""
    streams = "CREATE STREAM A (k INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts');"
    streams += "CREATE STREAM B (k INT, v INT, Ts TIMESTAMP) WITH (time = 'Ts');"
    script = f"{streams} CREATE QUERY q AS SELECT A.s AS s, B.v AS v {EQUAL} WINDOW 1 HOUR;"
    count, bytes_ = 0, 0

    def sink(_: str, some: pa.RecordBatch) -> None:
        nonlocal count, bytes_
        some.validate(full=False)
        count += some.num_rows
        bytes_ += int(pa.compute.sum(pa.compute.binary_length(some.column("s"))).as_py())

    engine = Engine(compile_script(script), sink, order=order, directory=tmp_path)
    text = pa.array(["x" * 40_000])

    def batch(keys: np.ndarray, start: int) -> pa.Table:
        at = pa.array(np.arange(start, start + len(keys))).view(pa.timestamp("us", "UTC"))
        column = text.take(pa.array(np.zeros(len(keys), dtype=np.int64)))
        return pa.table({"k": pa.array(keys, pa.int32()), "s": column, "Ts": at})

    for number in range(3):
        engine.feed({"A": batch(np.arange(1, 25_001), 100_000 * number)})
    large = pa.concat_tables([batch(np.arange(1, 25_001), 300_000 + number) for number in range(3)])
    engine.feed({"A": large})
    engine.feed({"A": batch(np.zeros(1), 400_000)})
    keys = np.concatenate((np.zeros(60_000), np.arange(1, 101)))
    at = pa.array(np.full(len(keys), 500_000)).view(pa.timestamp("us", "UTC"))
    engine.feed({"B": pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array(keys, pa.int32()), "Ts": at})})
    engine.close()
    assert (count, bytes_) == (60_600, 60_600 * 40_000)
    assert all(one.bulk <= 2**30 for one in segments(engine, "A"))
