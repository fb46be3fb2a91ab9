"""Units of work and the ledger.

A unit is a probing segment, a state segment and an interval of the axis (a slice, or what is left of one after the plan
has changed). The ledger holds the units not yet done; it names segments and copies no rows. A probing segment works
through its intervals from the nearest to the farthest, so a policy can only choose its next interval.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from millstream.engine.probe import differences
from millstream.engine.segment import Segment
from millstream.engine.slice_paths import ages
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work; the younger segment probes."""

    probe: Segment
    state: Segment
    interval: Interval

    @property
    def within(self) -> Interval:
        """The part of the interval in which there can be pairs that a query needs."""
        low, high = needed(self.probe, self.state)
        return Interval(max(self.interval.lo, low), min(self.interval.hi, high))


def needed(probe: Segment, state: Segment) -> tuple[int, int]:
    """The range of time differences in which these two can have pairs that a query needs; empty where the first is not
    below the second.
    """
    least, greatest = differences(probe, state)
    left, right = (probe, state) if probe.side == LEFT else (state, probe)
    return max(least, 1 - right.reach), min(greatest + 1, left.reach)


@dataclass(frozen=True, slots=True)
class Task:
    """All units of one probing segment in one interval: what a policy chooses among."""

    probe: Segment
    interval: Interval
    states: tuple[Segment, ...]

    @property
    def near(self) -> int:
        """The smallest age in the interval, whichever side of zero it lies on."""
        return ages(self.interval)[0]

    @property
    def far(self) -> int:
        """The age at which the interval ends."""
        return ages(self.interval)[1]

    @property
    def first(self) -> int:
        """The earliest time a result row can have: the later of its two rows' times."""
        return min(max(self.probe.first, state.first) for state in self.states)

    def units(self) -> Iterator[Unit]:
        return (Unit(self.probe, state, self.interval) for state in self.states)


@dataclass(slots=True, eq=False)
class ProbeProgress:
    """The progress of a probing segment: its remaining tasks, the next one last, and all its intervals."""

    ledger: Ledger
    probe: Segment
    tasks: list[Task]
    whole: tuple[Interval, ...]
    nbytes: int

    @property
    def at(self) -> int:
        return len(self.whole) - len(self.tasks)


class Ledger:
    """The deferred units of one chain, by probing segment and interval."""

    def __init__(self) -> None:
        self._progress: dict[int, ProbeProgress] = {}
        self._named: Counter[int] = Counter()
        self._earliest: dict[Interval, list[tuple[int, int, int, int]]] = {}
        self._changed: set[int] = set()
        self._bytes = 0
        self._units = 0
        self.rewritten = 0
        self.now = 0.0

    def __len__(self) -> int:
        return self._units

    def memory(self) -> float:
        """Bytes of the segments that still have to probe."""
        return self._bytes

    def units(self) -> Iterator[Unit]:
        for task in self.tasks():
            yield from task.units()

    def tasks(self) -> Iterator[Task]:
        for progress in self._progress.values():
            yield from reversed(progress.tasks)

    def earliest(self) -> Iterator[tuple[Interval, int, int]]:
        """For each interval with work, the earliest time and batch that a result row can have."""
        for interval, waiting in list(self._earliest.items()):
            while waiting and not self._is_open(waiting[0][2], waiting[0][3]):
                heapq.heappop(waiting)
            if waiting:
                yield interval, waiting[0][0], waiting[0][1]
            else:
                del self._earliest[interval]

    def add(self, units: Iterable[Unit]) -> None:
        """Adds units; within a task the youngest state comes first."""
        grouped: dict[tuple[int, Interval], list[Unit]] = {}
        for unit in units:
            grouped.setdefault((unit.probe.number, unit.interval), []).append(unit)
        changed: dict[int, list[Task]] = {}
        for (number, interval), some in grouped.items():
            states = sorted((unit.state for unit in some), key=lambda state: -state.batch)
            changed.setdefault(number, []).append(Task(some[0].probe, interval, tuple(states)))
            self._named.update(state.number for state in states)
            self._units += len(states)
        noted: Iterable[int] = changed
        if not changed.keys().isdisjoint(self._progress):
            self._earliest, noted = {}, {**self._progress, **changed}  # steps are renumbered
        for tasks in changed.values():
            self._begin(tasks[0].probe, tasks)
        for number in noted:
            progress = self._progress[number]
            for step, task in enumerate(reversed(progress.tasks), start=progress.at):
                entry = (task.first, progress.probe.batch, number, step)
                heapq.heappush(self._earliest.setdefault(task.interval, []), entry)
        self._changed |= changed.keys()

    def _begin(self, probe: Segment, tasks: list[Task]) -> None:
        before = self._progress.get(probe.number)
        if before is None:
            self._bytes += probe.nbytes
            self.now = max(self.now, probe.batch)
        else:
            tasks += before.tasks
            self.rewritten += 1
        tasks.sort(key=lambda task: (task.near, task.far, task.interval.lo))
        whole = tuple(task.interval for task in tasks)
        self._progress[probe.number] = ProbeProgress(self, probe, tasks[::-1], whole, probe.nbytes)

    def _is_open(self, number: int, step: int) -> bool:
        """Whether a probing segment has not yet done its task at this step."""
        progress = self._progress.get(number)
        return progress is not None and step >= progress.at

    def rewrite(self, change: Callable[[Unit], Iterable[Unit]]) -> None:
        """Replaces every unit by the parts of it that a changed plan still needs."""
        kept = [new for unit in self.take_all() for new in change(unit)]
        self.add(kept)

    def in_progress(self) -> list[ProbeProgress]:
        return list(self._progress.values())

    def fresh(self) -> list[ProbeProgress]:
        """The probing segments added or changed since the last call."""
        fresh = [self._progress[number] for number in self._changed if number in self._progress]
        self._changed.clear()
        return fresh

    def take(self, progress: ProbeProgress) -> Unit:
        """The next unit of a probing segment."""
        task = progress.tasks[-1]
        state, *others = task.states
        self._done((state,))
        if others:
            progress.tasks[-1] = Task(task.probe, task.interval, tuple(others))
        else:
            self._go_on(progress)
        return Unit(task.probe, state, task.interval)

    def take_task(self, progress: ProbeProgress) -> Task:
        """The next interval of a probing segment, against all states at once."""
        task = progress.tasks[-1]
        self._done(task.states)
        self._go_on(progress)
        return task

    def take_all(self) -> list[Unit]:
        """Takes all units, for a run without a budget."""
        units = list(self.units())
        self._progress = {}
        self._named.clear()
        self._earliest.clear()
        self._changed.clear()
        self._bytes = self._units = 0
        self.rewritten += 1
        return units

    def segments(self) -> set[int]:
        """Numbers of all segments that a unit still needs."""
        return self._named.keys() | self._progress.keys()

    def _done(self, states: tuple[Segment, ...]) -> None:
        self._units -= len(states)
        named = self._named
        for state in states:
            number = state.number
            if named[number] > 1:
                named[number] -= 1
            else:
                del named[number]

    def _go_on(self, progress: ProbeProgress) -> None:
        progress.tasks.pop()
        if not progress.tasks:
            del self._progress[progress.probe.number]
            self._bytes -= progress.nbytes
