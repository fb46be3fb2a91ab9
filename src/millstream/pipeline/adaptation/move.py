"""Move: groups go from the executor with the most memory in use to the one with the least (state-adapt section 5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from millstream.engine.groups import group_set
from millstream.model.sizes import text as size
from millstream.pipeline.adaptation.decision import DEFAULTS, Decision, Move, Thresholds
from millstream.pipeline.adaptation.loads import ClusterLoad, ExecutorLoad, GroupLoad, described, total


class Moving:
    name: ClassVar[str] = "move"
    spills: ClassVar[bool] = False

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self._thresholds = thresholds
        self._moved: float | None = None

    def decide(self, load: ClusterLoad, now: float) -> Decision:
        """Half of the difference is moved, in whole groups: the most productive of those that are not on disk."""
        most, least = extremes(load)
        if self.is_balanced(load):
            return Decision(reason=f"memory is balanced: {_compared(most, least)}")
        told = f"memory is not balanced: {_compared(most, least)}"
        if self._moved is not None and now - self._moved < self._thresholds.between:
            return Decision(reason=f"{told}, but groups were moved {now - self._moved:.0f} s ago")
        half = (most.memory - least.memory) // 2
        chosen = most_productive(most.in_memory(), half)
        if total(chosen) < max(self._thresholds.least, 1):
            return Decision(
                reason=f"{told}, but of {size(half)} only {size(total(chosen))} can be moved in whole groups"
            )
        self._moved = now
        receiver = min(least.slots, key=lambda one: (one.memory, one.slot)).slot
        moves = tuple(
            Move(group_set(one.group for one in chosen if one.slot == sender), sender, receiver)
            for sender in sorted({one.slot for one in chosen})
        )
        return Decision(
            reason=f"{told}; from {most.name} to {least.name} go {described(chosen)}",
            moves=moves,
        )

    def is_balanced(self, load: ClusterLoad) -> bool:
        most, least = extremes(load)
        return least.memory >= self._thresholds.difference * most.memory


def extremes(load: ClusterLoad) -> tuple[ExecutorLoad, ExecutorLoad]:
    """The executors with the most and the least memory in use; the same one where there is no other."""
    executors = sorted(load.executors, key=lambda one: (one.memory, one.name))
    return executors[-1], executors[0]


def most_productive(groups: Iterable[GroupLoad], limit: int) -> list[GroupLoad]:
    """The most productive groups first, as many as fit into the limit."""
    found, left = [], limit
    for one in sorted(groups, key=lambda one: (-one.productivity, one.group)):
        if one.nbytes <= left:
            found.append(one)
            left -= one.nbytes
    return found


def _compared(most: ExecutorLoad, least: ExecutorLoad) -> str:
    if most.name == least.name:
        return f"there is one executor, {most.name}, with {size(most.memory)}"
    return f"{least.name} has {size(least.memory)}, {most.name} {size(most.memory)}"
