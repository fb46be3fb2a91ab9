"""`millstream bench op-sched-sql`: op-sched's sixteen queries over five streams on Spark, under each policy.

The example's script reads one file of each stream a batch, a second of event time. A run without a budget comes first;
a slot's budget is then the mean time it took for a batch, divided by the load. So in a burst work is deferred, the
policy says whose comes first, and afterwards it is caught up. Every policy gets the same files and the same budget.
"""

from __future__ import annotations

import queue
import statistics
import tempfile
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

    def work(self) -> float:
        """Seconds the slower slot joined and wrote, the mean of the batches with rows."""
        return statistics.mean(
            batch.split["join"] + batch.split["write"] for batch in self.batches if sum(batch.rows_in.values())
        )


def report(
    rate: float = 20_000,
    seconds: int = 60,
    load: float = 1.0,
    *,
    policies: Sequence[str] = POLICIES,
    place: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """The table of the command."""
    spark = make_session("op-sched-sql")
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        streams = OpSchedStreams(rate=rate, seconds=seconds)
        files = StreamFiles.save(Path(temporary) / "in", SCRIPT, streams.batches(seconds))
        count = files.rows()
        yield f"{count:,} rows of five self-similar streams in {seconds} batches of a second each; sixteen queries"
        tell("DuckDB")
        expected = answers_to(files, SCRIPT)
        yield f"rows of all queries, by DuckDB: {sum(answer.rows for answer in expected.values()):,}"
        # Twice, because Java is slow at first.
        first, unbounded = (_run(spark, files, Path(temporary) / f"unbounded{turn}", {}, tell) for turn in range(2))
        budget = max(round(unbounded.work() / load * 1e6), 1)
        yield f"a slot works {budget / 1e3:.0f} ms in a batch, the mean without a budget, divided by a load of {load:g}"
        runs = {"no budget": unbounded}
        for policy in policies:
            chosen = {"policy": policy, "budget": f"{budget} microseconds"}
            runs[policy] = _run(spark, files, Path(temporary) / policy, chosen, tell)
    yield ""
    yield from table(runs, expected)
    right = all(run.answers == expected for run in (first, *runs.values()))
    yield ""
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


def _run(
    spark: SparkSession, files: StreamFiles, place: Path, settings: Mapping[str, str], tell: Callable[[str], None]
) -> Run:
    done: queue.Queue[BatchProgress] = queue.Queue()
    waiting: list[int] = []
    manifests = Files.at(place).below("manifest")

    def on_batch(progress: BatchProgress) -> None:
        manifest = latest(manifests) if progress.deferred else None
        waiting.append(queued(manifest) if manifest else 0)
        done.put(progress)

    pipeline = Pipeline("op_sched", place, script=SCRIPT, spark=spark, settings=settings, on_batch=on_batch)
    files.read_by(pipeline)
    began = time.monotonic()
    pipeline.start()
    try:
        batches = until_done(done, files.rows(), settings.get("policy", "no budget"), tell)
        seconds = time.monotonic() - began
    finally:
        pipeline.stop()
    answers = answers_in(place / "results", SCRIPT)
    return Run(seconds=seconds, batches=batches, waiting=waiting[: len(batches)], answers=answers)


def queued(manifest: Manifest) -> int:
    """The bytes of the segments that still have to probe: what waits in queues."""
    found = 0
    for slot in manifest.slots.values():
        for chain in slot.chains.values():
            sizes = {entry.number: entry.nbytes for entry in chain.segments}
            found += sum(sizes[number] for number in {unit.probe for unit in chain.ledger})
    return found
