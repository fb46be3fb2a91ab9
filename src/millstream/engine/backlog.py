"""The waiting work of all chains of a shard, in the order of one policy, and runs that a budget ends.

Chains keep ledgers of what waits. The backlog knows all of them: a policy chooses among the slices of every chain, and
a budget is for all chains together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from millstream.engine.agenda import Agenda
from millstream.engine.chain_run import ChainRun
from millstream.engine.path import Path
from millstream.engine.units import Ledger, Unit, Walk
from millstream.engine.work import Policy, Work

_HANDFUL = 16
Execute = Callable[[ChainRun, list[Unit]], None]


@dataclass(frozen=True, slots=True)
class Budget:
    """When a run stops: after so many units, or when so many seconds are over; None means when all is done."""

    units: int | None = None
    seconds: float | None = None


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

    def run(self, chains: Sequence[ChainRun], budget: Budget, execute: Execute) -> None:
        """Does the chains' waiting units until the budget is spent or none is left."""
        self._look(chains)
        if budget.units is not None:
            self._run_units(budget.units, execute)
        if budget.seconds is not None:
            self._run_tasks(budget.seconds, execute)

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

    def _run_units(self, count: int, execute: Execute) -> None:
        for _ in range(count):
            walk = self._choose()
            if walk is None:
                return
            unit = walk.ledger.take(walk)
            self._go_on(walk)
            execute(self._chains[walk.ledger], [unit])

    def _run_tasks(self, seconds: float, execute: Execute) -> None:
        """Tasks are chosen a handful at a time while there is time for as many: memory gone cold makes a look dear."""
        now = time.perf_counter()
        until, slowest, count = now + seconds, 1e-6, 1
        while tasks := self.take_tasks(count):
            for chain, units in tasks:
                before = now
                execute(chain, units)
                now = time.perf_counter()
                slowest = max(slowest, now - before)
            if now >= until:
                return
            count = min(_HANDFUL, 1 + int((until - now) / slowest))

    def take_tasks(self, count: int) -> list[tuple[ChainRun, list[Unit]]]:
        """So many times all units of a probing segment in its next interval; fewer when no more wait."""
        began = time.perf_counter_ns()
        found: list[tuple[ChainRun, list[Unit]]] = []
        while len(found) < count and (walk := self._choose()) is not None:
            task = walk.ledger.take_task(walk)
            self._go_on(walk)
            found.append((self._chains[walk.ledger], list(task.units())))
        self.choosing += time.perf_counter_ns() - began
        return found

    def _choose(self) -> Walk | None:
        return self._agenda.choose(self._policy, self, self._plans)

    def _go_on(self, walk: Walk) -> None:
        if not walk.tasks:
            self._agenda.drop(walk)
        elif walk.at != self._agenda[walk].at:
            self._agenda.advance(walk)

    def _plans(self) -> Mapping[str, Sequence[Path]]:
        return {name: paths for chain in self._chains.values() for name, paths in chain.paths.plans().items()}


def _work(walk: Walk, chain: ChainRun) -> Work:
    probe, rows = walk.probe, len(walk.probe)
    path = chain.paths.path(probe.side, walk.whole, walk.nbytes / rows)
    return Work(path, walk.at, rows, probe.batch, probe.number)
