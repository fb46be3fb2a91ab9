"""Active disk: as lazy disk, and where memory is balanced the executor whose groups give the fewest results spills
(state-adapt section 6). The room is for more productive groups of others, which move there.
"""

from __future__ import annotations

from typing import ClassVar

from millstream.model.sizes import text as size
from millstream.pipeline.adaptation.decision import DEFAULTS, Decision, Spill, Thresholds
from millstream.pipeline.adaptation.lazy_disk import LazyDisk
from millstream.pipeline.adaptation.loads import ClusterLoad, ExecutorLoad, GroupLoad, described, total


class ActiveDisk:
    name: ClassVar[str] = "active_disk"
    spills: ClassVar[bool] = True

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self._thresholds = thresholds
        self._lazy = LazyDisk(thresholds)
        self._forced = 0
        self._acted: float | None = None

    def decide(self, load: ClusterLoad, now: float) -> Decision:
        """All that it has told slots to spill, as far as it is still on disk, is less than the state of all queries
        exceeds the memory of all executors.
        """
        decision = self._lazy.decide(load, now)
        self._forced = min(self._forced, load.disk)
        if decision.moves:
            self._acted = now
        if decision.moves or len(load.executors) == 1 or not self._lazy.is_balanced(load):
            return decision
        best, worst = (choose(load.executors, key=lambda one: (one.rate, one.name)) for choose in (max, min))
        rates = f"a group of {worst.name} gives {worst.rate:.3g} results a batch, one of {best.name} {best.rate:.3g}"
        told = f"memory is balanced; {rates}"
        if best.rate <= self._thresholds.rates * worst.rate:
            return Decision(reason=told)
        if self._acted is not None and now - self._acted < self._thresholds.between:
            return Decision(reason=f"{told}, but groups were moved or spilled {now - self._acted:.0f} s ago")
        beyond = load.needed - load.limit if load.limit else 0
        allowed = min(beyond - self._forced, int(self._thresholds.share * worst.memory))
        chosen = least_productive(worst, allowed)
        if total(chosen) < max(self._thresholds.least, 1):
            return Decision(reason=f"{told}, but {_why_not(beyond, self._forced)}")
        self._acted = now
        self._forced += total(chosen)
        slots = sorted({one.slot for one in chosen})
        return Decision(
            reason=f"{told}; {worst.name} spills {described(chosen)}",
            spills=tuple(Spill(slot, total(one for one in chosen if one.slot == slot)) for slot in slots),
        )


def least_productive(executor: ExecutorLoad, limit: int) -> list[GroupLoad]:
    """The least productive groups that fit into the limit, none before a less productive one."""
    found, left = [], limit
    for one in sorted(executor.in_memory(), key=lambda one: (one.productivity, one.group)):
        if one.nbytes > left:
            break
        found.append(one)
        left -= one.nbytes
    return found


def _why_not(beyond: int, forced: int) -> str:
    if beyond <= 0:
        return "all state fits into memory"
    return (
        f"of the {size(beyond)} that do not fit into memory {size(forced)} are spilled, and no group fits into the rest"
    )
