"""shared-join 5: response times of the shared join on the real engine, tuple by tuple, under one policy.

The engine does the join; the clock is the CPU time it takes, stretched so that a given share of it is busy, and jumps
to the next arrival when nothing waits. A tuple of the paper is an arrival of some rows at one instant: starting a unit
costs this engine as much as comparing many rows, and the paper's cost is one of comparisons.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.chain_run import Budget
from millstream.engine.engine import Engine
from millstream.lab.generators import SECOND, Times, pareto_bursts
from millstream.plan.nodes import Access, Plan

TABLE_1 = {
    "Uniform": (1, 100, 200, 300, 400, 500, 600),
    "Mostly-Small": (1, 5, 15, 30, 60, 300, 600),
    "Mostly-Large": (1, 60, 300, 420, 510, 570, 600),
    "Small-Large": (1, 5, 15, 300, 510, 570, 600),
}
"""The windows of seven queries, in seconds."""
MATCHES = 120
"""Tuples in ten minutes of the other stream that match one: 0.002 of 60,000 in the paper."""
_LOADED_IN = 8


@dataclass(frozen=True, slots=True)
class Setup:
    """What is joined. `rows` make one tuple; `load` is the share of time the join is busy."""

    windows: tuple[int, ...]
    tuples: int = 1_000
    rate: float = 5
    burst: float = 1
    rows: int = 200
    load: float = 0.8
    access: str = "index"
    seed: int = 1


@dataclass(slots=True)
class Responses:
    """Seconds from the arrival of a pair's later tuple until its query has it."""

    rows: int = 0
    total: float = 0.0
    greatest: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.rows if self.rows else 0.0


@dataclass(slots=True)
class Outcome:
    """Responses by window; the greatest number of tuples that waited to probe and of rows held for order."""

    windows: dict[int, Responses]
    join_rows: int = 0
    most_waiting: int = 0
    most_held: int = 0
    busy: float = 0.0
    lasted: float = 0.0
    arrived: int = 0

    @property
    def mean(self) -> float:
        """Over all rows of all queries, as the paper averages."""
        return sum(r.total for r in self.windows.values()) / max(sum(r.rows for r in self.windows.values()), 1)

    @property
    def mean_of_windows(self) -> float:
        return sum(r.mean for r in self.windows.values()) / len(self.windows)


def plan_of(setup: Setup, policy: str) -> Plan:
    """Every window a slice of its own, rows in order; a stream that is silent holds nobody back."""
    streams = [
        f"CREATE STREAM {name} (k BIGINT, Ts TIMESTAMP) WITH (time = 'Ts', idle = '1 microsecond');" for name in "AB"
    ]
    select = "SELECT A.Ts AS a, B.Ts AS b FROM A, B WHERE A.k = B.k"
    queries = [f"CREATE QUERY w{window} AS {select} WINDOW {window} SECONDS;" for window in setup.windows]
    settings = {"slicing": "memory", "order": "strict", "policy": policy}
    plan = compile_script("\n".join([*streams, *queries]), settings=settings)
    (chain,) = plan.chains
    return replace(plan, chains=(replace(chain, access=Access(setup.access, setup.access)),))


@dataclass(frozen=True, slots=True)
class Arrival:
    time: int
    stream: str
    rows: pa.Table


def arrivals(setup: Setup) -> Iterator[Arrival]:
    """New tuples of both streams in the order of arrival, after a largest window of state."""
    rng = np.random.default_rng(setup.seed)
    start, seconds = max(setup.windows), setup.tuples / (2 * setup.rate)
    times = [pareto_bursts(rng, setup.rate, seconds, setup.burst) + start * SECOND for _ in "AB"]
    every = sorted((int(when), name) for name, some in zip("AB", times, strict=True) for when in some)
    for when, name in every:
        yield Arrival(when, name, _table(rng, setup, np.full(setup.rows, when)))


class Run:
    """One policy on one setup. `stretch` is how much stream time a second of CPU counts for."""

    def __init__(self, setup: Setup, policy: str, stretch: float) -> None:
        self._stretch = stretch
        self._clock, self._mark = float(max(setup.windows)), 0.0
        self.outcome = Outcome({window: Responses() for window in setup.windows})
        self._counting = False
        self._engine = Engine(plan_of(setup, policy), self._take)
        self._load(setup)

    def _load(self, setup: Setup) -> None:
        """State as if the streams had run for the largest window; its own pairs are of no interest."""
        rng = np.random.default_rng(setup.seed + 1)
        span = max(setup.windows) * SECOND
        for part in range(_LOADED_IN):
            first, stop = span * part // _LOADED_IN, span * (part + 1) // _LOADED_IN
            count = int(setup.rate * setup.rows * (stop - first) / SECOND)
            rows = {name: _table(rng, setup, np.sort(rng.integers(first, stop, count))) for name in "AB"}
            self._engine.feed(rows, Budget(units=0), now=stop)
            for chain in self._engine.chains():
                chain.ledger.take_all()
        self.outcome.join_rows = int(setup.rate * setup.rows * max(setup.windows))

    def run(self, incoming: Sequence[Arrival]) -> Outcome:
        gc.collect()
        gc.disable()
        self._counting = True
        began = self._clock
        fed = 0
        self._mark = time.thread_time()
        while fed < len(incoming) or self._engine.deferred:
            while fed < len(incoming) and incoming[fed].time <= self.now() * SECOND:
                one = incoming[fed]
                self._engine.feed({one.stream: one.rows}, Budget(units=0), now=one.time + 2)
                fed += 1
            if self._engine.deferred:
                self._engine.work(Budget(seconds=0))
                self._look()
            elif fed < len(incoming):
                self.outcome.busy += self._pass()
                self._clock = max(self._clock, incoming[fed].time / SECOND)
        self.outcome.busy += self._pass()
        self._engine.close()
        gc.enable()
        self.outcome.lasted, self.outcome.arrived = self._clock - began, fed
        return self.outcome

    def now(self) -> float:
        """Seconds of stream time."""
        return self._clock + (time.thread_time() - self._mark) * self._stretch

    def _pass(self) -> float:
        mark = time.thread_time()
        passed = mark - self._mark
        self._clock += passed * self._stretch
        self._mark = mark
        return passed

    def _look(self) -> None:
        """What the measuring itself takes is not counted."""
        self.outcome.busy += self._pass()
        (chain,) = self._engine.chains()
        waiting = sum(len(tasks[0].probe) for tasks in chain.ledger.by_probe())
        self.outcome.most_waiting = max(self.outcome.most_waiting, waiting)
        self.outcome.most_held = max(self.outcome.most_held, self._engine.held_rows)
        self._mark = time.thread_time()

    def _take(self, query: str, rows: pa.RecordBatch) -> None:
        if not self._counting:
            return
        self.outcome.busy += self._pass()
        times = [np.asarray(rows.column(name).view(pa.int64())) for name in ("a", "b")]
        waited = self._clock - np.maximum(*times) / SECOND
        responses = self.outcome.windows[int(query[1:])]
        responses.rows += len(waited)
        responses.total += float(waited.sum())
        responses.greatest = max(responses.greatest, float(waited.max()))
        self._mark = time.thread_time()


def stretch_for(setup: Setup) -> float:
    """How much stream time a second of CPU must count for, so that LWO is busy for the given share of it."""
    sample = replace(setup, tuples=min(setup.tuples, 600), burst=1)
    incoming = list(arrivals(sample))
    measured = Run(sample, "lwo", 1e-6).run(incoming)
    return setup.load * sample.tuples / (2 * sample.rate) / measured.busy


def measure(setup: Setup, policies: Sequence[str], stretch: float | None = None) -> dict[str, Outcome]:
    stretch = stretch or stretch_for(setup)
    incoming = list(arrivals(setup))
    return {policy: Run(setup, policy, stretch).run(incoming) for policy in policies}


def _table(rng: np.random.Generator, setup: Setup, times: Times) -> pa.Table:
    different = max(round(setup.rate * setup.rows * 600 / MATCHES), 1)
    keys = rng.integers(0, different, len(times))
    return pa.table({"k": keys, "Ts": pa.array(times).view(pa.timestamp("us", "UTC"))})
