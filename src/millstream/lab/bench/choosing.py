"""What choosing the next unit costs: the share of run time at a thousand runnable probing segments, by policy."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.backlog import Budget
from millstream.engine.engine import Engine
from millstream.lab.show import verdict
from millstream.lab.workloads.generators import SECOND
from millstream.lab.workloads.windows import TABLE_1
from millstream.model.settings import POLICY_NAMES

_WINDOWS = TABLE_1["Small-Large"]
_LIMIT = 0.02


def report(runnable: int = 1_000, rows: int = 1_000, policies: tuple[str, ...] = POLICY_NAMES) -> Iterator[str]:
    """Works off a backlog of small batches, each with its units against ten minutes of state."""
    yield f"choosing among {runnable:,} runnable segments of {rows} rows, seven windows on the engine"
    for policy in policies:
        engine = _backlog(runnable, rows, policy)
        (chain,) = engine.chains()
        gc.collect()
        began, before = time.perf_counter_ns(), engine.choosing
        engine.work(Budget(seconds=4.0))
        taken, spent = time.perf_counter_ns() - began, engine.choosing - before
        share = spent / taken
        done = sum(measured.units for measured in chain.statistics.slices.values())
        each = spent / max(done, 1) / 1e3
        cost = f"{each:5.1f} us a unit, {share:7.2%} of run time"
        yield f"  {policy:<20} {cost} (limit {_LIMIT:.0%}): {verdict(share < _LIMIT)}"


def _backlog(runnable: int, rows: int, policy: str) -> Engine:
    streams = [f"CREATE STREAM {name} (k BIGINT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB"]
    select = "SELECT A.Ts AS a, B.Ts AS b FROM A, B WHERE A.k = B.k"
    queries = [f"CREATE QUERY w{window} AS {select} WINDOW {window} SECONDS;" for window in _WINDOWS]
    settings = {"slicing": "memory", "policy": policy}
    engine = Engine(compile_script("\n".join([*streams, *queries]), settings=settings), lambda _, __: None)
    rng = np.random.default_rng(1)

    def table(count: int, first: int, last: int) -> pa.Table:
        times = pa.array(np.sort(rng.integers(first, last, count))).view(pa.timestamp("us", "UTC"))
        return pa.table({"k": rng.integers(0, 20_000, count), "Ts": times})

    start = _WINDOWS[-1] * SECOND
    engine.feed({name: table(600_000, 0, start) for name in "AB"}, Budget(units=0))
    for chain in engine.chains():
        chain.ledger.take_all()
    step = SECOND // 10
    for number in range(runnable):
        engine.feed({"A": table(rows, start + number * step, start + (number + 1) * step)}, Budget(units=0))
    return engine
