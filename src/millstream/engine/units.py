"""Units of work and the ledger.

A unit is a probing segment, a state segment and an interval of the axis (a slice, or what is left of one after the
plan has changed). The ledger holds the units not yet done; it names segments and copies no rows. A probing segment
works through its intervals from the nearest to the farthest, so only its next interval is ever up for choice.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from millstream.engine.segment import Segment
from millstream.model.interval import Interval


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work; the younger segment probes."""

    probe: Segment
    state: Segment
    interval: Interval


@dataclass(frozen=True, slots=True)
class Task:
    """All units of one probing segment in one interval: what a policy chooses among."""

    probe: Segment
    interval: Interval
    states: tuple[Segment, ...]

    @property
    def near(self) -> int:
        """The smallest age in the interval, whichever side of zero it lies on."""
        return max(self.interval.lo, 1 - self.interval.hi, 0)

    @property
    def far(self) -> int:
        """The age at which the interval ends."""
        return max(self.interval.hi, 1 - self.interval.lo)

    @property
    def width(self) -> int:
        return self.far - self.near


class Policy(Protocol):
    """Which task comes first: the one with the least key. Keys must not change while a task waits."""

    name: str
    releases_early: bool
    """Whether strict order lets out rows of a tuple before it has scanned the whole window, once its turn has come."""

    def key(self, task: Task) -> tuple[int, ...]: ...


class Ledger:
    """Units waiting to be done, by probing segment and interval."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Task]] = {}
        self._heads: list[tuple[tuple[int, ...], int]] = []
        self._policy: Policy | None = None

    def __len__(self) -> int:
        return sum(len(task.states) for tasks in self._waiting.values() for task in tasks)

    def units(self) -> Iterator[Unit]:
        for tasks in self._waiting.values():
            for task in tasks:
                yield from (Unit(task.probe, state, task.interval) for state in task.states)

    def tasks(self) -> Iterator[Task]:
        for tasks in self._waiting.values():
            yield from tasks

    def add(self, units: Iterable[Unit]) -> None:
        """New units; within a task the youngest state comes first."""
        grouped: dict[tuple[int, Interval], list[Unit]] = {}
        for unit in units:
            grouped.setdefault((unit.probe.number, unit.interval), []).append(unit)
        for (number, interval), some in grouped.items():
            states = sorted((unit.state for unit in some), key=lambda state: -state.batch)
            self._waiting.setdefault(number, []).append(Task(some[0].probe, interval, tuple(states)))
        for tasks in self._waiting.values():
            tasks.sort(key=lambda task: (task.near, task.far, task.interval.lo))
        self._policy = None

    def rewrite(self, change: Callable[[Unit], Iterable[Unit]]) -> None:
        """Every unit replaced by what a changed plan leaves of it."""
        kept = [new for unit in self.units() for new in change(unit)]
        self._waiting = {}
        self.add(kept)

    def take(self, policy: Policy) -> Unit | None:
        """The next unit by the policy, or None when nothing waits."""
        if self._policy is not policy:
            self._policy = policy
            self._heads = [(policy.key(tasks[0]), number) for number, tasks in self._waiting.items()]
            heapq.heapify(self._heads)
        if not self._heads:
            return None
        number = self._heads[0][1]
        tasks = self._waiting[number]
        task = tasks[0]
        if len(task.states) > 1:
            tasks[0] = Task(task.probe, task.interval, task.states[1:])
        elif len(tasks) > 1:
            tasks.pop(0)
            heapq.heapreplace(self._heads, (policy.key(tasks[0]), number))
        else:
            del self._waiting[number]
            heapq.heappop(self._heads)
        return Unit(task.probe, task.states[0], task.interval)

    def take_all(self) -> list[Unit]:
        """Everything at once, for a run that will not stop half-way."""
        units = list(self.units())
        self._waiting, self._heads = {}, []
        return units

    def segments(self) -> set[int]:
        """Numbers of all segments some unit still needs."""
        named = {task.probe.number for task in self.tasks()}
        return named | {state.number for task in self.tasks() for state in task.states}


def fused(units: Iterable[Unit]) -> Iterator[Unit]:
    """Neighbouring intervals of the same two segments as one unit.

    Starting a unit costs more than telling its pairs apart afterwards; only a run that does all its work anyway may
    fuse, because a fused unit can no longer be put off in part.
    """
    last: Unit | None = None
    for unit in sorted(units, key=lambda unit: (unit.probe.number, unit.state.number, unit.interval)):
        if last is not None and (last.probe, last.state, last.interval.hi) == (
            unit.probe,
            unit.state,
            unit.interval.lo,
        ):
            last = Unit(unit.probe, unit.state, Interval(last.interval.lo, unit.interval.hi))
            continue
        if last is not None:
            yield last
        last = unit
    if last is not None:
        yield last
