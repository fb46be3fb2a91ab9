"""What it costs to measure while a pipeline runs: the time inside everything that only measures, against all time.

Measuring with and without would drown in the noise of a machine, so the functions that only measure are timed
themselves: in the engine, with all rows in one process, and on the driver, against the time of a batch on Spark.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.compile import compile_script
from millstream.engine import joiner
from millstream.engine.engine import Engine
from millstream.engine.gauges import KeySketch, Sampler, StepTimes
from millstream.engine.shard import Shard
from millstream.lab.show import verdict
from millstream.lab.workloads.sensor_files import SensorFiles
from millstream.lab.workloads.sensor_queries import windows_script
from millstream.lab.workloads.windows import UNIFORM, window_rows, window_script
from millstream.pipeline import Pipeline
from millstream.pipeline.measuring import RunStatistics
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.replanning import Replanner
from millstream.pipeline.session import make_session

_LIMIT = 0.01
_COLD = 5
IN_THE_ENGINE: tuple[tuple[Any, str], ...] = (
    (KeySketch, "add"),
    (Sampler, "look"),
    (StepTimes, "add"),
    (joiner, "candidates"),
    (Shard, "measured"),
)
ON_THE_DRIVER: tuple[tuple[Any, str], ...] = (
    (RunStatistics, "learn"),
    (RunStatistics, "to_json"),
    (Replanner, "look"),
    (Replanner, "effect"),
)


class Stopwatch:
    """The time inside some functions; one that another of them calls counts once."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        self._inside = 0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if self._inside:
                return function(*args, **named)
            self._inside += 1
            began = time.perf_counter_ns()
            try:
                return function(*args, **named)
            finally:
                self.nanoseconds += time.perf_counter_ns() - began
                self._inside -= 1

        return call


@contextmanager
def watched(functions: tuple[tuple[Any, str], ...]) -> Iterator[Stopwatch]:
    """Times these functions of classes and modules while it lasts."""
    watch = Stopwatch()
    before = [getattr(owner, name) for owner, name in functions]
    for (owner, name), function in zip(functions, before, strict=True):
        setattr(owner, name, watch.timed(function))
    try:
        yield watch
    finally:
        for (owner, name), function in zip(functions, before, strict=True):
            setattr(owner, name, function)


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of a batch, in the mean: of measuring, and in all."""

    measuring: float
    whole: float

    @property
    def share(self) -> float:
        return self.measuring / self.whole


def report(
    tell: Callable[[str], None], batches: int = 60, place: Path | None = None, sizes: tuple[int, ...] = (100_000, 2_000)
) -> Iterator[str]:
    failed = 0
    for rows in sizes:
        tell(f"{rows:,} rows a batch: the engine")
        engine = in_the_engine(rows, batches)
        tell(f"{rows:,} rows a batch: the driver")
        driver = on_the_driver(rows, batches, place)
        share = (engine.measuring + driver.measuring) / driver.whole
        failed += share > _LIMIT
        yield f"{rows:,} rows a batch, seven windows; ms of a batch"
        yield f"  engine, all rows in one process {engine.measuring:8.3f} of {engine.whole:7.1f} without a sink"
        yield f"  driver                          {driver.measuring:8.3f} of {driver.whole:7.1f}, a batch on Spark"
        yield f"  both, of a batch on Spark: {100 * share:.2f} % (limit {100 * _LIMIT:g} %)  {verdict(share <= _LIMIT)}"
    yield "all hold" if not failed else f"{failed} FAIL"


def in_the_engine(rows: int, batches: int) -> Spent:
    """Batches of so many rows in all, 1,000 a second and stream."""
    plan = compile_script(window_script(UNIFORM, rate=1_000, keys=20_000))
    total, counted = 0, batches - _COLD
    with watched(IN_THE_ENGINE) as watch:
        engine = Engine(plan, lambda _query, _rows: None)
        for number, some in enumerate(window_rows(1_000, 20_000, rows / 2_000 * batches, batches)):
            if number == _COLD:
                total, watch.nanoseconds = 0, 0
            began = time.perf_counter_ns()
            engine.feed(some)
            engine.measured()
            total += time.perf_counter_ns() - began
    return Spent(watch.nanoseconds / 1e6 / counted, total / 1e6 / counted)


def on_the_driver(rows: int, batches: int, place: Path | None) -> Spent:
    """The same on Spark: what the driver learns, and compares plans."""
    spark = make_session("measuring", master="local[2]")
    seen: list[BatchProgress] = []
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary, watched(ON_THE_DRIVER) as watch:

        def on_batch(one: BatchProgress) -> None:
            seen.append(one)
            if len(seen) == _COLD:
                watch.nanoseconds = 0

        seconds = max(round(rows / 2_000 * batches), 1)
        files = SensorFiles.write(Path(temporary) / "in", seconds, batches)
        script = windows_script(UNIFORM)
        pipeline = Pipeline("measuring", Path(temporary) / "state", script=script, spark=spark, on_batch=on_batch)
        files.read_by(pipeline)
        pipeline.drain()
    counted = seen[_COLD:]
    return Spent(watch.nanoseconds / 1e6 / len(counted), 1e3 * sum(one.seconds for one in counted) / len(counted))
