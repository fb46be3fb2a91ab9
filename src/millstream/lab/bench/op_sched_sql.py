"""`millstream bench op-sched-sql`: op-sched's sixteen queries over five streams on Spark, under each policy.

The example's script reads files of a second of event time each, which come at equal times by the clock. A slot works a
short time in each batch. So in a burst work is deferred, the policy says whose comes first, and afterwards it is caught
up. Every policy gets the same files at the same times and the same budget; a run without a budget comes first.
"""

from __future__ import annotations

import queue
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from millstream.engine.files import Files
from millstream.lab.bench.burst import until_done
from millstream.lab.show import bars, verdict
from millstream.lab.workloads.op_sched_streams import SCRIPT, OpSchedStreams
from millstream.lab.workloads.stream_files import Answer, StreamFiles, answers_in, answers_to
from millstream.pipeline import Pipeline
from millstream.pipeline.manifest import Manifest, latest
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session

POLICIES = ("fifo", "greedy", "chain", "path_capacity", "segment", "simplified_segment", "threshold")
_WIDTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Seconds until nothing waited, every batch with the bytes that waited after it, and each query's answer."""

    seconds: float
    batches: Sequence[BatchProgress]
    waiting: Sequence[int]
    answers: Mapping[str, Answer]

    def mean_response(self) -> float:
        """Over all rows of all queries; each row of a batch counts with the batch's median for its query."""
        waits = [one for batch in self.batches for one in batch.queries.values()]
        return sum(one.median * one.rows for one in waits) / max(sum(one.rows for one in waits), 1)

    def response(self, share: float) -> float:
        """A quantile over all rows; each row of a batch counts with the batch's 99th percentile for its query."""
        waits = sorted((one.p99, one.rows) for batch in self.batches for one in batch.queries.values())
        counts = np.cumsum([rows for _, rows in waits])
        return float(waits[int(np.searchsorted(counts, share * counts[-1]))][0]) if waits else 0.0


def report(
    rate: float = 8_000,
    seconds: int = 60,
    *,
    every: float = 0.5,
    budget: float = 50,
    policies: Sequence[str] = POLICIES,
    place: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """The table of the command; a file of each stream comes `every` seconds, and `budget` is in milliseconds."""
    spark = make_session("op-sched-sql")
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        files = StreamFiles.save(
            Path(temporary) / "in", SCRIPT, OpSchedStreams(rate=rate, seconds=seconds).batches(seconds)
        )
        yield (
            f"{files.rows():,} rows of five self-similar streams, a second of event time in each of {seconds} files; "
            "sixteen queries"
        )
        tell("DuckDB")
        expected = answers_to(files, SCRIPT)
        yield f"rows of all queries, by DuckDB: {sum(answer.rows for answer in expected.values()):,}"
        scene = _Scene(spark, files, tell)
        yield f"a file of each stream every {every:g} s by the clock; a slot works {budget:g} ms in a batch"
        scene.run(Path(temporary) / "warm", {})  # Java is slow at first
        runs = {"no budget": scene.run(Path(temporary) / "unbounded", {}, every)}
        for policy in policies:
            chosen = {"policy": policy, "budget": f"{budget:g} milliseconds"}
            runs[policy] = scene.run(Path(temporary) / policy, chosen, every)
    yield ""
    yield from table(runs, expected)
    yield ""
    right = all(run.answers == expected for run in runs.values())
    yield f"every policy gave the rows DuckDB gives: {verdict(right)}"


def table(runs: Mapping[str, Run], expected: Mapping[str, Answer]) -> Iterator[str]:
    """Response from the arrival of a batch to the commit of a row; queue memory after each batch."""
    yield (
        f"{'':20}{'response, s':>12}{'p99':>8}  {'':{_WIDTH}}{'queue MB, most':>16}{'mean':>8}  {'':{_WIDTH}}"
        f"{'seconds':>8}  rows"
    )
    slowest = max(run.mean_response() for run in runs.values())
    fullest = max(max(run.waiting) for run in runs.values())
    for name, run in runs.items():
        mean, most = run.mean_response(), max(run.waiting)
        yield (
            f"{name:20}{mean:>12.2f}{run.response(0.99):>8.2f}  {bars(mean, slowest, _WIDTH):{_WIDTH}}"
            f"{most / 1e6:>16.2f}{statistics.mean(run.waiting) / 1e6:>8.2f}  {bars(most, fullest, _WIDTH):{_WIDTH}}"
            f"{run.seconds:>8.1f}  {'right' if run.answers == expected else 'WRONG'}"
        )


@dataclass(frozen=True, slots=True)
class _Scene:
    spark: SparkSession
    files: StreamFiles
    tell: Callable[[str], None]

    def run(self, place: Path, settings: Mapping[str, str], every: float = 0.0) -> Run:
        """One run until nothing waits; a file of each stream comes every so many seconds, or all are there at once."""
        done: queue.Queue[BatchProgress] = queue.Queue()
        waiting: list[int] = []
        manifests = Files.at(place / "state").below("manifest")

        def on_batch(progress: BatchProgress) -> None:
            manifest = latest(manifests) if progress.deferred else None
            waiting.append(queued(manifest) if manifest else 0)
            done.put(progress)

        pipeline = Pipeline(
            "op_sched", place / "state", script=SCRIPT, spark=self.spark, settings=settings, on_batch=on_batch
        )
        here = StreamFiles(place / "in", self.files.batches, self.files.streams)
        for name in here.streams:
            Path(here.path(name)).mkdir(parents=True)
        here.read_by(pipeline)
        if not every:
            self._feed(here, 0.0)
        pipeline.start()
        began = time.monotonic()
        if every:
            threading.Thread(target=self._feed, args=(here, every), daemon=True).start()
        try:
            batches = until_done(done, self.files.rows(), settings.get("policy", "no budget"), self.tell)
            seconds = time.monotonic() - began
        finally:
            pipeline.stop()
        answers = answers_in(place / "state" / "results", SCRIPT)
        shutil.rmtree(place)
        return Run(seconds=seconds, batches=batches, waiting=waiting[: len(batches)], answers=answers)

    def _feed(self, here: StreamFiles, every: float) -> None:
        """Copies the files; a copy's time is when it arrives."""
        began = time.monotonic()
        for number in range(here.batches):
            time.sleep(max(0.0, began + number * every - time.monotonic()))  # the schedule of the files
            for name in here.streams:
                source, target = (Path(one.path(name)) / f"{number:06}.parquet" for one in (self.files, here))
                staged = target.with_name(f".{target.name}")
                shutil.copyfile(source, staged)
                staged.rename(target)


def queued(manifest: Manifest) -> int:
    """The bytes of the segments that still have to probe, for each chain they wait for: what `threshold` limits."""
    found = 0
    for slot in manifest.slots.values():
        sizes = {entry.number: entry.nbytes for entry in slot.shard.segments}
        for chain in slot.shard.chains.values():
            found += sum(sizes[number] for number in {unit.probe for unit in chain.ledger})
    return found
