"""Paths of operators, and their capacity per unit of time.

Equations 2.1 to 2.3, 3.1 and 3.2 of op-sched, and the lower envelope of Chain. A row enters a path at its first stage
and leaves it at the last, whose output is consumed at once and takes no memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

_LEAST_COST = 1e-12


@dataclass(frozen=True, slots=True)
class Stage:
    """A measured operator: time and rows out per row in, memory per row. A slice covers ages near..far."""

    name: str
    cost: float
    selectivity: float = 1.0
    size_in: float = 1.0
    size_out: float = 1.0
    near: int = 0
    far: int = 0

    @property
    def release(self) -> float:
        """Memory released per unit of time (2.1)."""
        return (self.size_in - self.selectivity * self.size_out) / max(self.cost, _LEAST_COST)


class Path:
    """Stages from the leaf to the root. Figures are computed on first use."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = (*stages[:-1], replace(stages[-1], size_out=0.0))
        self.names = tuple(stage.name for stage in self.stages)

    def __repr__(self) -> str:
        return f"Path({' > '.join(self.names)})"

    @cached_property
    def capacity(self) -> float:
        """Input rows served per unit of time by the whole path (2.2)."""
        return self.rows_per_time(0, len(self.stages))

    def rows_per_time(self, start: int, stop: int) -> float:
        """The same for the stages from start to stop (3.1, with the selectivities of 2.2)."""
        share, time = 1.0, 0.0
        for stage in self.stages[start:stop]:
            time += share * stage.cost
            share *= stage.selectivity
        return 1 / max(time, _LEAST_COST)

    def released(self, start: int, stop: int) -> float:
        """Memory released per unit of time by the stages from start to stop (3.2)."""
        share = 1.0
        for stage in self.stages[start:stop]:
            share *= stage.selectivity
        kept = share * self.stages[stop - 1].size_out
        return self.rows_per_time(start, stop) * (self.stages[start].size_in - kept)

    @cached_property
    def envelope(self) -> tuple[tuple[int, int], ...]:
        """The segments of the lower envelope: from each point the steepest descent, the longest if several are equally
        steep.
        """
        stretches, start = [], 0
        while start < len(self.stages):
            stops = range(start + 1, len(self.stages) + 1)
            stop = max(stops, key=lambda stop: (self.released(start, stop), stop))
            stretches.append((start, stop))
            start = stop
        return tuple(stretches)

    @cached_property
    def slopes(self) -> tuple[float, ...]:
        """For each stage the slope of its segment of the envelope."""
        return tuple(self.released(start, stop) for start, stop in self.envelope for _ in range(start, stop))
