"""The windows of the *Uniform* row as native Spark joins and on Millstream: same files, same sinks, one run.

Every contestant reads the same Parquet files, one of each stream a batch, and writes a Parquet folder per query. They
run one after the other in one Spark application that has warmed up on a small run of each kind. Millstream runs first
and last, and ratios are to the mean of the two.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from millstream.lab.bench.native_joins import BOUND, BOUNDED, NativeJoins, Ran, settings
from millstream.lab.show import bars
from millstream.lab.workloads.sensor_files import SensorFiles, answer
from millstream.lab.workloads.sensor_queries import windows_script
from millstream.lab.workloads.stream_files import Answer, StreamFiles
from millstream.lab.workloads.windows import UNIFORM
from millstream.pipeline import Pipeline
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session

KINDS = ("separate", "filtered", "one")
MEMORY = "8g"
_GOALS = {
    ("separate", "memory"): "15 or more",
    ("separate", "rocksdb"): "40 or more",
    ("separate", BOUNDED): "20 or more",
    ("one", "memory"): "3 or more",
    ("one", "rocksdb"): "3 or more",
}


@dataclass(frozen=True, slots=True)
class Contest:
    """A contestant: peers have a state store and a kind, Millstream has neither."""

    kind: str = ""
    store: str = ""

    @property
    def label(self) -> str:
        names = {
            "": "Millstream, all windows",
            "separate": "a native join per window",
            "filtered": "one native join, a filter per window",
            "one": "one native join, the widest alone",
        }
        return f"{names[self.kind]}, {self.store}" if self.store else names[self.kind]


@dataclass(slots=True)
class Outcome:
    """A contestant's runs, and whether each query's rows were correct."""

    runs: list[Ran] = field(default_factory=list)
    right: bool = True

    @property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.runs) / len(self.runs)


def report(
    seconds: int = 1_000,
    batches: int = 20,
    stores: Sequence[str] = ("memory", "rocksdb"),
    skip: Sequence[str] = (),
    place: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
    windows: Sequence[int] = UNIFORM,
) -> Iterator[str]:
    """The table of `millstream bench peers`; beside a store with a bound, Millstream has the same memory for state."""
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        yield from _Peers(Path(temporary), seconds, batches, stores, skip, tell, windows).report()


class _Peers:
    def __init__(
        self,
        place: Path,
        seconds: int,
        batches: int,
        stores: Sequence[str],
        skip: Sequence[str],
        tell: Callable[[str], None],
        windows: Sequence[int],
    ) -> None:
        self.place, self.tell, self.stores, self.windows = place, tell, stores, windows
        self.kinds = [kind for kind in KINDS if kind not in skip]
        self.files = SensorFiles.write(place / "in", seconds, batches)
        self.small = SensorFiles.write(place / "warm", 20, 2)
        self.spark = make_session("peers", options={"spark.driver.memory": MEMORY})

    def report(self) -> Iterator[str]:
        contests = [Contest(kind, store) for store in self.stores for kind in self.kinds]
        yield from self._settings()
        answers = self.files.answers(self.windows)
        yield f"right answer, by DuckDB: {sum(one.rows for one in answers.values()):,} rows of eight columns in all"
        for contest in (Contest(), *contests):
            self.tell(f"warming up: {contest.label}")
            self._run(contest, self.small)
        found: dict[Contest, Outcome] = {}
        for contest in (Contest(), *contests, Contest()):
            outcome = found.setdefault(contest, Outcome())
            outcome.runs.append(self._run(contest, self.files))
            outcome.right &= self._is_right(contest, answers)
            ran = outcome.runs[-1]
            yield (
                f"  {contest.label}: {ran.seconds:.1f} s, {ran.batches} batches, "
                f"{'the right rows' if outcome.right else 'WRONG ROWS'}"
            )
        yield ""
        yield from _table(found)

    def _settings(self) -> Iterator[str]:
        cores = self.spark.sparkContext.defaultParallelism
        yield (
            f"{self.files.rows():,} rows of two streams in {self.files.batches} batches, 20,000 keys, "
            f"1,000 rows/s each, windows {', '.join(map(str, self.windows))} s"
        )
        if BOUNDED in self.stores:
            yield f"Millstream with SET memory = '{BOUND} MB'"
        yield f"Spark {self.spark.version}, local[{cores}], driver memory {MEMORY}; the peers' settings:"
        shown: set[str] = set()
        for store in self.stores:
            for key, value in settings(store, cores).items():
                line = f"  {key.removeprefix('spark.sql.')} = {value.rsplit('.', 1)[-1]}"
                if line not in shown:
                    shown.add(line)
                    yield line

    def _run(self, contest: Contest, files: SensorFiles) -> Ran:
        out = self.place / "out"
        shutil.rmtree(out, ignore_errors=True)
        gc.collect()
        jvm = self.spark.sparkContext._jvm
        if jvm is not None:
            jvm.System.gc()

        def tell(text: str) -> None:
            self.tell(f"{contest.label}: {text}")

        if not contest.kind:
            limit = f"SET memory = '{BOUND} MB';\n" if BOUNDED in self.stores else ""
            return millstream(self.spark, limit + windows_script(self.windows), files, out, tell)
        peers = NativeJoins.beside(self.spark, files, out, contest.store)
        if contest.kind == "filtered":
            return peers.filtered(self.windows, tell)
        return peers.separate(self.windows if contest.kind == "separate" else self.windows[-1:], tell)

    def _is_right(self, contest: Contest, answers: Mapping[int, Answer]) -> bool:
        self.tell(f"{contest.label}: checking its rows")
        results = self.place / "out" / "results"
        windows = self.windows[-1:] if contest.kind == "one" else self.windows
        name = "query=w{}" if contest.kind else "w{}"
        return all(answer(results / name.format(size)) == answers[size] for size in windows)


def millstream(
    spark: SparkSession, script: str, files: StreamFiles, place: Path, tell: Callable[[str], None] = lambda _: None
) -> Ran:
    """Runs all queries of a script, shared, until all files are read."""
    seconds, seen = drained(spark, script, files, place, tell)
    return Ran(
        seconds,
        sum(1 for progress in seen if sum(progress.rows_in.values())),
        max(progress.state_rows for progress in seen),
        max(progress.state_bytes for progress in seen),
    )


def drained(
    spark: SparkSession, script: str, files: StreamFiles, place: Path, tell: Callable[[str], None] = lambda _: None
) -> tuple[float, list[BatchProgress]]:
    """The seconds until all files are read and all is written, and every batch."""
    seen: list[BatchProgress] = []
    began = time.perf_counter()

    def on_batch(progress: BatchProgress) -> None:
        seen.append(progress)
        tell(f"{len(seen)} of {files.batches} batches, {time.perf_counter() - began:.0f} s")

    pipeline = Pipeline("lab", place, script=script, spark=spark, on_batch=on_batch)
    files.read_by(pipeline)
    pipeline.drain()
    return time.perf_counter() - began, seen


def _table(found: Mapping[Contest, Outcome]) -> Iterator[str]:
    ours = found[Contest()]
    most = max(outcome.seconds for outcome in found.values())
    bytes_of_ours = max(run.state_bytes for run in ours.runs)
    yield f"{'':46} {'seconds':>8} {'to ours':>8}  {'state rows':>11} {'state MB':>9} {'to ours':>8}  rows"
    for contest, outcome in found.items():
        ran = max(outcome.runs, key=lambda run: run.state_bytes)
        held = ran.state_bytes + ran.disk_bytes
        rows = f"{ran.state_rows:,}" if ran.state_rows else "-"
        yield (
            f"{contest.label:46} {outcome.seconds:>8.1f} {outcome.seconds / ours.seconds:>7.1f}x  {rows:>11} "
            f"{held / 1e6:>9.1f} {held / bytes_of_ours:>7.1f}x  {'right' if outcome.right else 'WRONG'}"
        )
    yield ""
    for contest, outcome in found.items():
        wanted = _GOALS.get((contest.kind, contest.store))
        goal = f" (goal {wanted})" if wanted else ""
        yield f"{contest.label:46} {bars(outcome.seconds, most) or '█'} {outcome.seconds / ours.seconds:.1f}x{goal}"
    low, high = (pick(run.seconds for run in ours.runs) for pick in (min, max))
    yield ""
    yield f"Millstream's two runs took {low:.1f} and {high:.1f} s. RocksDB: memory and files together."
    seven = found.get(Contest("separate", "memory"))
    if seven:
        share = bytes_of_ours / max(run.state_bytes for run in seven.runs)
        yield f"Millstream's state is 1/{1 / share:.0f} of that of the separate joins in memory (goal 1/20 or less)."
