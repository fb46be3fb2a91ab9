"""Choosing the plan again while it runs: when another one is cheaper by a margin, for some batches in a row.

After a change the same number of batches must pass before the next, and a plan that was left is not taken up again
unless it is better by twice the margin: measurements vary, and plans must not take turns.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from millstream.model.settings import Settings
from millstream.pipeline.measuring import RunStatistics
from millstream.plan import costs_of
from millstream.plan.costs import Calibration, Costs
from millstream.plan.nodes import Plan
from millstream.plan.replan import cost_of, differences, replanned

_WARM = 3
"""So many batches must have been measured before anything is believed."""
_PACE = 100
"""Plans are compared again when batches have taken so many times as long as that took, in time of the CPU."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Another plan, and why."""

    plan: Plan
    why: str


@dataclass(slots=True, kw_only=True)
class _Effect:
    """A change whose effect is being measured: the cost per row before it, and after."""

    batch: int
    before: float
    after: float = 0.0
    batches: int = 0


class Replanner:
    """Compares the plan in use with the best one for what has been measured, batch by batch."""

    def __init__(self, settings: Settings, calibration: Calibration | None, *, adopted: bool = False) -> None:
        self._is_on = settings.replan == "on" and settings.costs == "calibrated"
        self._margin, self._wait = settings.replan_margin, settings.replan_batches
        self._base = calibration or Calibration()
        self._better_for = 0
        self._since_change = self._since_look = 0
        self._left: set[str] = set()
        self._effect: _Effect | None = None
        self._rest = 0.0
        self._adopted = adopted
        self._declared: Plan | None = None

    @property
    def adopted(self) -> bool:
        """Whether plans are chosen by measurements: once one was, in this run or before."""
        return self._is_on and self._adopted

    def at_start(self, plan: Plan, known: RunStatistics) -> Plan:
        """The plan at the start of a run and for a changed script: by measurements, where those have chosen before."""
        self._declared = plan
        return self._best(plan, known) if self.adopted else plan

    def look(self, plan: Plan, known: RunStatistics, seconds: float = 0.0) -> Choice | None:
        """Another plan to be used from the next batch on, where it has been better for long enough. `seconds` is how
        long the last batch took.
        """
        self._rest -= seconds
        self._since_look += 1
        self._since_change += 1
        if not self._is_on or known.batches < _WARM or self._rest > 0:
            return None
        began = time.thread_time()
        choice = self._compare(plan, known)
        self._rest = _PACE * (time.thread_time() - began)
        self._since_look = 0
        return choice

    def _compare(self, plan: Plan, known: RunStatistics) -> Choice | None:
        statistics, costs = known.statistics(plan), self._costs(plan, known)
        best = replanned(self._declared or plan, statistics, costs)
        changes = list(differences(plan, best))
        if not changes:
            self._better_for = 0
            return None
        now, then = cost_of(plan, statistics, costs), cost_of(best, statistics, costs)
        margin = self._margin * (2 if _name(best) in self._left else 1)
        # The first time it is better it has been so for one batch; after that since it was compared last.
        passed = self._since_look if self._better_for else 1
        self._better_for = self._better_for + passed if then < now * (1 - margin) else 0
        if self._better_for < self._wait or self._since_change <= self._wait:
            return None
        self._left.add(_name(plan))
        self._better_for, self._since_change, self._adopted = 0, 0, True
        saved = 100 * (1 - then / now)
        return Choice(best, f"the plan is chosen again: {'; '.join(changes)}; {saved:.0f} % cheaper as measured")

    def changed(self, batch: int, cost: float) -> None:
        """A change takes effect after this batch; a row has cost so many seconds before it."""
        self._effect = _Effect(batch=batch, before=cost)

    def effect(self, cost: float) -> str:
        """What the last change has brought, once some batches have shown it; empty before, and after it was told."""
        one = self._effect
        if one is None:
            return ""
        one.after += cost
        one.batches += 1
        if one.batches < self._wait:
            return ""
        self._effect = None
        after = one.after / one.batches
        ratio = after / max(one.before, 1e-12)
        return f"since the plan was changed after batch {one.batch} a row takes {ratio:.2f} times as long"

    def _best(self, plan: Plan, known: RunStatistics) -> Plan:
        return replanned(plan, known.statistics(plan), self._costs(plan, known))

    def _costs(self, plan: Plan, known: RunStatistics) -> Costs:
        return costs_of(plan.script, known.calibration(self._base))


def _name(plan: Plan) -> str:
    """What may differ between plans of the same script."""
    return repr([(chain.signature, chain.slices, chain.access, chain.walks) for chain in plan.chains])
