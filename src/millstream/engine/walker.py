"""Units of three and more streams to results: arriving rows walk from stream to stream.

At each step the partial results found so far look up the rows of the next stream by key and time. They are followed
depth first in chunks of bounded size, so a hot key needs no more memory than any other, and none of them is kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Bools, Ints, arrow_type
from millstream.engine.compiled_chain import CompiledChain, Hulls
from millstream.engine.equalities import Equalities
from millstream.engine.expressions import as_array, compile_expr, compile_filter
from millstream.engine.fan_out import PairRouter
from millstream.engine.gathered_rows import MatchRanges
from millstream.engine.intake import CODE
from millstream.engine.joiner import Joined
from millstream.engine.keys import Codes, codes
from millstream.engine.pairs import Pairs, Source, blaming, building, wide_columns
from millstream.engine.probe import in_chunks
from millstream.engine.segment import Segment
from millstream.engine.statistics import ChainStatistics
from millstream.engine.units import Unit
from millstream.errors import QueryFailed
from millstream.model.expr import Expr, sources
from millstream.model.functions import Function
from millstream.plan.nodes import Pool, PoolName, Step


class _Partial(NamedTuple):
    """Partial results, and the codes by which their rows are routed, once a row that has one is placed."""

    pairs: Pairs
    routed: Codes | None


class Walker:
    """Walks as a compiled chain says; `chunk` bounds how many partial results of a step are in memory at a time."""

    def __init__(
        self,
        compiled: CompiledChain,
        statistics: ChainStatistics,
        functions: Mapping[str, Function],
        *,
        pools: Mapping[PoolName, Pool],
        chunk: int,
        hash_bits: int,
    ) -> None:
        self._compiled, self._statistics, self._chunk = compiled, statistics, chunk
        chain = compiled.chain
        self._count = len(chain.streams)
        self._pools = pools
        self._wanted = [_wanted(compiled, position) for position in range(self._count)]
        with building(compiled.members):
            self._walks = [self._steps(walk, at, functions, hash_bits) for at, walk in enumerate(chain.walks)]

    def _steps(
        self, walk: Sequence[Step], at: int, functions: Mapping[str, Function], hash_bits: int
    ) -> list[_CompiledStep]:
        """A predicate that all queries have is evaluated at the first step that has its columns."""
        members = self._compiled.chain.members
        common = [expr for expr in members[0].residual if all(expr in member.residual for member in members)]
        placed, found = {at}, []
        for step in walk:
            before, placed = placed, placed | {step.position}
            filters = [expr for expr in common if sources(expr) <= placed and not sources(expr) <= before]
            found.append(_CompiledStep(step, self._pools[step.pool], filters, functions, self._count, hash_bits))
        return found

    def join(self, units: Sequence[Unit[Segment]]) -> Iterator[Joined]:
        """Does units one after the other."""
        for unit in units:
            compiled, batch = self._compiled, unit.probe.batch
            fan_out = compiled.fan_out(compiled.slice_of(unit.interval), unit.interval, batch)
            router = PairRouter(fan_out, unit.interval, compiled.conditions, times=self._statistics.times)
            began, found, elsewhere, emitting = time.perf_counter_ns(), 0, 0, 0
            for pairs in self._walk(unit):
                found += len(pairs)
                left = resumed = time.perf_counter_ns()
                for queries, some, rows in router.serve(pairs):
                    emitting += time.perf_counter_ns() - resumed
                    yield Joined(queries, rows, some, batch)
                    resumed = time.perf_counter_ns()
                elsewhere += time.perf_counter_ns() - left
            state = sum(len(one) for step in unit.lookup for one in step)
            spent = time.perf_counter_ns() - began - elsewhere
            self._statistics.done(unit.interval, unit.probe, state, found, spent)
            self._statistics.times.add("search", spent, len(unit.probe))
            self._statistics.times.add("emit", emitting, found)
            self._statistics.met.pairs += found

    def _walk(self, unit: Unit[Segment]) -> Iterator[Pairs]:
        """The results of a unit, chunk by chunk."""
        probe, at, hulls = unit.probe, unit.at, self._compiled.hulls(unit.interval)
        rows = np.arange(len(probe))
        wanted = self._passing(at, probe, rows)
        if wanted is not None:
            rows = rows[wanted]
        routed = self._routed_codes(self._compiled.chain.pools[at], probe)
        for start in range(0, len(rows), self._chunk):
            some = rows[start : start + self._chunk]
            nothing = Pairs((None,) * self._count, (None,) * self._count, self._compiled.equal[at])
            begun = _placed(nothing, at, probe, some, some)
            partial = _Partial(begun, None if routed is None else routed.take(some))
            for pairs in self._follow(unit, hulls, 0, partial):
                places = pairs.on_axis()
                inside = (places >= unit.interval.lo) & (places < unit.interval.hi)
                yield pairs if inside.all() else pairs.at(np.flatnonzero(inside))

    def _follow(self, unit: Unit[Segment], hulls: Hulls, number: int, partial: _Partial) -> Iterator[Pairs]:
        """All results that begin with these partial results."""
        steps = self._walks[unit.at]
        if number == len(steps):
            yield partial.pairs
            return
        for found in self._step(unit, hulls, number, partial):
            if len(found.pairs):
                yield from self._follow(unit, hulls, number + 1, found)

    def _step(self, unit: Unit[Segment], hulls: Hulls, number: int, partial: _Partial) -> Iterator[_Partial]:
        """The partial results with the rows they find at the next position."""
        step = self._walks[unit.at][number]
        segments = [one.indexed for one in unit.lookup[step.position - (step.position > unit.at)]]
        coded, valid = step.codes(partial)
        first, stop = _times(partial.pairs, step.position, hulls)
        arrived = _times_at(partial.pairs, unit.at)
        ranges = []
        for segment in segments:
            begin, end = segment.ranges(coded)
            # What a later query would see of rows that earlier ones no longer needed must not depend on chance.
            begin = segment.locate(begin, end, np.maximum(first, arrived - segment.reach + 1))
            end = segment.locate(begin, end, stop)
            if valid is not None:
                end = np.where(valid, end, begin)
            ranges.append((begin, end))
        for source, rows, positions in _matches(segments, ranges, self._chunk):
            pairs = _placed(partial.pairs, step.position, source, rows, positions)
            wanted = self._passing(step.position, source, positions)
            routed = partial.routed.take(rows) if partial.routed is not None else None
            if routed is None:
                codes_here = self._routed_codes(step.pool.name, source)
                routed = None if codes_here is None else codes_here.take(positions)
            yield step.checked(_Partial(pairs, routed), wanted)

    def _passing(self, position: int, source: Source, rows: Ints) -> Bools | None:
        """Which rows pass the selections of some query; None where all may."""
        conditions = self._wanted[position]
        if not conditions:
            return None
        passed = [self._compiled.conditions[position].passed(source, condition) for condition in conditions]
        mask = np.logical_or.reduce(passed).take(rows)
        return None if mask.all() else mask

    def _routed_codes(self, name: PoolName, source: Source) -> Codes | None:
        """The codes by which the rows of a pool are routed, where routing is by key."""
        pool = self._pools[name]
        if pool.spread.everywhere:
            return None
        if pool.is_routed:
            return source.row_keys()
        coded: Codes = source.numbers(CODE).view(np.uint64)
        return coded


class _CompiledStep:
    """A step with its expressions compiled."""

    def __init__(
        self,
        step: Step,
        pool: Pool,
        filters: Sequence[Expr],
        functions: Mapping[str, Function],
        positions: int,
        hash_bits: int,
    ) -> None:
        self.position, self.pool = step.position, pool
        self._is_same, self._hash_bits = step.same is not None, hash_bits
        kinds = [arrow_type(part.type) for part in pool.by]
        self._keys = [
            (compile_expr(expr, functions), kind) for expr, kind in zip(step.keys, kinds, strict=bool(step.keys))
        ]
        self._equalities = Equalities(step.checked, functions, positions)
        self._filter = compile_filter(filters, functions) if filters else None
        self._wide, self._wide_keys = wide_columns(filters, positions), wide_columns(step.keys, positions)

    def codes(self, partial: _Partial) -> tuple[Codes, Bools | None]:
        """The codes that partial results look for, and which of them have no null in their keys."""
        if self._is_same and partial.routed is not None:
            return partial.routed, None
        parts = [self._key_arrays(some) for some in partial.pairs.cut(self._wide_keys)]
        keys = [pa.concat_arrays(list(some)) for some in zip(*parts, strict=True)]
        valid: Bools | None = None
        for key in keys:
            if key.null_count:
                known = np.asarray(pc.is_valid(key).to_numpy(zero_copy_only=False), dtype=np.bool_)
                valid = known if valid is None else valid & known
        if valid is None:
            return codes(keys, len(partial.pairs), self._hash_bits), None
        chosen = pa.array(valid)
        found = np.zeros(len(valid), dtype=np.uint64)
        found[valid] = codes([key.filter(chosen) for key in keys], int(valid.sum()), self._hash_bits)
        return found, valid

    def _key_arrays(self, pairs: Pairs) -> list[pa.Array]:
        return [as_array(compiled(pairs.column), len(pairs), kind) for compiled, kind in self._keys]

    def checked(self, partial: _Partial, wanted: Bools | None) -> _Partial:
        """The partial results that pass what can be checked at this step."""
        if wanted is not None:
            partial = _at(partial, np.flatnonzero(wanted))
        if not len(partial.pairs):
            return partial
        kept = self._equalities.kept_positions(partial.pairs)
        if kept is not None:
            partial = _at(partial, kept)
        if self._filter is None or not len(partial.pairs):
            return partial
        passing, start = [], 0
        try:
            with blaming(()):
                for some in partial.pairs.cut(self._wide):
                    passing.append(self._filter(some.column, len(some)) + start)
                    start += len(some)
        except QueryFailed:
            return partial  # the queries evaluate it on whole results, which may not include the failing rows
        return _at(partial, np.concatenate(passing))


def _wanted(compiled: CompiledChain, position: int) -> list[frozenset[Expr]]:
    """The selections at a position of which a row must pass one; none where some query takes all rows."""
    conditions = {member.conditions[position] for member in compiled.members.values()}
    return [] if frozenset() in conditions else sorted(conditions, key=lambda one: sorted(map(repr, one)))


def _at(partial: _Partial, positions: Ints) -> _Partial:
    if len(positions) == len(partial.pairs):
        return partial
    routed = None if partial.routed is None else partial.routed.take(positions)
    return _Partial(partial.pairs.at(positions), routed)


def _placed(pairs: Pairs, position: int, source: Source, rows: Ints, positions: Ints) -> Pairs:
    """The partial results at these rows, with the rows of one more position."""
    some = [None if one is None else one.take(rows) for one in pairs.rows]
    some[position] = positions
    known = list(pairs.sources)
    known[position] = source
    return Pairs(tuple(known), tuple(some), pairs.equal)


def _times(pairs: Pairs, position: int, hulls: Hulls) -> tuple[Ints, Ints]:
    """From when, and until when, the rows at a position may be for each partial result."""
    first: Ints | None = None
    stop: Ints | None = None
    for placed, source, rows in pairs.placed():
        times, hull = source.times.take(rows, mode="clip"), hulls[placed, position]
        low, high = times + hull.lo, times + hull.hi
        first = low if first is None else np.maximum(first, low)
        stop = high if stop is None else np.minimum(stop, high)
    if first is None or stop is None:
        raise ValueError("no position is placed")
    return first, stop


def _times_at(pairs: Pairs, position: int) -> Ints:
    return next(source.times.take(rows, mode="clip") for at, source, rows in pairs.placed() if at == position)


def _matches(
    segments: Sequence[Segment], ranges: Sequence[tuple[Ints, Ints]], chunk: int
) -> Iterator[tuple[Source, Ints, Ints]]:
    """Where matches are, the partial results they belong to and their rows, a bounded number at a time."""
    met = MatchRanges(segments, ranges)
    stacked = met.stacked(chunk)
    if stacked is not None:
        for some in stacked:
            yield some, some.rows, some.positions
        return
    for segment, (begin, end) in zip(segments, ranges, strict=True):
        rows = (end > begin).nonzero()[0]
        if len(rows):
            counts = (end - begin).take(rows)
            for owners, found in in_chunks(rows, begin.take(rows), counts, chunk):
                yield segment, owners, found
