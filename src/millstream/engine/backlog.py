"""The deferred units of all chains of a shard, done in the order of a policy until a budget is spent.

Each chain has a ledger of its deferred units. The policy chooses among the slices of all chains, and the budget is for
all chains together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from millstream.engine.chain_run import ChainRun
from millstream.engine.joiner import Joined
from millstream.engine.path import Path
from millstream.engine.policy import Policy, Runnable
from millstream.engine.ready_queue import ReadyQueue
from millstream.engine.units import Ledger, ProbeProgress, Task

_HANDFUL = 32
Done = Iterator[tuple[ChainRun, Joined]]
"""Result rows as they are made, with their chain. Work goes on when the next rows are asked for."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When a run stops: after this many units, or after this many seconds; None means when all units are done."""

    units: int | None = None
    seconds: float | None = None


UNBOUNDED = Budget()


class Backlog:
    """The deferred units of all chains; a policy sees it as its `Load`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._ready: ReadyQueue[ProbeProgress] = ReadyQueue()
        self._chains: dict[Ledger, ChainRun] = {}
        self._known: list[tuple[Ledger, int, int]] = []
        self.choosing = 0
        """Nanoseconds spent on choosing what comes next."""

    @property
    def now(self) -> float:
        return max((ledger.now for ledger in self._chains), default=0.0)

    def memory(self) -> float:
        return sum(ledger.memory() for ledger in self._chains)

    def run(self, chains: Sequence[ChainRun], budget: Budget) -> Done:
        """Does deferred units until the budget is spent or none is left."""
        began = time.perf_counter_ns()
        self._look(chains)
        self.choosing += time.perf_counter_ns() - began
        if budget.units is not None:
            yield from self._run_units(budget.units)
        if budget.seconds is not None:
            yield from self._run_tasks(budget.seconds)

    def _look(self, chains: Sequence[ChainRun]) -> None:
        """Queues the work added since the last run; all work, where a ledger or the costs of slices have changed."""
        known = [(chain.ledger, chain.ledger.rewritten, chain.paths.drifts) for chain in chains]
        anew = known != self._known
        if anew:
            self._ready.clear()
            self._chains = {chain.ledger: chain for chain in chains}
            self._known = known
        for chain in chains:
            fresh = chain.ledger.fresh()
            for progress in chain.ledger.in_progress() if anew else fresh:
                self._ready.put(progress, _runnable(progress, chain))

    def _run_units(self, count: int) -> Done:
        for _ in range(count):
            progress = self._choose()
            if progress is None:
                return
            stage, unit = progress.stage, progress.ledger.take(progress)
            if not progress.tasks:
                self._ready.drop(progress)
            elif progress.stage > stage:
                self._ready.advance(progress)
            chain = self._chains[progress.ledger]
            for joined in chain.execute([unit]):
                yield chain, joined

    def _run_tasks(self, seconds: float) -> Done:
        """Tasks are chosen a handful at a time, as many as there is time for: choosing after every task would cost
        cache misses each time.

        How many there is time for follows from the expected and the measured time of the tasks so far.
        """
        began = time.perf_counter()
        expected, limit = 0.0, 0.0
        while tasks := self.take_tasks(_HANDFUL, limit):
            for chain, task, cost in tasks:
                for joined in chain.execute(list(task.units())):
                    yield chain, joined
                expected += cost
            spent = time.perf_counter() - began
            if spent >= seconds:
                return
            limit = expected / spent * (seconds - spent)

    def take_tasks(self, count: int, limit: float = float("inf")) -> list[tuple[ChainRun, Task, float]]:
        """The next tasks in the policy's order, each with its expected cost: `count` of them, or until the costs reach
        the limit.
        """
        began = time.perf_counter_ns()
        found: list[tuple[ProbeProgress, Task, float]] = []
        total = 0.0
        while len(found) < count and (not found or total < limit) and (progress := self._choose()) is not None:
            work = self._ready[progress]
            cost = work.path.stages[work.at].cost * work.queue
            found.append((progress, progress.ledger.take_task(progress), cost))
            total += cost
            if progress.tasks:
                self._ready.advance(progress)
            else:
                self._ready.drop(progress)
        self.choosing += time.perf_counter_ns() - began
        return [(self._chains[progress.ledger], task, cost) for progress, task, cost in found]

    def _choose(self) -> ProbeProgress | None:
        return self._ready.choose(self._policy, self, self._plans)

    def _plans(self) -> Mapping[str, Sequence[Path]]:
        return {name: paths for chain in self._chains.values() for name, paths in chain.paths.plans().items()}


def _runnable(progress: ProbeProgress, chain: ChainRun) -> Runnable:
    probe, rows = progress.probe, len(progress.probe)
    path = chain.paths.path(progress.at, progress.whole, progress.nbytes / rows)
    return Runnable(path, progress.stage, rows, probe.batch, probe.number)
