"""Which queries get which pairs.

A chunk of pairs is sorted by the cuts inside its slice, so that each query's pairs are one contiguous range. Columns
are gathered once and every query gets views of them. A query adds cost only where its selections differ from those of
others or where it has a residual predicate.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import Bools, Ints
from millstream.engine.gauges import StepTimes
from millstream.engine.pairs import Conditions, MemberRun, Pairs, Wide, blaming
from millstream.engine.shared_bounds import SharedBound
from millstream.engine.widths import overflowed
from millstream.errors import QueryFailed
from millstream.model.interval import Interval

_FEW, _MANY = 6, 32
Served = tuple[list[str], Pairs, pa.RecordBatch]
"""Rows, the pairs they are made of, and the names of all queries that get them."""


class FanOut:
    """Which classes of pairs each query gets; time differences are `within` an interval that contains these cuts."""

    def __init__(
        self, within: Interval, cuts: Sequence[int], members: Sequence[MemberRun], shared: Mapping[str, SharedBound]
    ) -> None:
        self.cuts = cuts
        self.wide: Wide = tuple(
            tuple({name for names in at for name in names}) for at in zip(*(one.wide for one in members), strict=True)
        )
        borders = [within.lo, *cuts, within.hi]
        found: dict[SharedBound | None, dict[str, list[_Share]]] = {}
        for member in members:
            first, last = bisect_left(borders, member.interval.lo), bisect_right(borders, member.interval.hi) - 1
            if first < last:
                behind = found.setdefault(shared.get(member.name), {})
                behind.setdefault(member.group, []).append((member, first, last))
        # The widest first: narrower ones then find the columns gathered.
        self.behind = {
            bound: sorted(map(QueryGroup, some.values()), key=QueryGroup.narrowness) for bound, some in found.items()
        }


_Share = tuple[MemberRun, int, int]
"""A query that gets the classes of pairs from the first up to but not including the last."""


class QueryGroup:
    """Queries that differ only in their windows. Predicates are evaluated and rows are made once, for the range of
    pairs that covers all the windows; the rows are then cut at the ends of the windows.
    """

    def __init__(self, shares: Sequence[_Share]) -> None:
        self._shares = shares
        self._member = shares[0][0]
        self._marks = sorted({mark for _, first, last in shares for mark in (first, last)})
        self._served = [
            [member.name for member, first, last in shares if first <= mark < last] for mark in self._marks[:-1]
        ]

    def narrowness(self) -> int:
        return self._marks[0] - self._marks[-1]

    def serve(self, pairs: Pairs, ends: Sequence[int], conditions: Sequence[Conditions]) -> Iterator[Served]:
        """The rows of each query; `ends` says where each class of pairs ends."""
        try:
            yield from self._in_halves(pairs, ends, conditions)
        except QueryFailed as failure:
            raise QueryFailed(self._failing(pairs, ends, conditions), failure.cause) from failure

    def _in_halves(self, pairs: Pairs, ends: Sequence[int], conditions: Sequence[Conditions]) -> Iterator[Served]:
        """All pairs at once; in halves where an expression's values exceed what a column can hold."""
        try:
            yield from self._pieces(pairs, ends, conditions)
        except QueryFailed as failure:
            if len(pairs) < 2 or not overflowed(failure.__cause__):
                raise
        else:
            return
        middle = len(pairs) // 2
        for start, stop in ((0, middle), (middle, len(pairs))):
            inside = [min(max(end, start), stop) - start for end in ends]
            yield from self._in_halves(pairs.part(start, stop), inside, conditions)

    def _pieces(self, pairs: Pairs, ends: Sequence[int], conditions: Sequence[Conditions]) -> Iterator[Served]:
        low = ends[self._marks[0]]
        shared = pairs.stretch(low, ends[self._marks[-1]])
        stops = [ends[mark] - low for mark in self._marks]
        kept = None if self._member.takes_all else _kept(shared, self._member, conditions)
        if kept is not None:
            shared = shared.at(kept)
            stops = np.searchsorted(kept, stops).tolist()
        if not len(shared):
            return
        rows = self._member.rows(shared)
        for served, (start, stop) in zip(self._served, pairwise(stops), strict=True):
            if served and start < stop:
                yield served, shared.stretch(start, stop), rows.slice(start, stop - start)

    def _failing(self, pairs: Pairs, ends: Sequence[int], conditions: Sequence[Conditions]) -> list[str]:
        """The queries that fail on their own pairs: a narrow window may not contain the pair that a wide one fails on.

        Empty where the failure does not repeat: then no query is to blame, and the batch fails as a whole.
        """
        found = []
        for share in self._shares:
            try:
                for _ in QueryGroup([share])._in_halves(pairs, ends, conditions):
                    pass
            except QueryFailed:
                found.append(share[0].name)
        return found


class PairRouter:
    """Turns pairs of the same two segments, chunk by chunk, into rows with all queries that get them.

    `within` contains the time differences of all pairs. Queries with a shared bound see only the pairs that pass it;
    these are collected until there are `enough` of them.
    """

    def __init__(
        self,
        fan_out: FanOut,
        within: Interval,
        conditions: Sequence[Conditions],
        enough: int = 0,
        times: StepTimes | None = None,
    ) -> None:
        self._fan_out, self._within, self._conditions, self._enough = fan_out, within, conditions, enough
        self._times = times or StepTimes()
        self._waiting: dict[SharedBound, list[Pairs]] = {}

    def serve(self, pairs: Pairs) -> Iterator[Served]:
        for some in pairs.cut(self._fan_out.wide):
            yield from self._serve(some)

    def _serve(self, pairs: Pairs) -> Iterator[Served]:
        if not len(pairs):
            return
        for bound, groups in self._fan_out.behind.items():
            passed = pairs if bound is None else _passed(bound, pairs, self._within)
            if bound is None or passed is pairs:
                yield from self._look_at(passed, groups)
                continue
            waiting = self._waiting.setdefault(bound, [])
            waiting.append(passed)
            if sum(map(len, waiting)) >= self._enough:
                yield from self._look_at_all(self._waiting.pop(bound), groups)

    def finish(self) -> Iterator[Served]:
        """Serves the pairs that are still collected."""
        for bound, waiting in self._waiting.items():
            yield from self._look_at_all(waiting, self._fan_out.behind[bound])

    def _look_at_all(self, waiting: Sequence[Pairs], groups: Sequence[QueryGroup]) -> Iterator[Served]:
        for pairs in _joined(waiting).cut(self._fan_out.wide):
            yield from self._look_at(pairs, groups)

    def _look_at(self, pairs: Pairs, groups: Sequence[QueryGroup]) -> Iterator[Served]:
        if not len(pairs):
            return
        ends = [0, len(pairs)]
        if self._fan_out.cuts:
            began = time.perf_counter_ns()
            order, ends = routed(pairs.on_axis(), self._fan_out.cuts)
            pairs = pairs.at(order)
            self._times.add("route", time.perf_counter_ns() - began, len(pairs))
        for group in groups:
            yield from group.serve(pairs, ends, self._conditions)


def routed(places: Ints, cuts: Sequence[int]) -> tuple[Ints, list[int]]:
    """The order that brings pairs of one class together (classes end at `cuts`), and where each class ends in it."""
    if len(cuts) > _MANY:
        wide = np.searchsorted(np.array(cuts), places, side="right").astype(np.uint16)
        sizes = np.bincount(wide, minlength=len(cuts) + 1)
        return np.argsort(wide, kind="stable"), [0, *np.cumsum(sizes).tolist()]
    # comparing with every cut is faster than a binary search, which mispredicts its branches (bench tricks)
    above = [places >= cut for cut in cuts]
    if len(cuts) < _FEW:
        members = [~above[0], *(one ^ other for one, other in pairwise(above)), above[-1]]
        parts = [mask.nonzero()[0] for mask in members]
        return np.concatenate(parts), [0, *accumulate(map(len, parts))]
    classes = np.zeros(len(places), dtype=np.uint8)
    for some in above:
        classes += some.view(np.uint8)
    ends = [len(places) - int(np.count_nonzero(some)) for some in above]
    return np.argsort(classes, kind="stable"), [0, *ends, len(places)]


def _joined(parts: Sequence[Pairs]) -> Pairs:
    """Several pairs of the same segments as one object."""
    some = parts[0]
    if len(parts) == 1:
        return some
    rows = tuple(np.concatenate(every) for every in zip(*(part.rows for part in parts), strict=True))
    return Pairs(some.sources, rows, some.equal)


def _passed(bound: SharedBound, pairs: Pairs, within: Interval) -> Pairs:
    """The pairs that pass a shared bound, or all of them where so many pass that the bound saves nothing."""
    inside = pairs
    if not bound.hull.covers(within):
        apart = pairs.on_axis()
        inside = pairs.at(np.flatnonzero((apart >= bound.hull.lo) & (apart < bound.hull.hi)))
        if not len(inside):
            return inside
    try:
        with blaming(()):
            passing = bound.passing(inside.column, len(inside))
    except QueryFailed:
        return pairs  # the queries evaluate the predicate themselves
    return pairs if len(passing) * 2 > len(pairs) else inside.at(passing)


def _kept(pairs: Pairs, member: MemberRun, conditions: Sequence[Conditions]) -> Ints | None:
    """Which pairs are in the member's window and pass its selections and residual predicate; None where all do."""
    kept: Ints | None = None
    passed = _selected(pairs, member, conditions)
    if passed is not None and not passed.all():
        kept = np.flatnonzero(passed)
        pairs = pairs.at(kept)
    positions = member.residual(pairs)
    if positions is None or len(positions) == len(pairs):
        return kept
    return positions if kept is None else kept.take(positions)


def _selected(pairs: Pairs, member: MemberRun, conditions: Sequence[Conditions]) -> Bools | None:
    kept = member.in_window(pairs)
    for position, source, rows in pairs.placed():
        condition = member.conditions[position]
        if condition:
            passed = conditions[position].passed(source, condition)
            if passed.all():
                continue
            mask = passed.take(rows)
            kept = mask if kept is None else kept & mask
    return kept
