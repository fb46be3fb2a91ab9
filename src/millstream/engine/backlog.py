"""The waiting work of all chains of a shard, in the order of one policy, and runs that a budget ends.

Chains keep ledgers of what waits. The backlog knows all of them: a policy chooses among the slices of every chain, and
a budget is for all chains together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from millstream.engine.agenda import Agenda
from millstream.engine.chain_run import ChainRun
from millstream.engine.joiner import Joined
from millstream.engine.path import Path
from millstream.engine.units import Ledger, Task, Walk
from millstream.engine.work import Policy, Work

_HANDFUL = 32
Done = Iterator[tuple[ChainRun, Joined]]
"""Rows as they are made, with their chain. Work goes on when the next ones are asked for."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When a run stops: after so many units, or when so many seconds are over; None means when all is done."""

    units: int | None = None
    seconds: float | None = None


UNBOUNDED = Budget()


class Backlog:
    """To a policy it is the load it works under."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._agenda: Agenda[Walk] = Agenda()
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
        """Does the chains' waiting units until the budget is spent or none is left."""
        began = time.perf_counter_ns()
        self._look(chains)
        self.choosing += time.perf_counter_ns() - began
        if budget.units is not None:
            yield from self._run_units(budget.units)
        if budget.seconds is not None:
            yield from self._run_tasks(budget.seconds)

    def _look(self, chains: Sequence[ChainRun]) -> None:
        """What has come since the last run; everything, where a ledger or what slices cost is no longer the same."""
        known = [(chain.ledger, chain.ledger.rewritten, chain.paths.drifts) for chain in chains]
        anew = known != self._known
        if anew:
            self._agenda.clear()
            self._chains = {chain.ledger: chain for chain in chains}
            self._known = known
        for chain in chains:
            fresh = chain.ledger.fresh()
            for walk in chain.ledger.walks() if anew else fresh:
                self._agenda.put(walk, _work(walk, chain))

    def _run_units(self, count: int) -> Done:
        for _ in range(count):
            walk = self._choose()
            if walk is None:
                return
            at, unit = walk.at, walk.ledger.take(walk)
            if not walk.tasks:
                self._agenda.drop(walk)
            elif walk.at > at:
                self._agenda.advance(walk)
            chain = self._chains[walk.ledger]
            for joined in chain.execute([unit]):
                yield chain, joined

    def _run_tasks(self, seconds: float) -> Done:
        """Tasks are chosen a handful at a time, as many as there is time for: choosing after every task would meet cold
        caches each time.

        How much there is time for follows from what the tasks so far were expected to cost and what they took.
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
        """The next tasks by the policy with what they may cost: so many, or until they come to the limit."""
        began = time.perf_counter_ns()
        found: list[tuple[Walk, Task, float]] = []
        total = 0.0
        while len(found) < count and (not found or total < limit) and (walk := self._choose()) is not None:
            work = self._agenda[walk]
            cost = work.path.stages[work.at].cost * work.queue
            found.append((walk, walk.ledger.take_task(walk), cost))
            total += cost
            if walk.tasks:
                self._agenda.advance(walk)
            else:
                self._agenda.drop(walk)
        self.choosing += time.perf_counter_ns() - began
        return [(self._chains[walk.ledger], task, cost) for walk, task, cost in found]

    def _choose(self) -> Walk | None:
        return self._agenda.choose(self._policy, self, self._plans)

    def _plans(self) -> Mapping[str, Sequence[Path]]:
        return {name: paths for chain in self._chains.values() for name, paths in chain.paths.plans().items()}


def _work(walk: Walk, chain: ChainRun) -> Work:
    probe, rows = walk.probe, len(walk.probe)
    path = chain.paths.path(probe.side, walk.whole, walk.nbytes / rows)
    return Work(path, walk.at, rows, probe.batch, probe.number)
