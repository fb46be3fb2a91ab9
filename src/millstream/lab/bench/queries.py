"""The cost of more queries: fifty against one, and a hundred that come and go while the pipeline runs."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

from millstream.lab.bench.peers import millstream
from millstream.lab.workloads.sensor_files import SensorFiles, answer
from millstream.lab.workloads.sensor_queries import select, streams_script, windows_script
from millstream.lab.workloads.windows import UNIFORM
from millstream.pipeline import Pipeline
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session

_WIDEST = UNIFORM[-1]
# The sum of two readings is normal with mean 60 and deviation 14.14: one in a thousand is above this.
_RARE = 103.7
Tell = Callable[[str], None]


def _silent(_: str) -> None:
    pass


def rare(number: int) -> str:
    """A condition that about one pair in a thousand passes, different for every query."""
    return f"T.Value + H.Value > {_RARE + number / 100:g}"


def fifty_script(count: int = 50) -> tuple[dict[int, float], str]:
    """The windows of so many queries in seconds, and the queries: q1, q2, ..., each with a rare condition."""
    windows = {number: _WIDEST * number / count for number in range(1, count + 1)}
    queries = (f"CREATE QUERY q{n} AS {select(window, rare(n))};\n" for n, window in windows.items())
    return windows, streams_script() + "".join(queries)


def fifty(
    seconds: int = 1_000,
    batches: int = 20,
    count: int = 50,
    rounds: int = 3,
    place: Path | None = None,
    tell: Tell = _silent,
) -> Iterator[str]:
    """Queries that differ in window and in a rare condition, against the widest of them alone, taking turns."""
    spark = make_session("fifty")
    windows, everything = fifty_script(count)
    scripts = {
        "one": streams_script() + f"CREATE QUERY q{count} AS {select(_WIDEST, rare(count))};\n",
        "all": everything,
    }
    taken: dict[str, list[float]] = {name: [] for name in scripts}
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        files = SensorFiles.write(Path(temporary) / "in", seconds, batches)
        small = SensorFiles.write(Path(temporary) / "warm", 20, 2)
        yield f"{files.rows():,} rows in {batches} batches; {count} windows up to {_WIDEST} s, a condition each"
        for turn in range(-1, rounds):
            for name, script in scripts.items():
                tell(f"{name}, round {turn + 1} of {rounds}")
                directory = Path(temporary) / f"{name}{turn}"
                ran = millstream(spark, script, small if turn < 0 else files, directory)
                if turn >= 0:
                    taken[name].append(ran.seconds)
        right = rare_answers(files, windows)
        given = {n: answer(directory / "results" / f"q{n}").rows for n in windows}
    one, many = (statistics.median(taken[name]) for name in scripts)
    yield f"  the widest alone  {one:6.1f} s   ({_range(taken['one'])}), {right[count]:,} rows"
    yield f"  all {count:<14} {many:6.1f} s   ({_range(taken['all'])}), {sum(right.values()):,} rows"
    yield f"  ratio of medians  {many / one:6.2f}     (goal 1.3 or less)"
    yield f"  every query gave as many rows as DuckDB: {'yes' if given == right else 'NO'}"


def rare_answers(files: SensorFiles, windows: dict[int, float]) -> dict[int, int]:
    """How many rows each query of `fifty_script` has."""
    counts = ", ".join(
        f"count(*) FILTER (apart < {round(window * 1e6)} AND total > {_RARE + n / 100:g})"
        for n, window in windows.items()
    )
    row = duckdb.execute(
        f"SELECT {counts} FROM (SELECT abs(epoch_us(T.Ts) - epoch_us(H.Ts)) AS apart, T.Value + H.Value AS total "
        f"FROM '{files.folder}/Temperature/*.parquet' T JOIN '{files.folder}/Humidity/*.parquet' H "
        f"ON T.LocationId = H.LocationId AND T.Value + H.Value > {_RARE})"
    ).fetchall()[0]
    return dict(zip(windows, row, strict=True))


def churn(
    seconds: int = 200,
    batches: int = 50,
    count: int = 100,
    place: Path | None = None,
    tell: Tell = _silent,
) -> Iterator[str]:
    """Adds and drops queries at every batch of a running pipeline, and checks the rows of those that stay and of those
    dropped.
    """
    spark = make_session("churn")
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        files = SensorFiles.write(Path(temporary) / "in", seconds, batches)
        run = _Churn(files, count, tell)
        script = "SET heartbeat = '1 hour';\n" + windows_script(UNIFORM)
        pipeline = Pipeline("churn", Path(temporary) / "state", script=script, spark=spark, on_batch=run.on_batch)
        files.read_by(pipeline)
        run.pipeline = pipeline
        began = time.perf_counter()
        with pipeline:
            while not run.over.wait(0.2):
                pipeline.wait(0)
        taken = time.perf_counter() - began
        results = Path(temporary) / "state" / "results"
        stayed = {size: answer(results / f"w{size}") for size in UNIFORM} == files.answers(UNIFORM)
        passing = {name: answer(results / name).rows for name in run.lived}
        expected = run.expected()
    spent = statistics.median(run.seconds[1:])
    yield f"{len(run.lived)} queries added and {run.dropped} dropped in {len(run.seconds)} batches, no restart"
    yield f"  {taken:.1f} s, median batch {spent:.2f} s with {run.rows:,} rows and {2 * run.each} changes"
    yield f"  the seven queries that stay gave the rows DuckDB gives: {'yes' if stayed else 'NO'}"
    right = "yes" if passing == expected else "NO"
    yield f"  those that came and went gave as many rows as DuckDB ({sum(expected.values()):,}): {right}"


class _Churn:
    """After every batch, adds some queries and drops those added before."""

    def __init__(self, files: SensorFiles, count: int, tell: Tell) -> None:
        self.files, self.count, self.tell = files, count, tell
        self.each = -(-count // (files.batches - 2))
        self.pipeline: Pipeline | None = None
        self.over = threading.Event()
        self.seconds: list[float] = []
        self.lived: dict[str, list[int]] = {}
        self.dropped = 0
        self.rows = 0

    def on_batch(self, progress: BatchProgress) -> None:
        self.seconds.append(progress.seconds)
        self.rows = max(self.rows, sum(progress.rows_in.values()))
        self.tell(f"batch {progress.batch} of {self.files.batches}")
        if progress.batch >= self.files.batches:
            self.over.set()
        elif self.pipeline is not None:
            self._change(self.pipeline, progress.batch)

    def _change(self, pipeline: Pipeline, batch: int) -> None:
        for name, life in self.lived.items():
            if len(life) == 1:
                pipeline.drop(name)
                life.append(batch)
                self.dropped += 1
        for number in range(len(self.lived), min(self.count, len(self.lived) + self.each)):
            pipeline.query(f"p{number}", select(self._window(number)))
            self.lived[f"p{number}"] = [batch]

    def _window(self, number: int) -> int:
        return 1 + number * 7 % 100

    def expected(self) -> dict[str, int]:
        """The rows of a query added after one batch and dropped after another: the pairs completed in between."""
        counts = ", ".join(
            f"count(*) FILTER (apart < {self._window(n) * 1_000_000} AND batch > {life[0]} AND batch <= {life[1]})"
            for n, life in enumerate(self.lived.values())
        )
        sides = ", ".join(
            f"(SELECT *, parse_filename(filename, true)::INT + 1 AS batch "
            f"FROM read_parquet('{self.files.folder}/{name}/*.parquet', filename = true)) {name[0]}"
            for name in ("Temperature", "Humidity")
        )
        row = duckdb.execute(
            f"SELECT {counts} FROM (SELECT abs(epoch_us(T.Ts) - epoch_us(H.Ts)) AS apart, "
            f"greatest(T.batch, H.batch) AS batch FROM {sides} WHERE T.LocationId = H.LocationId "
            "AND abs(epoch_us(T.Ts) - epoch_us(H.Ts)) < 101000000)"
        ).fetchall()[0]
        return dict(zip(self.lived, row, strict=True))


def _range(seconds: list[float]) -> str:
    return f"{min(seconds):.1f} to {max(seconds):.1f}"
