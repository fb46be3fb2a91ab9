"""Units of work and the ledger.

A unit is a probing segment, a state segment and an interval of the axis (a slice, or what is left of one after the
plan has changed). The ledger holds the units not yet done; it names segments and copies no rows. A probing segment
works through its intervals from the nearest to the farthest, so only its next interval is ever up for choice.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from millstream.engine.agenda import Agenda
from millstream.engine.path import Path
from millstream.engine.segment import Segment
from millstream.engine.slice_paths import SlicePaths, ages
from millstream.engine.work import Policy, Work
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
        return ages(self.interval)[0]

    @property
    def far(self) -> int:
        """The age at which the interval ends."""
        return ages(self.interval)[1]

    @property
    def first(self) -> int:
        """The earliest time a row of it can have: the later of its two tuples' times."""
        return min(max(self.probe.first, state.first) for state in self.states)

    def units(self) -> Iterator[Unit]:
        return (Unit(self.probe, state, self.interval) for state in self.states)


class Ledger:
    """Units waiting to be done, by probing segment and interval. To a policy it is the load it works under."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Task]] = {}
        self._whole: dict[int, tuple[Interval, ...]] = {}
        self._named: Counter[int] = Counter()
        self._agenda: Agenda[int] = Agenda()
        self._open: Counter[tuple[int, Interval]] = Counter()
        self._earliest: dict[Interval, list[tuple[int, int, int]]] = {}
        self._changed: set[int] = set()
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, int] = {}
        self._drifts = 0
        self._bytes = 0
        self._units = 0
        self.now = 0.0

    def __len__(self) -> int:
        return self._units

    def memory(self) -> float:
        """Bytes of the segments that still have to probe."""
        return self._bytes

    def units(self) -> Iterator[Unit]:
        for tasks in self._waiting.values():
            for task in tasks:
                yield from task.units()

    def tasks(self) -> Iterator[Task]:
        for tasks in self._waiting.values():
            yield from tasks

    def by_probe(self) -> Iterator[list[Task]]:
        """The tasks of each probing segment, the nearest first."""
        yield from self._waiting.values()

    def earliest(self) -> Iterator[tuple[Interval, int, int]]:
        """For each interval with work the earliest time and batch a row of it can have."""
        for interval, waiting in list(self._earliest.items()):
            while waiting and not self._open[waiting[0][2], interval]:
                del self._open[heapq.heappop(waiting)[2], interval]
            if waiting:
                yield interval, waiting[0][0], waiting[0][1]
            else:
                del self._earliest[interval]

    def add(self, units: Iterable[Unit]) -> None:
        """New units; within a task the youngest state comes first."""
        grouped: dict[tuple[int, Interval], list[Unit]] = {}
        for unit in units:
            grouped.setdefault((unit.probe.number, unit.interval), []).append(unit)
        changed = set()
        for (number, interval), some in grouped.items():
            states = sorted((unit.state for unit in some), key=lambda state: -state.batch)
            probe = some[0].probe
            if number not in self._waiting:
                self._waiting[number] = []
                self._sizes[number] = probe.nbytes
                self._bytes += self._sizes[number]
            task = Task(probe, interval, tuple(states))
            self._waiting[number].append(task)
            self._open[number, interval] += 1
            heapq.heappush(self._earliest.setdefault(interval, []), (task.first, probe.batch, number))
            self._named.update([*(state.number for state in states), *[number] * len(states)])
            self._units += len(states)
            self.now = max(self.now, probe.batch)
            changed.add(number)
        for number in changed:
            self._waiting[number].sort(key=lambda task: (task.near, task.far, task.interval.lo))
            self._whole[number] = tuple(task.interval for task in self._waiting[number])
            self._paths.pop(number, None)
        self._changed |= changed

    def rewrite(self, change: Callable[[Unit], Iterable[Unit]]) -> None:
        """Every unit replaced by what a changed plan leaves of it."""
        kept = [new for unit in self.take_all() for new in change(unit)]
        self.add(kept)

    def take(self, policy: Policy, paths: SlicePaths) -> Unit | None:
        """The next unit by the policy, or None when nothing waits."""
        task = self._first(policy, paths)
        if task is None:
            return None
        number, (state, *others) = task.probe.number, task.states
        self._done(number, state)
        if others:
            self._waiting[number][0] = Task(task.probe, task.interval, tuple(others))
        else:
            self._finished(number)
        return Unit(task.probe, state, task.interval)

    def take_task(self, policy: Policy, paths: SlicePaths) -> Task | None:
        """The next interval of a probing segment, against all states at once."""
        task = self._first(policy, paths)
        if task is not None:
            for state in task.states:
                self._done(task.probe.number, state)
            self._finished(task.probe.number)
        return task

    def take_all(self) -> list[Unit]:
        """Everything at once, for a run that will not stop half-way."""
        units = list(self.units())
        self._waiting, self._whole, self._paths, self._sizes = {}, {}, {}, {}
        self._named.clear()
        self._open.clear()
        self._earliest.clear()
        self._agenda.clear()
        self._changed.clear()
        self._bytes = self._units = 0
        return units

    def segments(self) -> set[int]:
        """Numbers of all segments some unit still needs."""
        return set(self._named)

    def _first(self, policy: Policy, paths: SlicePaths) -> Task | None:
        if paths.drifts != self._drifts:
            self._drifts = paths.drifts
            self._paths.clear()
            self._agenda.clear()
            self._changed |= self._waiting.keys()
        for number in self._changed:
            if number in self._waiting:
                self._agenda.put(number, self._work(number, paths))
        self._changed.clear()
        chosen = self._agenda.choose(policy, self, paths.plans)
        return None if chosen is None else self._waiting[chosen][0]

    def _work(self, number: int, paths: SlicePaths) -> Work:
        tasks, whole = self._waiting[number], self._whole[number]
        probe = tasks[0].probe
        path = self._paths.get(number)
        if path is None:
            path = self._paths[number] = paths.path(probe.side, whole, self._sizes[number] / len(probe))
        return Work(path, len(whole) - len(tasks), len(probe), probe.batch, number)

    def _done(self, probe: int, state: Segment) -> None:
        self._units -= 1
        for number in (probe, state.number):
            self._named[number] -= 1
            if not self._named[number]:
                del self._named[number]

    def _finished(self, number: int) -> None:
        tasks = self._waiting[number]
        self._open[number, tasks.pop(0).interval] -= 1
        if not tasks:
            del self._waiting[number], self._whole[number]
            self._paths.pop(number, None)
            self._bytes -= self._sizes.pop(number)
            self._agenda.drop(number)
        else:
            self._changed.add(number)


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
