"""`millstream bench rescale`: other numbers of slots while fifty queries run, beside what a Spark user must do.

The number of partitions of a stateful Spark query is fixed by its checkpoint. To change it one stops the query, starts
it with a new checkpoint and reads all rows again that its state was made of; until then there are no new results. That
is measured here on one native join, the widest of the fifty alone.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from millstream.lab.bench.native_joins import NativeJoins
from millstream.lab.bench.queries import fifty_script, rare, rare_answers
from millstream.lab.show import bars, verdict
from millstream.lab.workloads.sensor_files import SensorFiles, answer
from millstream.lab.workloads.windows import UNIFORM
from millstream.pipeline import Pipeline
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session

SLOTS = (2, 6, 3)
_SLOW = 2.0
Tell = Callable[[str], None]


def report(
    seconds: int = 600,
    batches: int = 30,
    count: int = 50,
    place: Path | None = None,
    tell: Tell = lambda _: None,
    *,
    native: bool = True,
) -> Iterator[str]:
    """The table of the command."""
    spark = make_session("rescale")
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        files = SensorFiles.write(Path(temporary) / "in", seconds, batches)
        yield f"{files.rows():,} rows in {batches} batches, {count} queries; slots {' to '.join(map(str, SLOTS))}"
        run = _rescaled(spark, files, count, Path(temporary) / "state", tell)
        yield from _shown(run)
        right = rare_answers(files, run.windows)
        given = {number: answer(Path(temporary) / "state" / "results" / f"q{number}").rows for number in run.windows}
        claim = f"every query gave as many rows as DuckDB ({sum(right.values()):,}), no restart"
        yield f"  {claim}: {verdict(given == right)}"
        if native:
            yield from _native(spark, files, Path(temporary) / "native", run, tell)


@dataclass(slots=True)
class _Run:
    """The batches of a run, and those after which another number of slots was requested."""

    windows: dict[int, float]
    batches: int
    seen: list[BatchProgress] = field(default_factory=list)
    asked: dict[int, int] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def changed(self) -> list[BatchProgress]:
        """The batches in which groups moved."""
        return [one for one in self.seen if one.adaptation]

    def usual(self) -> float:
        """The median batch, without the first and those around a change."""
        near = {one.batch + after for one in self.changed() for after in (0, 1)}
        return statistics.median(one.seconds for one in self.seen[1:] if one.batch not in near)

    def after(self, batch: int) -> float:
        return next((one.seconds for one in self.seen if one.batch == batch + 1), 0.0)


def _rescaled(spark: SparkSession, files: SensorFiles, count: int, place: Path, tell: Tell) -> _Run:
    windows, script = fifty_script(count)
    run = _Run(windows, files.batches)
    steps = {files.batches * number // len(SLOTS): slots for number, slots in enumerate(SLOTS) if number}

    def on_batch(progress: BatchProgress) -> None:
        run.seen.append(progress)
        tell(f"batch {progress.batch} of {files.batches}")
        if progress.batch in steps:
            pipeline.rescale(steps[progress.batch])
            run.asked[progress.batch] = steps[progress.batch]
        if progress.batch >= files.batches:
            run.over.set()

    text = f"SET slots = {SLOTS[0]};\nSET heartbeat = '1 hour';\n{script}"
    pipeline = Pipeline("rescale", place, script=text, spark=spark, on_batch=on_batch)
    files.read_by(pipeline)
    with pipeline:
        while not run.over.wait(0.2):
            pipeline.wait(0)
    return run


def _shown(run: _Run) -> Iterator[str]:
    usual = run.usual()
    yield f"  a usual batch takes {usual:.2f} s"
    for one in run.changed():
        following = run.after(one.batch)
        yield f"  batch {one.batch:>3}: {one.seconds:5.2f} s, the next {following:5.2f} s   {one.adaptation}"
    slow = [one for one in run.seen[1:] if one.seconds > _SLOW * usual]
    most = 0
    for one in run.changed():
        most = max(most, sum(slower.batch in (one.batch, one.batch + 1) for slower in slow))
    yield (
        f"  at most one batch of over {_SLOW:g} times the usual time for each change: "
        f"{most} at the most  {verdict(len(run.changed()) == len(SLOTS) - 1 and most <= 1)}"
    )


def _native(spark: SparkSession, files: SensorFiles, place: Path, run: _Run, tell: Tell) -> Iterator[str]:
    """Half of the files are read, then the query is stopped, and started anew with other partitions."""
    half = SensorFiles.at(place / "in", files.batches // 2)
    for stream in files.streams:
        (half.folder / stream).mkdir(parents=True)
        for path in sorted(Path(files.path(stream)).glob("*.parquet"))[: half.batches]:
            shutil.copyfile(path, half.folder / stream / path.name)
    also = rare(len(run.windows)).replace("T.", "T_").replace("H.", "H_")
    joins = replace(NativeJoins.beside(spark, half, place / "first", "rocksdb"), also=also)
    joins.spark.conf.set("spark.sql.shuffle.partitions", str(SLOTS[0]))
    first = joins.separate([UNIFORM[-1]], lambda text: tell(f"native join: {text}"))
    joins.spark.conf.set("spark.sql.shuffle.partitions", str(SLOTS[1]))
    began = time.perf_counter()
    again = replace(joins, place=place / "again")
    ran = again.separate([UNIFORM[-1]], lambda text: tell(f"native join, all rows again: {text}"))
    pause = time.perf_counter() - began
    ours = max(max(one.seconds + run.after(one.batch) for one in run.changed()) - 2 * run.usual(), 0.0)
    yield ""
    yield "what a change costs: how much later results come"
    most = max(pause, ours)
    yield f"  Millstream, {len(run.windows)} queries            {ours:7.2f} s  {bars(ours, most, 30)}"
    yield f"  one native Spark join, RocksDB    {pause:7.2f} s  {bars(pause, most, 30)}"
    yield (
        f"  (a new checkpoint with {SLOTS[1]} partitions and {ran.batches} batches read again; the first time they "
        f"took {first.seconds:.1f} s. Its results of these batches are written a second time.)"
    )
