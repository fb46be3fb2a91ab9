"""Against starvation (op-sched 4.2): priorities grow with the age of the oldest row and with the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.engine.path import Path
from millstream.engine.policy import Load, Policy, Runnable

_LEAST_SHARE = 0.01


class DynamicPriority(Policy):
    """The inner policy's priority times age times queue, recomputed after a fixed number of choices.

    A priority counts for at least a hundredth of the greatest: otherwise work that releases no memory would wait for
    ever.
    """

    def __init__(self, inner: Policy, every: int = 256) -> None:
        self._inner = self._current = inner
        self.name = f"{inner.name}+dynamic"
        self.releases_early = inner.releases_early
        self._every, self._count = every, 0
        self._now, self._greatest = 0.0, 0.0

    def in_force(self, load: Load) -> Policy:
        current = self._inner.in_force(load)
        if current is not self._current or self._count % self._every == 0:
            self._current, self._now = current, load.now
            self.version += 1
        self._count += 1
        return self

    def learn(self, plans: Mapping[str, Sequence[Path]]) -> None:
        self._inner.learn(plans)
        self.version += 1

    def begun(self, work: Runnable) -> bool:
        return self._current.begun(work)

    def priority(self, work: Runnable) -> float:
        wish = self._current.priority(work)
        self._greatest = max(self._greatest, wish)
        age = max(self._now - work.arrived, 0.0)
        return max(wish, _LEAST_SHARE * self._greatest) * (1 + age) * (1 + work.queue)
