"""shared-join 5: response times of the shared join on the real engine, tuple by tuple, under one policy.

The engine does the join, holds rows back and releases them. The clock advances with its work, stretched so that LWO is
busy for a given share of time, and jumps to the next arrival when nothing waits. It counts the arrivals, slices and
pairs the engine has done, at their CPU cost under LWO on this machine, so that the same work takes as long under every
policy. Alternatively it counts CPU time itself, which on a shared machine varies by more than the policies differ.

A tuple of the paper is an arrival of many rows at one instant: starting a unit costs this engine about as much as ten
thousand pairs, and the paper counts comparisons only.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.backlog import Budget
from millstream.engine.engine import Engine
from millstream.lab.workloads.generators import SECOND, Times, pareto_bursts
from millstream.plan.nodes import Access, Plan

MATCHES = 120
"""How many tuples in ten minutes of the other stream match a tuple: 0.002 of 60,000 in the paper."""
_LOADED_IN = 8


@dataclass(frozen=True, slots=True)
class Setup:
    """What is joined. `rows` make one tuple; `load` is the share of time the join is busy."""

    windows: tuple[int, ...]
    tuples: int = 1_000
    rate: float = 2
    burst: float = 1
    rows: int = 2_000
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
    cpu: float = 0.0
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
    """A plan with a slice for every window and strict order; idle streams do not hold the watermark back."""
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
    """New tuples of both streams in the order of arrival, after the time covered by the initial state."""
    rng = np.random.default_rng(setup.seed)
    start, seconds = max(setup.windows), setup.tuples / (2 * setup.rate)
    times = [pareto_bursts(rng, setup.rate, seconds, setup.burst) + start * SECOND for _ in "AB"]
    every = sorted((int(when), name) for name, some in zip("AB", times, strict=True) for when in some)
    for when, name in every:
        yield Arrival(when, name, _table(rng, setup, np.full(setup.rows, when)))


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU seconds per arrival, per slice a tuple has scanned, and per pair."""

    arrival: float
    scan: float
    pair: float


class Run:
    """One policy on one setup. `stretch` is the stream time per second of work; without `costs`, work is CPU time."""

    def __init__(self, setup: Setup, policy: str, stretch: float, costs: Costs | None = None) -> None:
        self._stretch, self._costs = stretch, costs
        self._clock, self._mark, self._counted = float(max(setup.windows)), 0.0, 0.0
        self._fed = self._scanned = 0
        self.outcome = Outcome({window: Responses() for window in setup.windows})
        self.samples: list[tuple[float, float, float, float]] = []
        self._counting = False
        self._engine = Engine(plan_of(setup, policy), self._take)
        self._load(setup)

    def _load(self, setup: Setup) -> None:
        """Loads state as if the streams had run for the largest window; pairs within it are discarded."""
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
        self._mark = time.thread_time()
        while self._fed < len(incoming) or self._engine.deferred:
            while self._fed < len(incoming) and incoming[self._fed].time <= self._clock * SECOND:
                one = incoming[self._fed]
                self._engine.feed({one.stream: one.rows}, Budget(units=0), now=one.time)
                # Tuples come in time order: an empty poll makes the other stream idle, so that it does not hold the
                # watermark back.
                self._engine.feed({}, Budget(units=0), now=one.time + 2)
                self._fed += 1
                self._pass()
            if self._engine.deferred:
                self._scanned += 1
                self._engine.work(Budget(seconds=0))
                self._look()
            elif self._fed < len(incoming):
                self._clock = max(self._clock, incoming[self._fed].time / SECOND)
        self._engine.close()
        gc.enable()
        self.outcome.lasted, self.outcome.arrived = self._clock - began, self._fed
        return self.outcome

    def done(self) -> tuple[int, int, int]:
        """Arrivals, slices scanned and pairs so far."""
        (chain,) = self._engine.chains()
        return self._fed, self._scanned, sum(one.pairs for one in chain.statistics.slices.values())

    def _pass(self) -> None:
        """Advances the clock by the work done since the last call."""
        mark = time.thread_time()
        passed = mark - self._mark
        self.outcome.cpu += passed
        if self._costs is not None:
            fed, scanned, pairs = self.done()
            total = fed * self._costs.arrival + scanned * self._costs.scan + pairs * self._costs.pair
            passed, self._counted = total - self._counted, total
        self.outcome.busy += passed
        self._clock += passed * self._stretch
        self._mark = time.thread_time()

    def _look(self) -> None:
        """Takes a sample; its own time is not counted."""
        self._pass()
        self.samples.append((*self.done(), self.outcome.cpu))
        (chain,) = self._engine.chains()
        waiting = sum({task.probe.number: len(task.probe) for task in chain.ledger.tasks()}.values())
        self.outcome.most_waiting = max(self.outcome.most_waiting, waiting)
        self.outcome.most_held = max(self.outcome.most_held, self._engine.held_rows)
        self._mark = time.thread_time()

    def _take(self, query: str, rows: pa.RecordBatch) -> None:
        if not self._counting:
            return
        self._pass()
        times = [np.asarray(rows.column(name).view(pa.int64())) for name in ("a", "b")]
        waited = self._clock - np.maximum(*times) / SECOND
        responses = self.outcome.windows[int(query[1:])]
        responses.rows += len(waited)
        responses.total += float(waited.sum())
        responses.greatest = max(responses.greatest, float(waited.max()))
        self._mark = time.thread_time()


def calibrated(setup: Setup) -> tuple[float, Costs]:
    """The costs of LWO's work on this machine, and the stretch with which LWO is busy for the given share of time."""
    sample = replace(setup, tuples=min(setup.tuples, 600), burst=1)
    run = Run(sample, "lwo", 1e-6)
    measured = run.run(list(arrivals(sample)))
    steps = np.diff(np.array(run.samples), axis=0)
    work, cpu = steps[:, :3], steps[:, 3]
    found = np.maximum(np.linalg.lstsq(work / cpu[:, None], np.ones(len(cpu)), rcond=None)[0], 0.0)
    found *= cpu.sum() / max(float((work @ found).sum()), 1e-12)
    stretch = setup.load * sample.tuples / (2 * sample.rate) / measured.cpu
    return stretch, Costs(*(float(value) for value in found))


def measure(
    setup: Setup, policies: Sequence[str], known: tuple[float, Costs | None] | None = None
) -> dict[str, Outcome]:
    """The same arrivals under each policy."""
    stretch, costs = known or calibrated(setup)
    incoming = list(arrivals(setup))
    return {policy: Run(setup, policy, stretch, costs).run(incoming) for policy in policies}


def _table(rng: np.random.Generator, setup: Setup, times: Times) -> pa.Table:
    different = max(round(setup.rate * setup.rows * 600 / MATCHES), 1)
    keys = rng.integers(0, different, len(times))
    return pa.table({"k": keys, "Ts": pa.array(times).view(pa.timestamp("us", "UTC"))})
