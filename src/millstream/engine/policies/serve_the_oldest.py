"""Against starvation (op-sched 4.2): every so often the oldest tuple is served, whatever the policy says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.engine.path import Path
from millstream.engine.policies.fifo import Fifo
from millstream.engine.policy import Load, Policy, Runnable


class ServeTheOldest(Policy):
    """One choice in `every` is FIFO's."""

    def __init__(self, inner: Policy, every: int = 10) -> None:
        self._inner, self._oldest = inner, Fifo()
        self.name = f"{inner.name}+oldest"
        self.releases_early = inner.releases_early
        self._every, self._count = every, 0

    def in_force(self, load: Load) -> Policy:
        self._count += 1
        return self._oldest if self._count % self._every == 0 else self._inner.in_force(load)

    def learn(self, plans: Mapping[str, Sequence[Path]]) -> None:
        self._inner.learn(plans)

    def priority(self, work: Runnable) -> float:
        return self._inner.priority(work)
