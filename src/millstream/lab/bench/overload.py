"""Too many rows on Spark: they come at three times the rate that can be joined, and the pipeline sheds keys or rows.

Files are moved into the source by the wall clock, which is event time too. First the service rate is measured, with a
backlog of files that all wait. Then each way to shed gets the same files at the same times: the overload, and after it
a third of the service rate. DuckDB counts what there would have been.
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
from pyspark.sql import SparkSession

from millstream.lab.show import bars, verdict
from millstream.pipeline import Pipeline
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session

STREAMS = ("A", "B")
WINDOWS = (1, 2, 4)
"""Seconds; rows match those of the other stream that are no farther away."""
MODES = ("shed_keys", "shed_rows")
_EVERY = 0.5
_PADS = np.array([f"{number:03}" * 40 for number in range(50)])


@dataclass(frozen=True, slots=True)
class Load:
    """`times` the service rate for `seconds`, then a third of it for `after` seconds. Rows may `wait` because of work
    before any are shed.
    """

    seconds: float = 60
    after: float = 24
    times: float = 3.0
    wait: float = 8.0
    probing: int = 400_000
    """Rows of each stream by which the service rate is measured."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: the rows of each query, how many of them are wrong, and what it told of itself."""

    rows: dict[str, int]
    told: dict[str, float]
    wrong: int
    shed: int
    responses: list[tuple[float, float]]
    """When rows were due, and how long it took until they were committed."""
    complete_at_end: bool

    def worst(self, start: float, end: float) -> float:
        return max((wait for due, wait in self.responses if start <= due < end), default=0.0)


def script(mode: str, wait: float) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, n BIGINT, pad STRING, Ts TIMESTAMP) WITH (time = 'Ts', delay = '1 second');\n"
        for name in STREAMS
    )
    queries = "".join(
        f"CREATE QUERY w{window} AS SELECT A.n AS a, B.n AS b, A.pad AS pad FROM A, B WHERE A.k = B.k"
        f" WINDOW {window} SECONDS;\n"
        for window in WINDOWS
    )
    return f"SET overload = '{mode}';\nSET overload_after = '{wait:g} seconds';\n{streams}{queries}"


def report(tell: Callable[[str], None], load: Load | None = None, place: Path | None = None) -> Iterator[str]:
    """The lines of `millstream bench overload`."""
    load = load or Load()
    spark = make_session("overload")
    yield f"windows {', '.join(map(str, WINDOWS))} s; rows come {load.times:g} times too fast for {load.seconds:g} s"
    yield f"rows may wait {load.wait:g} s because of work before any are shed"
    for matches, bar in ((1, 1.8), (40, 1.0)):
        with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
            work = Path(temporary)
            tell(f"{matches} matches a row: measuring the service rate")
            service = _service(work, spark, matches, load, tell)
            yield ""
            yield f"about {matches} matches a row; the service rate is {service:,.0f} rows/s a stream"
            feed = _Feed.write(work / "files", matches, service, load)
            tell("counting with DuckDB")
            whole = feed.counted()
            found = {mode: _run(work / mode, spark, feed, mode, load, tell) for mode in MODES}
            yield from _compared(found, whole, load, bar)


def _compared(found: dict[str, Outcome], whole: dict[str, int], load: Load, bar: float) -> Iterator[str]:
    for mode, one in found.items():
        shown = sum(one.rows.values()) / sum(whole.values())
        yield f"  {mode:<10} {100 * shown:5.1f} % of all results  {bars(shown, 1.0, 30)}"
        early, steady = one.worst(0, 20), one.worst(20, load.seconds)
        yield f"    longest response {early:.1f} s in the first 20 s, {steady:.1f} s after; {one.shed:,} rows shed"
        off = 0.0
        for query, rows in one.rows.items():
            true, told = rows / whole[query], one.told.get(query, 1.0)
            off = max(off, abs(true - told))
            yield f"    {query}: {100 * true:.1f} % there, told {100 * told:.1f} %"
        yield f"    told within 5 points: {100 * off:.1f}  {verdict(off <= 0.05)}"
        yield f"    response bounded ({2.5 * load.wait:g} s) once it sheds: {verdict(steady <= 2.5 * load.wait)}"
        yield f"    all rows that came out are right: {verdict(one.wrong == 0)}"
        yield f"    complete again after the overload: {verdict(one.complete_at_end)}"
    keys, rows = (sum(found[mode].rows.values()) for mode in MODES)
    yield f"  shedding keys keeps {keys / max(rows, 1):.2f} times the results of rows (bar {bar:g})  " + verdict(
        keys >= bar * rows * (1 if bar > 1 else 0.97)
    )


@dataclass(frozen=True, slots=True)
class _Feed:
    """Files with the times at which they are due, in seconds after the start."""

    folder: Path
    due: tuple[float, ...]

    @classmethod
    def write(cls, folder: Path, matches: float, service: float, load: Load) -> _Feed:
        steps = round((load.seconds + load.after) / _EVERY)
        rates = [service * (load.times if step * _EVERY < load.seconds else 1 / 3) for step in range(steps)]
        # At the rate of the overload each row has so many matches in the widest window.
        keys = max(round(service * load.times * 2 * WINDOWS[-1] / matches), 1)
        for seed, name in enumerate(STREAMS):
            _write_stream(folder / name, rates, keys, seed)
        return cls(folder, tuple(step * _EVERY for step in range(1, steps + 1)))

    def counted(self, since: float = 0.0) -> dict[str, int]:
        """The pairs of each query, of rows since so many seconds after the start."""
        later = f"epoch_us(Ts) >= {since * 1e6:.0f}"
        sides = [f"read_parquet('{self.folder}/{name}/*.parquet') {name} WHERE {later}" for name in STREAMS]
        apart = "abs(epoch_us(A.Ts) - epoch_us(B.Ts))"
        counts = ", ".join(f"count(*) FILTER ({apart} < {window * 1_000_000})" for window in WINDOWS)
        within = f"{apart} < {WINDOWS[-1] * 1_000_000}"
        # By seconds of time, so that few keys do not mean all pairs.
        second = "CAST(floor(epoch_us({0}.Ts) / {1}) AS BIGINT)"
        wide = WINDOWS[-1] * 1_000_000
        stretched = f"SELECT *, {second.format('A', wide)} AS s FROM {sides[0]}"
        left = f"(SELECT *, unnest([s - 1, s, s + 1]) AS near FROM ({stretched})) A"
        right = f"(SELECT *, {second.format('B', wide)} AS s FROM {sides[1]}) B"
        row = duckdb.execute(f"SELECT {counts} FROM {left} JOIN {right} ON A.k = B.k AND A.near = B.s AND {within}")
        return dict(zip((f"w{window}" for window in WINDOWS), map(int, row.fetchall()[0]), strict=True))

    def rows_until(self) -> list[int]:
        """How many rows of both streams there are up to each file."""
        names = sorted(path.name for path in (self.folder / STREAMS[0]).iterdir())
        counts = [sum(pq.read_metadata(self.folder / one / name).num_rows for one in STREAMS) for name in names]
        return [int(total) for total in np.cumsum(counts)]


def _write_stream(folder: Path, rates: list[float], keys: int, seed: int) -> None:
    folder.mkdir(parents=True)
    rng, number = np.random.default_rng(seed), 0
    for step, rate in enumerate(rates):
        count = round(rate * _EVERY)
        times = np.sort(rng.integers(0, round(_EVERY * 1e6), count)) + round(step * _EVERY * 1e6)
        columns = {
            "k": pa.array(rng.integers(0, keys, count)),
            "n": pa.array(np.arange(number, number + count)),
            "pad": pa.array(_PADS.take(rng.integers(0, len(_PADS), count))),
            "Ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
        number += count
        pq.write_table(pa.table(columns), folder / f"{step:06}.parquet")


def _service(work: Path, spark: SparkSession, matches: float, load: Load, tell: Callable[[str], None]) -> float:
    """Rows per second and stream, of files that are all there, after a first batch that warms Spark up."""
    files = 8
    rate = load.probing / files / _EVERY
    keys = max(round(rate * 2 * WINDOWS[-1] / matches), 1)
    for seed, name in enumerate(STREAMS):
        _write_stream(work / "probe" / name, [rate] * files, keys, seed)
    done: queue.Queue[BatchProgress] = queue.Queue()
    pipeline = _pipeline(work / "probe-state", spark, work / "probe", "later", load, done, {"maxFilesPerTrigger": "2"})
    batches: list[BatchProgress] = []
    pipeline.start()
    while sum(sum(one.rows_in.values()) for one in batches) < 2 * load.probing:
        batches.append(done.get(timeout=300))
        tell(f"service rate: batch {batches[-1].batch}, {batches[-1].seconds:.1f} s")
    pipeline.stop()
    later = [one for one in batches if one.rows_in][2:]
    return sum(sum(one.rows_in.values()) for one in later) / 2 / sum(one.seconds for one in later)


def _pipeline(
    state: Path,
    spark: SparkSession,
    files: Path,
    mode: str,
    load: Load,
    done: queue.Queue[BatchProgress],
    options: dict[str, str],
) -> Pipeline:
    pipeline = Pipeline("overload", state, script=script(mode, load.wait), spark=spark, on_batch=done.put)
    for name in STREAMS:
        (files / name).mkdir(parents=True, exist_ok=True)
        pipeline.read(name, "parquet", path=str(files / name), **options)
    return pipeline


def _run(work: Path, spark: SparkSession, feed: _Feed, mode: str, load: Load, tell: Callable[[str], None]) -> Outcome:
    done: queue.Queue[BatchProgress] = queue.Queue()
    source = work / "in"
    pipeline = _pipeline(work / "state", spark, source, mode, load, done, {})
    pipeline.start()
    began = time.time()
    feeder = threading.Thread(target=_move, args=(feed, source, began), daemon=True)
    feeder.start()
    until, due = feed.rows_until(), feed.due
    batches: list[BatchProgress] = []
    told: dict[str, float] = {}
    came = shed = 0
    responses: list[tuple[float, float]] = []
    at = 0
    while came < until[-1]:
        batches.append(done.get(timeout=300))
        one = batches[-1]
        came += sum(one.rows_in.values())
        shed += sum(one.shed.values())
        told = dict(one.completeness) or told
        while at < len(until) and until[at] <= came:
            responses.append((due[at], one.committed - began - due[at]))
            at += 1
        tell(f"{mode}: {until[-1] - came:,} rows to come, the last batch took {one.seconds:.1f} s")
    pipeline.stop()
    feeder.join()
    late = load.seconds + load.after * 2 / 3
    rows, wrong, at_end = {}, 0, {}
    for window in WINDOWS:
        tell(f"{mode}: judging w{window} with DuckDB")
        name = f"w{window}"
        rows[name], bad, at_end[name] = _judged(work / "state/results" / name, source, window, late)
        wrong += bad
    return Outcome(rows, told, wrong, shed, responses, at_end == feed.counted(late))


def _move(feed: _Feed, source: Path, began: float) -> None:
    """Makes files appear in the source when they are due."""
    for name, due in zip(sorted(path.name for path in (feed.folder / STREAMS[0]).iterdir()), feed.due, strict=True):
        time.sleep(max(0.0, began + due - time.time()))  # the schedule of the files
        for stream in STREAMS:
            (source / stream / name).hardlink_to(feed.folder / stream / name)


def _judged(results: Path, source: Path, window: int, late: float) -> tuple[int, int, int]:
    """The rows of a query, how many of them are no pair or come twice, and how many have both times after `late`."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW found AS SELECT a, b FROM '{results}/*.parquet'")
        for name in STREAMS:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{source}/{name}/*.parquet'")
        row = connection.execute(f"""
            WITH judged AS (
              SELECT A.k = B.k AND abs(epoch_us(A.Ts) - epoch_us(B.Ts)) < {window * 1_000_000} AS is_right,
                     least(epoch_us(A.Ts), epoch_us(B.Ts)) >= {late * 1e6:.0f} AS is_late
              FROM found JOIN A ON A.n = found.a JOIN B ON B.n = found.b)
            SELECT (SELECT count(*) FROM found), count(*) FILTER (is_right),
                   (SELECT count(*) FROM (SELECT DISTINCT a, b FROM found)), count(*) FILTER (is_right AND is_late)
            FROM judged""").fetchall()[0]
    rows, right, distinct, at_end = map(int, row)
    return rows, 2 * rows - right - distinct, at_end
