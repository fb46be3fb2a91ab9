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
        self._earliest: dict[Interval, list[tuple[int, int, int, int]]] = {}
        self._changed: set[int] = set()
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
            while waiting and not self._is_open(waiting[0][2], waiting[0][3]):
                heapq.heappop(waiting)
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
            self._named.update(state.number for state in states)
            self._units += len(states)
            self.now = max(self.now, probe.batch)
            changed.add(number)
        noted: Iterable[int] = changed
        if not changed.isdisjoint(self._whole):
            self._earliest, noted = {}, self._waiting  # places have moved
        for number in changed:
            self._waiting[number].sort(key=lambda task: (task.near, task.far, task.interval.lo))
            self._whole[number] = tuple(task.interval for task in self._waiting[number])
        for number in noted:
            done = len(self._whole[number]) - len(self._waiting[number])
            for place, task in enumerate(self._waiting[number], start=done):
                entry = (task.first, task.probe.batch, number, place)
                heapq.heappush(self._earliest.setdefault(task.interval, []), entry)
        self._changed |= changed

    def _is_open(self, number: int, place: int) -> bool:
        """Whether a probing segment has not yet done its task at this place."""
        return number in self._waiting and place >= len(self._whole[number]) - len(self._waiting[number])

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
        self._done(state)
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
                self._done(state)
            self._finished(task.probe.number)
        return task

    def take_all(self) -> list[Unit]:
        """Everything at once, for a run that will not stop half-way."""
        units = list(self.units())
        self._waiting, self._whole, self._sizes = {}, {}, {}
        self._named.clear()
        self._earliest.clear()
        self._agenda.clear()
        self._changed.clear()
        self._bytes = self._units = 0
        return units

    def segments(self) -> set[int]:
        """Numbers of all segments some unit still needs."""
        return self._named.keys() | self._waiting.keys()

    def _first(self, policy: Policy, paths: SlicePaths) -> Task | None:
        if paths.drifts != self._drifts:
            self._drifts = paths.drifts
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
        probe, rows = tasks[0].probe, len(tasks[0].probe)
        path = paths.path(probe.side, whole, self._sizes[number] / rows)
        return Work(path, len(whole) - len(tasks), rows, probe.batch, number)

    def _done(self, state: Segment) -> None:
        self._units -= 1
        left = self._named[state.number] - 1
        if left:
            self._named[state.number] = left
        else:
            del self._named[state.number]

    def _finished(self, number: int) -> None:
        tasks = self._waiting[number]
        del tasks[0]
        if not tasks:
            del self._waiting[number], self._whole[number]
            self._bytes -= self._sizes.pop(number)
            self._agenda.drop(number)
        elif number not in self._changed:
            work = self._agenda[number]
            self._agenda.put(number, Work(work.path, work.at + 1, work.queue, work.arrived, number))


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
