"""Units of work and the ledger.

A unit is a probing segment, the segments it looks up, and an interval of the axis (a slice, or what is left of one
after the plan has changed). The ledger holds the units not yet done; it names segments and copies no rows. A probing
segment works through its intervals from the nearest to the farthest, so a policy can only choose its next interval.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from millstream.engine.on_disk import Piece
from millstream.engine.probe import differences
from millstream.engine.slice_paths import ages
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT

P = TypeVar("P", bound=Piece, covariant=True)
Lookup = tuple[tuple[Piece, ...], ...]
"""The segments that a probing segment looks up, at each of the other positions: the order of a walk may change."""


@dataclass(frozen=True, slots=True)
class Unit(Generic[P]):
    """One piece of work; the younger segment probes, from its position. Two streams meet one segment at a time.

    Segments of a unit that waits may be on disk; those of one that is done are in memory.
    """

    probe: P
    at: int
    lookup: tuple[tuple[P, ...], ...]
    interval: Interval

    @property
    def state(self) -> P:
        """What is looked up, where that is one segment."""
        return self.lookup[0][0]

    @property
    def can_match(self) -> bool:
        """Whether two segments can have pairs in the interval that a query needs: a part of a segment may not."""
        low, high = needed(self.probe, self.at, self.state)
        return max(self.interval.lo, low) < min(self.interval.hi, high)

    @property
    def within(self) -> Interval:
        """The part of the interval in which there can be pairs of two segments that a query needs."""
        low, high = needed(self.probe, self.at, self.state)
        return Interval(max(self.interval.lo, low), min(self.interval.hi, high))


def needed(probe: Piece, at: int, state: Piece) -> tuple[int, int]:
    """The range of time differences in which these two can have pairs that a query needs; empty where the first is not
    below the second.
    """
    least, greatest = differences(probe, at, state)
    left, right = (probe, state) if at == LEFT else (state, probe)
    return max(least, 1 - right.reach), min(greatest + 1, left.reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """All units of one probing segment at one position in one interval: what a policy chooses among."""

    probe: Piece
    at: int
    interval: Interval
    lookups: tuple[Lookup, ...]

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
        """The earliest time a result row can have: the latest of its rows' times."""
        return min(
            max(self.probe.first, *(min(one.first for one in some) for some in lookup)) for lookup in self.lookups
        )

    def units(self) -> Iterator[Unit[Piece]]:
        return (Unit(self.probe, self.at, lookup, self.interval) for lookup in self.lookups)


_Name = tuple[int, int]
"""A probing segment by its number, and its position. In a stream joined with itself it probes from several."""


@dataclass(slots=True, eq=False, kw_only=True)
class ProbeProgress:
    """The progress of a probing segment: its remaining tasks, the next one last, and all its intervals."""

    ledger: Ledger
    probe: Piece
    at: int
    tasks: list[Task]
    whole: tuple[Interval, ...]
    nbytes: int

    @property
    def name(self) -> _Name:
        return self.probe.number, self.at

    @property
    def stage(self) -> int:
        """How many of its intervals are done."""
        return len(self.whole) - len(self.tasks)


class Ledger:
    """The deferred units of one chain, by probing segment and interval."""

    def __init__(self) -> None:
        self._progress: dict[_Name, ProbeProgress] = {}
        self._named: Counter[int] = Counter()
        self._earliest: dict[Interval, list[tuple[int, int, _Name, int]]] = {}
        self._changed: set[_Name] = set()
        self._bytes = 0
        self._units = 0
        self.rewritten = 0
        self.now = 0.0

    def __len__(self) -> int:
        return self._units

    def memory(self) -> float:
        """Bytes of the segments that still have to probe."""
        return self._bytes

    def units(self) -> Iterator[Unit[Piece]]:
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

    def add(self, units: Iterable[Unit[Piece]]) -> None:
        """Adds units; within a task the youngest lookup comes first."""
        grouped: dict[tuple[_Name, Interval], list[Unit[Piece]]] = {}
        for unit in units:
            grouped.setdefault(((unit.probe.number, unit.at), unit.interval), []).append(unit)
        changed: dict[_Name, list[Task]] = {}
        for (name, interval), some in grouped.items():
            lookups = sorted((unit.lookup for unit in some), key=_youngest_first)
            task = Task(probe=some[0].probe, at=name[1], interval=interval, lookups=tuple(lookups))
            changed.setdefault(name, []).append(task)
            self._named.update(_numbers(lookups))
            self._units += len(lookups)
        noted: Iterable[_Name] = changed
        if not changed.keys().isdisjoint(self._progress):
            self._earliest, noted = {}, {**self._progress, **changed}  # steps are renumbered
        for tasks in changed.values():
            self._begin(tasks)
        for name in noted:
            progress = self._progress[name]
            for step, task in enumerate(reversed(progress.tasks), start=progress.stage):
                entry = (task.first, progress.probe.batch, name, step)
                heapq.heappush(self._earliest.setdefault(task.interval, []), entry)
        self._changed |= changed.keys()

    def _begin(self, tasks: list[Task]) -> None:
        probe, at = tasks[0].probe, tasks[0].at
        before = self._progress.get((probe.number, at))
        if before is None:
            self._bytes += probe.nbytes
            self.now = max(self.now, probe.batch)
        else:
            tasks += before.tasks
            self.rewritten += 1
        tasks.sort(key=lambda task: (task.near, task.far, task.interval.lo))
        whole = tuple(task.interval for task in tasks)
        self._progress[probe.number, at] = ProbeProgress(
            ledger=self, probe=probe, at=at, tasks=tasks[::-1], whole=whole, nbytes=probe.nbytes
        )

    def _is_open(self, name: _Name, step: int) -> bool:
        """Whether a probing segment has not yet done its task at this step."""
        progress = self._progress.get(name)
        return progress is not None and step >= progress.stage

    def rewrite(self, change: Callable[[Unit[Piece]], Iterable[Unit[Piece]]]) -> None:
        """Replaces every unit by the parts of it that a changed plan still needs."""
        kept = [new for unit in self.take_all() for new in change(unit)]
        self.add(kept)

    def in_progress(self) -> list[ProbeProgress]:
        return list(self._progress.values())

    def fresh(self) -> list[ProbeProgress]:
        """The probing segments added or changed since the last call."""
        fresh = [self._progress[name] for name in self._changed if name in self._progress]
        self._changed.clear()
        return fresh

    def take(self, progress: ProbeProgress) -> Unit[Piece]:
        """The next unit of a probing segment."""
        task = progress.tasks[-1]
        lookup, *others = task.lookups
        self._done((lookup,))
        if others:
            progress.tasks[-1] = replace(task, lookups=tuple(others))
        else:
            self._go_on(progress)
        return Unit(task.probe, task.at, lookup, task.interval)

    def take_task(self, progress: ProbeProgress) -> Task:
        """The next interval of a probing segment, with all it looks up at once."""
        task = progress.tasks[-1]
        self._done(task.lookups)
        self._go_on(progress)
        return task

    def take_all(self) -> list[Unit[Piece]]:
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
        return {*self._named, *(number for number, _ in self._progress)}

    def _done(self, lookups: Sequence[Lookup]) -> None:
        self._units -= len(lookups)
        named = self._named
        for number in _numbers(lookups):
            if named[number] > 1:
                named[number] -= 1
            else:
                del named[number]

    def _go_on(self, progress: ProbeProgress) -> None:
        progress.tasks.pop()
        if not progress.tasks:
            del self._progress[progress.name]
            self._bytes -= progress.nbytes


def _numbers(lookups: Iterable[Lookup]) -> Iterator[int]:
    return (one.number for lookup in lookups for some in lookup for one in some)


def _youngest_first(lookup: Lookup) -> int:
    return -max(one.batch for some in lookup for one in some)
