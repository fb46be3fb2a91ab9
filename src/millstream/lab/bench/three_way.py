"""`millstream bench three-way`: pairs and triples of three streams on Millstream, as native Spark joins, and in DuckDB.

Every contestant on Spark reads the same Parquet files, one of each stream a batch, and writes a Parquet folder per
query, one after the other in one application that has warmed up on a small run of each kind. DuckDB reads the same
files once and writes Parquet. Two questions are asked of Millstream alone: what it takes for the widest query of three
streams, and what that query adds to the queries of two.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from millstream.lab.bench.native_multiway import NativeMultiway
from millstream.lab.bench.peers import MEMORY, drained
from millstream.lab.show import bars, verdict
from millstream.lab.workloads.stream_files import Answer, StreamFiles, answers_in, answers_to, duckdb_selects
from millstream.lab.workloads.window_joins import Readings, WindowJoin
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session

TWO = (WindowJoin("AB", 10), WindowJoin("BC", 60), WindowJoin("AC", 300))
THREE = (WindowJoin("ABC", 10), WindowJoin("ABC", 60), WindowJoin("ABC", 300))
WIDEST = THREE[-1]
RATE, KEYS = 200, 20_000
"""At this rate three rows of a key come in 300 s on each stream, so a row has about six partners in each of the others
within 300 s, and is in about 27 triples: with 300,000 rows a stream these are some millions.
"""
_FASTER, _DUCKDB, _ADDED = 15, 3, 1.5


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds in all, those its slots spent writing (the slower one of each batch), and whether the rows were right."""

    seconds: float
    writing: float
    right: bool


def report(
    rows: int = 300_000,
    batches: int = 20,
    rounds: int = 3,
    *,
    native: bool = True,
    place: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """The table of the command; `rows` are those of each stream."""
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        yield from _ThreeWay(Path(temporary), Readings(streams="ABC", rows=rows, rate=RATE, keys=KEYS), batches, tell)(
            rounds, native=native
        )


class _ThreeWay:
    def __init__(self, place: Path, readings: Readings, batches: int, tell: Callable[[str], None]) -> None:
        self.place, self.readings, self.tell = place, readings, tell
        self.files = readings.write(place / "in", batches)
        small = Readings(streams=readings.streams, rows=4_000, rate=readings.rate, keys=readings.keys // 10)
        self.small = small.write(place / "warm", 2)
        self.spark = make_session("three-way", options={"spark.driver.memory": MEMORY})
        self.answers: dict[str, Answer] = {}

    def __call__(self, rounds: int, *, native: bool) -> Iterator[str]:
        every = (*TWO, *THREE)
        self.answers = answers_to(self.files, self.readings.script(every))
        yield (
            f"{self.files.rows():,} rows of three streams in {self.files.batches} batches, {KEYS:,} keys, "
            f"{RATE} rows/s each of event time"
        )
        counts = ", ".join(f"{name} {answer.rows:,}" for name, answer in self.answers.items())
        yield f"rows of each query (streams and seconds), by DuckDB: {counts}"
        for joins in (every, [WIDEST], TWO, (*TWO, WIDEST)):
            self.millstream(joins, self.small)
        ours = [self.millstream(every)]
        if native:
            self.native(every, self.small)
            theirs = self.native(every)
            ours.append(self.millstream(every))
            yield ""
            yield from _faster(ours, theirs)
        yield ""
        yield from self.alone(rounds)

    def alone(self, rounds: int) -> Iterator[str]:
        """What the widest query takes by itself, and beside the queries of two; all take turns."""
        runs: dict[str, list[Run]] = {name: [] for name in ("duckdb", "widest", "two", "both")}
        for _ in range(rounds):
            runs["duckdb"].append(self.duckdb())
            runs["widest"].append(self.millstream([WIDEST]))
            runs["two"].append(self.millstream(TWO))
            runs["both"].append(self.millstream((*TWO, WIDEST)))
        duck, widest, two, both = (statistics.median(one.seconds for one in runs[name]) for name in runs)
        written, before = (statistics.median(one.writing for one in runs[name]) for name in ("both", "two"))
        own = max(0.0, written - before)
        most = max(duck, widest, two, both)
        yield f"medians of {rounds} turns, s"
        for name, seconds in (
            (f"DuckDB, {WIDEST.name} once, Parquet in and out", duck),
            (f"Millstream, {WIDEST.name} alone", widest),
            ("Millstream, the queries of two streams", two),
            (f"Millstream, these and {WIDEST.name}", both),
        ):
            yield f"  {name:44}{seconds:>7.2f}  {bars(seconds, most)}"
        limit = _ADDED * two + own
        yield (
            f"  {WIDEST.name} has {self.answers[WIDEST.name].rows:,} rows; slots wrote for {written:.2f} s with it and "
            f"{before:.2f} s without it, so its own rows cost {own:.2f} s"
        )
        yield f"at most {_DUCKDB} times DuckDB's time: {widest / duck:.2f}  {verdict(widest <= _DUCKDB * duck)}"
        yield (
            f"with it at most {_ADDED} times the queries of two and the cost of its own rows: "
            f"{both:.2f} of {limit:.2f} s  {verdict(both <= limit)}"
        )
        right = all(one.right for some in runs.values() for one in some)
        yield f"all gave the rows DuckDB gives: {verdict(right)}"

    def millstream(self, joins: Sequence[WindowJoin], files: StreamFiles | None = None) -> Run:
        script, label = self.readings.script(joins), ", ".join(join.name for join in joins)
        seconds, seen = drained(
            self.spark, script, files or self.files, self._out(), lambda t: self.tell(f"{label}: {t}")
        )
        return Run(
            seconds, writing(seen), files is not None or self._is_right(joins, answers_in(self._results, script))
        )

    def native(self, joins: Sequence[WindowJoin], files: StreamFiles | None = None) -> Run:
        queries = NativeMultiway.beside(self.spark, files or self.files)
        ran = queries.run(joins, self._out(), lambda text: self.tell(f"native joins: {text}"))
        right = files is not None or self._is_right(joins, answers_in(self._results, self.readings.script(joins)))
        return Run(ran.seconds, 0.0, right)

    def duckdb(self) -> Run:
        """The widest query once, on as many threads as Spark has, into a Parquet file with the same codec."""
        self.tell("DuckDB")
        script = self.readings.script([WIDEST])
        ((query, select),) = duckdb_selects(script).items()
        (self._out() / "results" / query.name).mkdir(parents=True)
        target = self._results / query.name / "1.parquet"
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {self.spark.sparkContext.defaultParallelism}; SET TimeZone = 'UTC'")
            connection.execute(self.files.views())
            began = time.perf_counter()
            connection.execute(f"COPY ({select}) TO '{target}' (FORMAT parquet, COMPRESSION lz4_raw)")
            seconds = time.perf_counter() - began
        return Run(seconds, 0.0, self._is_right([WIDEST], answers_in(self._results, script)))

    def _is_right(self, joins: Sequence[WindowJoin], found: dict[str, Answer]) -> bool:
        return found == {join.name: self.answers[join.name] for join in joins}

    @property
    def _results(self) -> Path:
        return self.place / "out" / "results"

    def _out(self) -> Path:
        """An empty place for results; garbage of the last contestant should not cost the next one time."""
        shutil.rmtree(self.place / "out", ignore_errors=True)
        gc.collect()
        jvm = self.spark.sparkContext._jvm
        if jvm is not None:
            jvm.System.gc()
        return self.place / "out"


def writing(seen: Sequence[BatchProgress]) -> float:
    """The seconds in which the slowest slot of each batch wrote results and new segments."""
    return sum(progress.split["write"] for progress in seen)


def _faster(ours: Sequence[Run], theirs: Run) -> Iterator[str]:
    mean = statistics.mean(run.seconds for run in ours)
    ratio = theirs.seconds / mean
    shown = " and ".join(f"{run.seconds:.1f}" for run in ours)
    yield f"six queries, warm: Millstream first and last, {shown} s"
    for name, seconds in (("Millstream, all queries", mean), ("a native Spark query for each", theirs.seconds)):
        yield f"  {name:32}{seconds:>8.1f} s{seconds / mean:>8.1f}x  {bars(seconds, theirs.seconds) or '█'}"
    yield f"at least {_FASTER} times faster: {ratio:.1f}  {verdict(ratio >= _FASTER)}"
    yield f"all gave the rows DuckDB gives: {verdict(theirs.right and all(run.right for run in ours))}"
