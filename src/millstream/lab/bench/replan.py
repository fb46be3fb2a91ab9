"""Hints that are ten times wrong, on Spark: what they cost, and what is left of that once the plan is chosen again.

The same files go through three pipelines: with right hints, with wrong ones, and with wrong ones that are believed for
ever (`SET replan = 'off'`). They take turns. What counts are the batches after the plan should have been changed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from millstream.lab.show import bars, verdict
from millstream.lab.workloads.stream_files import Answer, StreamFiles, answers_in, answers_to
from millstream.pipeline import Pipeline
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session

WAYS = ("right hints", "wrong hints", "wrong hints, believed for ever")
_NEAR = 1.1
_STREAMS = ("A", "B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Windows in seconds over two streams with so many rows a second; hints of rates and keys are `wrong` times as
    many. Batches have `seconds` of event time; from the `settled` one on they count.
    """

    name: str
    windows: tuple[float, ...]
    rates: tuple[float, float]
    keys: int
    wrong: tuple[float, float, float]
    seconds: float
    batches: int = 40
    settled: int = 20

    def script(self, way: str) -> str:
        wrong = (1.0, 1.0, 1.0) if way == WAYS[0] else self.wrong
        text = "SET replan = 'off';\n" if way == WAYS[2] else ""
        for name, rate, times in zip(_STREAMS, self.rates, wrong[:2], strict=True):
            hints = f"rate = {rate * times:g}, keys = {max(round(self.keys * wrong[2]), 1)}"
            text += f"CREATE STREAM {name} (k BIGINT, n BIGINT, Ts TIMESTAMP) WITH (time = 'Ts', {hints});\n"
        for number, window in enumerate(self.windows, 1):
            text += (
                f"CREATE QUERY w{number} AS SELECT A.n AS a, B.n AS b FROM A, B WHERE A.k = B.k"
                f" WINDOW {round(window * 1000)} MILLISECONDS;\n"
            )
        return text

    def tables(self) -> dict[str, list[pa.Table]]:
        return {name: list(self._of(number)) for number, name in enumerate(_STREAMS)}

    def _of(self, number: int) -> Iterator[pa.Table]:
        rng, first = np.random.default_rng(number), 0
        count, micros = round(self.rates[number] * self.seconds), round(self.seconds * 1e6)
        for batch in range(self.batches):
            times = np.sort(rng.integers(0, micros, count)) + batch * micros
            columns = {
                "k": pa.array(rng.integers(0, self.keys, count)),
                "n": pa.array(np.arange(first, first + count)),
                "Ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
            first += count
            yield pa.table(columns)


WORKLOADS = (
    Workload(
        name="seven windows of 1 to 600 s",
        windows=(1, 10, 60, 120, 300, 450, 600),
        rates=(1_000, 1_000),
        keys=20_000,
        wrong=(10, 10, 0.1),
        seconds=60,
    ),
    Workload(
        name="seven windows of 0.1 to 10 s",
        windows=(0.1, 0.2, 0.5, 1, 2, 5, 10),
        rates=(3_000, 3_000),
        keys=3_000,
        wrong=(10, 10, 0.1),
        seconds=10,
    ),
    Workload(
        name="a fast stream and a slow one",
        windows=(1, 5, 10, 60),
        rates=(20_000, 5),
        keys=5_000,
        wrong=(0.1, 0.1, 0.1),
        seconds=5,
    ),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of the batches that count, the median of all seconds and of those in the join; and what was changed."""

    seconds: float
    join: float
    changes: int
    answers: dict[str, Answer]

    def faster(self, other: Outcome) -> Outcome:
        return replace(self, seconds=min(self.seconds, other.seconds), join=min(self.join, other.join))


def report(
    tell: Callable[[str], None],
    rounds: int = 2,
    place: Path | None = None,
    workloads: tuple[Workload, ...] = WORKLOADS,
) -> Iterator[str]:
    spark = make_session("replan", master="local[2]")
    failed = 0
    for workload in workloads:
        with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
            work = Path(temporary)
            files = StreamFiles.save(work / "in", workload.script(WAYS[0]), workload.tables())
            right = answers_to(files, workload.script(WAYS[0]))
            best: dict[str, Outcome] = {}
            for turn in range(rounds):
                for way in WAYS:
                    tell(f"{workload.name}: {way}, turn {turn + 1} of {rounds}")
                    one = _run(work / f"{turn} {WAYS.index(way)}", spark, files, workload, way)
                    best[way] = one.faster(best[way]) if way in best else one
        yield ""
        yield f"{workload.name}; a batch after the first {workload.settled}, fastest of {rounds} medians"
        for way, one in best.items():
            drawn = bars(one.seconds, max(each.seconds for each in best.values()), 30)
            yield f"  {way:31}  {one.seconds:6.3f} s, join {1000 * one.join:6.1f} ms, {_changed(one.changes)}  {drawn}"
        ratio = best[WAYS[1]].seconds / best[WAYS[0]].seconds
        join = best[WAYS[1]].join / best[WAYS[0]].join
        exact = all(one.answers == right for one in best.values())
        failed += (ratio > _NEAR) + (not exact)
        yield f"  wrong hints take {ratio:.2f} times as long as right ones (bar {_NEAR}): {verdict(ratio <= _NEAR)}"
        yield f"  of the join alone {join:.2f} times as long"
        yield f"  all rows as by DuckDB, in every way: {verdict(exact)}"
    yield ""
    yield "all hold" if not failed else f"{failed} FAIL"


def _changed(changes: int) -> str:
    return "the plan stayed" if not changes else f"changed {'once' if changes == 1 else f'{changes} times'}"


def _run(work: Path, spark: SparkSession, files: StreamFiles, workload: Workload, way: str) -> Outcome:
    batches: list[BatchProgress] = []
    said: list[str] = []
    script = workload.script(way)
    pipeline = Pipeline("replan", work, script=script, spark=spark, on_batch=batches.append, tell=said.append)
    files.read_by(pipeline)
    pipeline.drain()
    counting = [one for one in batches if one.rows_in][workload.settled :]
    return Outcome(
        median(one.seconds for one in counting),
        median(one.split["join"] for one in counting),
        sum("chosen again" in line for line in said),
        answers_in(work / "results", script),
    )
