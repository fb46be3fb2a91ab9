"""How long something takes: an engine on batches in CPU time, anything else by the fastest of some turns."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from millstream.engine.engine import Engine
from millstream.plan import Plan


def cpu_seconds(plan: Plan, batches: Sequence[Mapping[str, pa.Table]], warm: int = 0) -> tuple[float, int]:
    """What the batches after the first `warm` take, and how many rows come out of them.

    Rows of a batch are kept until it is done. Other processes would be part of any time but CPU time.
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
    """Seconds of the fastest turn."""
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best
