"""Threshold of op-sched 3.4: least latency while memory lasts, least memory when it runs short.

The two thresholds follow the mean load (3.3) and differ (hysteresis), so the mode does not switch back and forth.
Memory is checked rarely while there is plenty and at every choice when there is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.engine.path import Path
from millstream.engine.policies.path_capacity import PathCapacity
from millstream.engine.policies.simplified_segment import SimplifiedSegment
from millstream.engine.policy import Load, Policy, Runnable

_RAREST = 16


class Threshold(Policy):
    """`limit` is the memory available for waiting rows; `safety` is the paper's beta."""

    name = "threshold"

    def __init__(
        self, limit: float, *, normal: Policy | None = None, saving: Policy | None = None, safety: float = 0.9
    ) -> None:
        self.limit, self.safety = limit, safety
        self._normal, self._thrifty = normal or PathCapacity(), saving or SimplifiedSegment()
        self.saving = False
        self.releases_early = self._normal.releases_early and self._thrifty.releases_early
        self._wait = self._interval = 0
        self._choices, self._total = 0, 0.0

    @property
    def mean(self) -> float:
        """The mean memory over all choices so far."""
        return self._total / self._choices if self._choices else 0.0

    @property
    def thresholds(self) -> tuple[float, float]:
        """The memory at which saving memory ends, and at which it begins (3.3)."""
        highest = min((self.limit + self.mean) / 2, self.safety * self.limit)
        return min(self.mean, self.safety * highest), highest

    def in_force(self, load: Load) -> Policy:
        self._wait -= 1
        if self._wait <= 0:
            self._sample(load.memory())
        return (self._thrifty if self.saving else self._normal).in_force(load)

    def _sample(self, memory: float) -> None:
        spent = max(self._interval, 1)
        self._choices += spent
        self._total += spent * memory
        lowest, highest = self.thresholds
        self.saving = memory > lowest if self.saving else memory >= highest
        self._interval = self._wait = 1 + int(_RAREST * max(0.0, 1 - memory / highest)) if highest > 0 else 1

    def learn(self, plans: Mapping[str, Sequence[Path]]) -> None:
        self._normal.learn(plans)
        self._thrifty.learn(plans)

    def priority(self, work: Runnable) -> float:
        return (self._thrifty if self.saving else self._normal).priority(work)
