"""Timing: an engine on batches in CPU time, anything else as the fastest of several runs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from millstream.engine.engine import Engine
from millstream.plan import Plan


def cpu_seconds(plan: Plan, batches: Sequence[Mapping[str, pa.Table]], warm: int = 0) -> tuple[float, int]:
    """The CPU time of the batches after the first `warm`, and how many rows they produce.

    Rows of a batch are kept until it is done. CPU time is used because wall time would include other processes.
    """
    kept: list[pa.RecordBatch] = []
    engine = Engine(plan, lambda _, rows: kept.append(rows))
    gc.collect()
    began, rows = time.process_time(), 0
    for number, batch in enumerate(batches):
        if number == warm:
            began, rows = time.process_time(), 0
        engine.feed(batch)
        rows += sum(some.num_rows for some in kept)
        kept.clear()
    engine.close()
    return time.process_time() - began, rows + sum(some.num_rows for some in kept)


def best_of(work: Callable[[], object], times: int = 5) -> float:
    """Seconds of the fastest run."""
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best
