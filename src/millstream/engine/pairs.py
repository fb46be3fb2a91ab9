"""Pairs of matched rows and the rows of each query they become.

A chunk of pairs is brought into the order of the cuts inside its slice, so that each query's pairs are one contiguous
stretch; columns are gathered once and handed to every query as views. Only conditions that differ between queries and
residual predicates cost each query something of its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import Bools, Ints, arrow_type
from millstream.engine.expressions import Compiled, as_array, compile_condition, compile_expr, compile_filter
from millstream.engine.guards import Guard
from millstream.engine.segment import Condition, Segment
from millstream.engine.stacked import Stacked
from millstream.errors import MillstreamError, QueryFailed
from millstream.model.expr import Column, moved
from millstream.model.functions import Function
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, RIGHT, Member

_FEW, _MANY = 4, 32
Place = tuple[int, str]
"""A column by its source, 0 or 1, and its name."""


@dataclass(slots=True)
class Pairs:
    """Matched rows of a left and a right segment, one of which may be stacked.

    `equal` names, for a column, the one of the other side that holds the same values: that of the probing rows, which
    are fewer and at hand.
    """

    left: Segment | Stacked
    right: Segment | Stacked
    left_rows: Ints
    right_rows: Ints
    equal: Mapping[Place, Place]
    _gathered: dict[Place, pa.Array] = field(default_factory=dict)
    _whole: tuple[Pairs, int] | None = None
    """Of which pairs these are a stretch, and where it begins."""

    def __len__(self) -> int:
        return len(self.left_rows)

    def column(self, column: Column) -> pa.Array:
        place = (column.source, column.name)
        return self._column(self.equal.get(place, place))

    def _column(self, place: Place) -> pa.Array:
        """Gathered once. A stretch takes its part of the whole where others will want the rest of it too."""
        known = self._gathered.get(place)
        if known is not None:
            return known
        source, name = place
        if self._whole is not None:
            whole, start = self._whole
            if place in whole._gathered or 2 * len(self) >= len(whole):
                return whole._column(place).slice(start, len(self))
        segment, rows = (self.left, self.left_rows) if source == 0 else (self.right, self.right_rows)
        known = self._gathered[place] = segment.gather(name, rows)
        return known

    def differences(self) -> Ints:
        return self.right.times.take(self.right_rows) - self.left.times.take(self.left_rows)

    def at(self, positions: Ints) -> Pairs:
        left_rows, right_rows = self.left_rows.take(positions), self.right_rows.take(positions)
        return Pairs(self.left, self.right, left_rows, right_rows, self.equal)

    def stretch(self, start: int, stop: int) -> Pairs:
        """A view of neighbouring pairs."""
        if start == 0 and stop == len(self.left_rows):
            return self
        left_rows, right_rows = self.left_rows[start:stop], self.right_rows[start:stop]
        return Pairs(self.left, self.right, left_rows, right_rows, self.equal, _whole=(self, start))


class MemberRun:
    """A query at work: its predicates and columns, compiled. `since` is the first batch whose tuples it may see."""

    def __init__(self, member: Member, functions: Mapping[str, Function], since: int) -> None:
        self.name = member.name
        self.interval = member.interval
        self.since = since
        self.conditions = {LEFT: member.left, RIGHT: member.right}
        self._residual = compile_filter(member.residual, functions) if member.residual else None
        turned: Callable[[int], int] = (lambda source: 1 - source) if member.flipped else (lambda source: source)
        outputs = [(output.name, moved(output.expr, turned)) for output in member.query.outputs]
        self.schema = pa.schema([pa.field(name, arrow_type(expr.type)) for name, expr in outputs])
        self._kinds = self.schema.types
        self._compiled: list[Compiled] = [compile_expr(expr, functions) for _, expr in outputs]
        self.takes_all = not (member.left or member.right or member.residual)
        # A text, because a text knows its hash.
        parts = (outputs, sorted(map(repr, member.left)), sorted(map(repr, member.right)), member.residual)
        self.family = repr(parts)

    def rows(self, pairs: Pairs) -> pa.RecordBatch:
        """The SELECT list over pairs."""
        with blaming([self.name]):
            columns = [
                as_array(compiled(pairs.column), len(pairs), kind)
                for compiled, kind in zip(self._compiled, self._kinds, strict=True)
            ]
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def residual(self, pairs: Pairs) -> Ints | None:
        """The positions of the pairs that pass the residual predicate; None where there is none."""
        if self._residual is None or not len(pairs):
            return None
        with blaming([self.name]):
            return self._residual(pairs.column, len(pairs))


class Conditions:
    """Selections compiled once, evaluated once per segment. `owners` names the queries that ask for a selection."""

    def __init__(self, functions: Mapping[str, Function], owners: Callable[[Condition], Iterable[str]]) -> None:
        self._functions = functions
        self._owners = owners
        self._compiled: dict[Condition, Callable[[Callable[[Column], pa.Array], int], Bools]] = {}

    def passed(self, segment: Segment | Stacked, condition: Condition) -> Bools:
        return segment.passes(condition, lambda one: self.on(one.rows, condition))

    def on(self, rows: pa.RecordBatch, condition: Condition) -> Bools:
        """Which of these rows pass."""
        if condition not in self._compiled:
            ordered = sorted(condition, key=repr)
            self._compiled[condition] = compile_condition(ordered, self._functions)
        with blaming(self._owners(condition)):
            return self._compiled[condition](lambda column: rows.column(column.name), rows.num_rows)


@contextmanager
def blaming(queries: Iterable[str]) -> Iterator[None]:
    """Whatever an expression raises on its rows (a user's function may raise anything) is these queries' failure."""
    try:
        yield
    except MillstreamError:
        raise
    except Exception as error:
        raise QueryFailed(queries, f"{type(error).__name__}: {error}") from error


def routed(differences: Ints, cuts: Sequence[int]) -> tuple[Ints, list[int]]:
    """The order that brings pairs of one class together (classes end at `cuts`), and where each class ends in it."""
    count = len(differences)
    if len(cuts) > _MANY:
        wide = np.searchsorted(np.array(cuts), differences, side="right").astype(np.uint16)
        sizes = np.bincount(wide, minlength=len(cuts) + 1)
        return np.argsort(wide, kind="stable"), [0, *np.cumsum(sizes).tolist()]
    # comparing with every cut is several times faster than a search among them, which mispredicts its branches
    classes, ends = np.zeros(count, dtype=np.uint8), [0]
    for cut in cuts:
        above = differences >= cut
        classes += above.view(np.uint8)
        ends.append(count - int(np.count_nonzero(above)))
    if len(cuts) < _FEW:
        order = np.concatenate([np.flatnonzero(classes == some) for some in range(len(cuts) + 1)])
    else:
        order = np.argsort(classes, kind="stable")
    return order, [*ends, count]


Served = tuple[list[MemberRun], Pairs, pa.RecordBatch]


class Server:
    """Rows with all queries that get them, for pairs of the same two segments, chunk by chunk.

    `within` bounds the differences of all pairs, `cuts` lie inside it. Queries behind a guard see only what it lets
    through, once that is enough to be worth looking at.
    """

    def __init__(
        self,
        within: Interval,
        cuts: Sequence[int],
        members: Iterable[MemberRun],
        conditions: Conditions,
        guards: Mapping[str, Guard],
        enough: int = 0,
    ) -> None:
        self._within, self._cuts, self._conditions, self._enough = within, cuts, conditions, enough
        self._behind: dict[Guard | None, list[MemberRun]] = {}
        for member in members:
            self._behind.setdefault(guards.get(member.name), []).append(member)
        self._waiting: dict[Guard, list[Pairs]] = {}

    def serve(self, pairs: Pairs) -> Iterator[Served]:
        if not len(pairs):
            return
        for guard in self._behind:
            passed = pairs if guard is None else _passed(guard, pairs, self._within)
            if guard is None or passed is pairs:
                yield from self._look_at(passed, guard)
                continue
            waiting = self._waiting.setdefault(guard, [])
            waiting.append(passed)
            if sum(map(len, waiting)) >= self._enough:
                yield from self._look_at(_joined(self._waiting.pop(guard)), guard)

    def finish(self) -> Iterator[Served]:
        """What still waits behind guards."""
        for guard, waiting in self._waiting.items():
            yield from self._look_at(_joined(waiting), guard)

    def _look_at(self, pairs: Pairs, guard: Guard | None) -> Iterator[Served]:
        if len(pairs):
            yield from _serve(pairs, self._within, self._cuts, self._behind[guard], self._conditions)


def _joined(parts: Sequence[Pairs]) -> Pairs:
    """Pairs of the same segments as one."""
    some = parts[0]
    if len(parts) == 1:
        return some
    left_rows, right_rows = (
        np.concatenate(rows) for rows in zip(*((p.left_rows, p.right_rows) for p in parts), strict=True)
    )
    return Pairs(some.left, some.right, left_rows, right_rows, some.equal)


def _passed(guard: Guard, pairs: Pairs, within: Interval) -> Pairs:
    """The pairs a guard lets through, or all where they are so many that a guard is of no use."""
    inside = pairs
    if not guard.hull.covers(within):
        apart = pairs.differences()
        inside = pairs.at(np.flatnonzero((apart >= guard.hull.lo) & (apart < guard.hull.hi)))
        if not len(inside):
            return inside
    try:
        with blaming(()):
            passing = guard.passing(inside.column, len(inside))
    except QueryFailed:
        return pairs  # the queries that it concerns will meet it again
    return pairs if len(passing) * 2 > len(pairs) else inside.at(passing)


def _serve(
    pairs: Pairs, within: Interval, cuts: Sequence[int], members: Sequence[MemberRun], conditions: Conditions
) -> Iterator[Served]:
    """Every row is made once, however many queries want it. Queries that differ in nothing but their
    windows are a family: predicates are evaluated and rows made for the stretch that covers them all, then cut into
    pieces at the ends of their windows.
    """
    borders = [within.lo, *cuts, within.hi]
    ends = [0, len(pairs)]
    if cuts:
        order, ends = routed(pairs.differences(), cuts)
        pairs = pairs.at(order)
    families: dict[str, list[tuple[MemberRun, int, int]]] = {}
    for member in members:
        first, last = bisect_left(borders, member.interval.lo), bisect_right(borders, member.interval.hi) - 1
        if first < last and ends[first] < ends[last]:
            families.setdefault(member.family, []).append((member, first, last))
    # The widest first: narrower ones find its columns gathered.
    for family in sorted(families.values(), key=lambda some: min(f for _, f, _ in some) - max(t for _, _, t in some)):
        try:
            yield from _served(pairs, ends, family, conditions)
        except QueryFailed as failure:
            raise QueryFailed(_failing(pairs, ends, family, conditions), failure.cause) from failure


def _served(
    pairs: Pairs, ends: Sequence[int], family: Sequence[tuple[MemberRun, int, int]], conditions: Conditions
) -> Iterator[Served]:
    """The pieces of one family; each query covers the classes of pairs from its first up to its last."""
    some = family[0][0]
    marks = sorted({mark for _, first, last in family for mark in (first, last)})
    low, high = ends[marks[0]], ends[marks[-1]]
    shared = pairs.stretch(low, high)
    places = [ends[mark] - low for mark in marks]
    if not some.takes_all:
        kept = _kept(shared, some, conditions)
        if kept is not None:
            shared = shared.at(kept)
            places = np.searchsorted(kept, places).tolist()
    if not len(shared):
        return
    rows = some.rows(shared)
    for index, (start, stop) in enumerate(pairwise(places)):
        mark = marks[index]
        served = [member for member, first, last in family if first <= mark < last]
        if served and start < stop:
            yield served, shared.stretch(start, stop), rows.slice(start, stop - start)


def _kept(pairs: Pairs, member: MemberRun, conditions: Conditions) -> Ints | None:
    """Which pairs pass the member's selections and residual predicate; None where all do."""
    kept: Ints | None = None
    passed = _selected(pairs, member, conditions)
    if passed is not None and not passed.all():
        kept = np.flatnonzero(passed)
        pairs = pairs.at(kept)
    positions = member.residual(pairs)
    if positions is None or len(positions) == len(pairs):
        return kept
    return positions if kept is None else kept.take(positions)


def _selected(pairs: Pairs, member: MemberRun, conditions: Conditions) -> Bools | None:
    kept: Bools | None = None
    for segment, rows, side in ((pairs.left, pairs.left_rows, LEFT), (pairs.right, pairs.right_rows, RIGHT)):
        condition = member.conditions[side]
        if condition:
            passed = conditions.passed(segment, condition)
            if passed.all():
                continue
            mask = passed.take(rows)
            kept = mask if kept is None else kept & mask
    return kept


def _failing(
    pairs: Pairs, ends: Sequence[int], family: Sequence[tuple[MemberRun, int, int]], conditions: Conditions
) -> list[str]:
    """Those of a family that fail on their own pairs: a narrow window may never meet what a wide one fails on."""
    found = []
    for one in family:
        try:
            list(_served(pairs, ends, [one], conditions))
        except QueryFailed:
            found.append(one[0].name)
    return found
