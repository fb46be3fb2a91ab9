"""A tenfold burst on Spark: how long the smallest window waits under each policy while work is deferred.

Files are written by the wall clock, and event time runs ten times as fast. Ten minutes of state are loaded first. A
slot works a short time in each batch and defers the rest. Both policies get the same files at the same times.
"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from millstream.lab.show import bars, verdict
from millstream.lab.workloads.windows import TABLE_1
from millstream.pipeline import Pipeline
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session

WINDOWS = TABLE_1["Small-Large"]
STREAMS = ("A", "B")
POLICIES = ("lwo", "greedy")
_SPEED = 10
_EVERY = 0.5
_BUDGET = "100 milliseconds"


@dataclass(frozen=True, slots=True)
class Load:
    """Rows per second and stream by the wall clock; the burst is `times` as much."""

    rate: int = 2_000
    keys: int = 320
    before: float = 8
    burst: float = 30
    after: float = 12
    times: int = 10

    def tables(self, seed: int) -> list[pa.Table]:
        """First ten minutes of event time at the normal rate, then a file for every half second."""
        rng, number = np.random.default_rng(seed), 0
        start = float(max(WINDOWS))
        spans = [(0.0, start, self.rate * start / _SPEED)]
        for step in range(round((self.before + self.burst + self.after) / _EVERY)):
            second = step * _EVERY
            bursting = self.before <= second < self.before + self.burst
            rows = self.rate * _EVERY * (self.times if bursting else 1)
            spans.append((start + second * _SPEED, start + (second + _EVERY) * _SPEED, rows))
        found = []
        for first, last, rows in spans:
            times = np.sort(rng.uniform(first, last, round(rows)) * 1e6).astype(np.int64)
            columns = {
                "k": pa.array(rng.integers(0, self.keys, len(times)), pa.int32()),
                "n": pa.array(np.arange(number, number + len(times))),
                "Ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
            number += len(times)
            found.append(pa.table(columns))
        return found


@dataclass(frozen=True, slots=True)
class Run:
    """One policy: seconds from the first file until nothing waits, and each batch with the time it was committed."""

    seconds: float
    batches: list[BatchProgress]
    rows: dict[str, int]

    def response(self, query: str, share: float) -> float:
        """Over all rows of a query; each row of a batch counts with the batch's 99th percentile."""
        waits = sorted((b.queries[query].p99, b.queries[query].rows) for b in self.batches if query in b.queries)
        counts = np.cumsum([rows for _, rows in waits])
        return float(waits[int(np.searchsorted(counts, share * counts[-1]))][0])


def script(policy: str) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (k INT, n BIGINT, Ts TIMESTAMP) WITH (time = 'Ts', delay = '30 seconds');\n"
        for name in STREAMS
    )
    queries = "".join(
        f"CREATE QUERY w{window} AS SELECT A.n AS a, B.n AS b FROM A, B WHERE A.k = B.k WINDOW {window} SECONDS;\n"
        for window in WINDOWS
    )
    return f"{streams}SET policy = '{policy}';\nSET budget = '{_BUDGET}';\nSET slicing = 'memory';\n{queries}"


def report(tell: Callable[[str], None], load: Load | None = None) -> Iterator[str]:
    """Each policy in turn, and what the papers predict for it."""
    load = load or Load()
    tables = {name: load.tables(seed) for seed, name in enumerate(STREAMS)}
    yield f"windows {', '.join(map(str, WINDOWS))} s"
    yield f"{load.rate:,} rows/s a stream by the clock, {load.times} times as many for {load.burst:g} s"
    yield f"a slot works {_BUDGET} in a batch; response from the arrival of a file to the commit of the rows"
    short = {name: parts[:3] for name, parts in tables.items()}
    for policy in POLICIES:  # a warm-up, because Java is slow at first
        _run(policy, short, tell)
    runs = {policy: _run(policy, tables, tell) for policy in POLICIES}
    tell("counting pairs with DuckDB")
    expected = _counted(tables)
    yield ""
    yield f"{'p99 response, s':<18}{'LWO':>9}{'Greedy':>9}{'ratio':>8}"
    greatest = max(runs["lwo"].response(f"w{window}", 0.99) for window in WINDOWS)
    for window in WINDOWS:
        one, other = (runs[policy].response(f"w{window}", 0.99) for policy in POLICIES)
        yield f"{f'window {window} s':<18}{one:>9.2f}{other:>9.2f}{other / one:>8.2f}  {bars(other, greatest, 30)}"
    lwo, greedy = runs["lwo"], runs["greedy"]
    ratio = greedy.response("w1", 0.99) / lwo.response("w1", 0.99)
    total = greedy.seconds / lwo.seconds
    right = all(run.rows == expected for run in runs.values())
    yield ""
    yield f"seconds until nothing waits: LWO {lwo.seconds:.1f}, Greedy {greedy.seconds:.1f}, ratio {total:.2f}"
    yield f"the smallest window's p99 at most a fifth of LWO's: {ratio:.2f}  {verdict(ratio <= 0.2)}"
    yield f"total time at most 10 % longer: {total:.2f}  {verdict(total <= 1.1)}"
    yield f"the same pairs as DuckDB ({sum(expected.values()):,} in all): {verdict(right)}"


def _run(policy: str, tables: dict[str, list[pa.Table]], tell: Callable[[str], None]) -> Run:
    done: queue.Queue[BatchProgress] = queue.Queue()
    with tempfile.TemporaryDirectory(prefix="millstream-") as temporary:
        place = Path(temporary)
        pipeline = Pipeline(
            "burst", place / "state", script=script(policy), spark=make_session("burst"), on_batch=done.put
        )
        for name in STREAMS:
            (place / name).mkdir()
            pipeline.read(name, "parquet", path=str(place / name))
        _put(place, tables, 0)
        pipeline.start()
        first = until_done(done, sum(len(parts[0]) for parts in tables.values()), policy, tell)
        feeder = threading.Thread(target=_feed, args=(place, tables), daemon=True)
        began = time.monotonic()
        feeder.start()
        rest = until_done(done, sum(len(p) for parts in tables.values() for p in parts[1:]), policy, tell)
        seconds = time.monotonic() - began
        pipeline.stop()
    rows = dict.fromkeys((f"w{window}" for window in WINDOWS), 0)
    for batch in (*first, *rest):
        for query, response in batch.queries.items():
            rows[query] += response.rows
    return Run(seconds, rest, rows)


def until_done(
    done: queue.Queue[BatchProgress], waiting: int, policy: str, tell: Callable[[str], None]
) -> list[BatchProgress]:
    """The batches until `waiting` rows are in and no work is deferred."""
    batches: list[BatchProgress] = []
    while waiting > 0 or batches[-1].deferred:
        batches.append(done.get(timeout=300))
        waiting -= sum(batches[-1].rows_in.values())
        tell(f"{policy}: {waiting:,} rows to come, {batches[-1].deferred:,} units deferred")
    return batches


def _feed(place: Path, tables: dict[str, list[pa.Table]]) -> None:
    began = time.monotonic()
    for number in range(1, len(tables[STREAMS[0]])):
        time.sleep(max(0.0, began + number * _EVERY - time.monotonic()))  # the schedule of the files
        _put(place, tables, number)


def _put(place: Path, tables: dict[str, list[pa.Table]], number: int) -> None:
    for name in STREAMS:
        staged = place / name / f".{number}"
        pq.write_table(tables[name][number], staged)
        staged.rename(place / name / f"{number:06}.parquet")


def _counted(tables: dict[str, list[pa.Table]]) -> dict[str, int]:
    connection = duckdb.connect()
    for name in STREAMS:
        connection.register(name, pa.concat_tables(tables[name]))
    apart = "abs(epoch_us(A.Ts) - epoch_us(B.Ts))"
    counts = ", ".join(f"count(*) FILTER ({apart} < {window * 1_000_000})" for window in WINDOWS)
    row = connection.execute(f"SELECT {counts} FROM A JOIN B ON A.k = B.k").fetchall()[0]
    return {f"w{window}": int(count) for window, count in zip(WINDOWS, row, strict=True)}
