"""Units of two streams to results: probes segments, routes the pairs and makes every query's rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from millstream.engine.arrow import Ints
from millstream.engine.compaction import SMALL
from millstream.engine.compiled_chain import CompiledChain
from millstream.engine.fan_out import PairRouter, Served
from millstream.engine.gathered_rows import GatheredRows, MatchRanges
from millstream.engine.gauges import candidates
from millstream.engine.pairs import Pairs
from millstream.engine.probe import Matches, matches, ranges, searched
from millstream.engine.segment import Segment
from millstream.engine.statistics import ChainStatistics
from millstream.engine.units import Unit
from millstream.model.interval import Interval


class Joined(NamedTuple):
    """Rows with all queries they are for, the pairs they come from, and the batch in which the probing rows arrived."""

    queries: list[str]
    rows: pa.RecordBatch
    pairs: Pairs
    batch: int


class Joiner:
    """Joins as a compiled chain says; `chunk` bounds how many pairs are in memory at a time."""

    def __init__(self, compiled: CompiledChain, statistics: ChainStatistics, chunk: int) -> None:
        self._compiled, self._statistics, self._chunk = compiled, statistics, chunk
        self._searching = 0

    def join(self, units: Sequence[Unit[Segment]]) -> Iterator[Joined]:
        """Does units of one probing segment in one slice."""
        began, emitting, made = time.perf_counter_ns(), 0, 0
        self._searching = 0
        together = self._together(units) if units and len(units[0].probe) < SMALL else None
        for served in together if together is not None else self._one_by_one(units):
            queries, pairs, rows = served
            emitting += time.perf_counter_ns() - began
            made += len(pairs)
            yield Joined(queries, rows, pairs, units[0].probe.batch)
            began = time.perf_counter_ns()
        emitting += time.perf_counter_ns() - began - self._searching
        self._statistics.times.add("emit", emitting, made)

    def _one_by_one(self, units: Sequence[Unit[Segment]]) -> Iterator[Served]:
        for unit in units:
            router = self._router([unit], self._chunk)
            state = searched(unit.state, self._compiled.access(1 - unit.at))
            for met in self._met(unit, state):
                yield from router.serve(self._compiled.pairs(unit.probe, unit.at, state, *met))
            yield from router.finish()

    def _together(self, units: Sequence[Unit[Segment]]) -> Iterator[Served] | None:
        """Units of one small probe: their matches are gathered before they are routed. None where one row has too many
        matches.
        """
        if self._compiled.access(1 - units[0].at) == "scan":
            return self._scanned(units)
        found, took = [], []
        for unit in units:
            began = time.perf_counter_ns()
            found.append(ranges(unit.probe, unit.at, unit.state.indexed, unit.within))
            took.append(time.perf_counter_ns() - began)
        met = MatchRanges([unit.state.indexed for unit in units], found)
        states = met.stacked(self._chunk)
        if states is None:
            return None
        for unit, pairs, nanoseconds in zip(units, met.of_each(), took, strict=True):
            self._statistics.done(unit.interval, unit.probe, len(unit.state), pairs, nanoseconds)
            self._measure(unit, "search", pairs, nanoseconds)
        router, probe, at = self._router(units), units[0].probe, units[0].at
        return (
            served
            for state in states
            for served in router.serve(self._compiled.pairs(probe, at, state, state.rows, state.positions))
        )

    def _scanned(self, units: Sequence[Unit[Segment]]) -> Iterator[Served]:
        """The same where the state is scanned."""
        router, probe, at = self._router(units), units[0].probe, units[0].at

        def served(found: Sequence[tuple[Segment, Ints, Ints]]) -> Iterator[Served]:
            state = GatheredRows.of_pairs(found)
            return router.serve(self._compiled.pairs(probe, at, state, state.rows, state.positions))

        found: list[tuple[Segment, Ints, Ints]] = []
        count = 0
        for unit in units:
            for rows, state_rows in self._met(unit, unit.state):
                if count + len(rows) > self._chunk:
                    yield from served(found)
                    found, count = [], 0
                found.append((unit.state, rows, state_rows))
                count += len(rows)
        if found:
            yield from served(found)

    def _met(self, unit: Unit[Segment], state: Segment) -> Iterator[Matches]:
        """The matches of a unit, timed."""
        began = resumed = time.perf_counter_ns()
        found = searching = 0
        access = self._compiled.access(1 - unit.at)
        for some in matches(unit.probe, unit.at, state, unit.within, access, self._chunk):
            found += len(some[0])
            searching += time.perf_counter_ns() - resumed
            yield some
            resumed = time.perf_counter_ns()
        ended = time.perf_counter_ns()
        self._statistics.done(unit.interval, unit.probe, len(unit.state), found, ended - began)
        self._measure(unit, "scan" if access == "scan" else "search", found, searching + ended - resumed)

    def _measure(self, unit: Unit[Segment], step: str, pairs: int, nanoseconds: int) -> None:
        """Counts a search, by the rows that probe, or a scan, by the pairs of rows compared."""
        within = candidates(unit.probe, unit.at, (unit.state,), unit.within)
        times = len(unit.probe) if step == "search" else round(within)
        self._searching += nanoseconds
        self._statistics.times.add(step, nanoseconds, times)
        self._statistics.met.pairs += pairs
        self._statistics.met.candidates += within

    def _router(self, units: Sequence[Unit[Segment]], enough: int = 0) -> PairRouter:
        """For the queries that get pairs of these units, all of one probing segment and one slice."""
        looked_at = [unit.within for unit in units]
        within = Interval(min(one.lo for one in looked_at), max(one.hi for one in looked_at))
        fan_out = self._compiled.fan_out(self._compiled.slice_of(units[0].interval), within, units[0].probe.batch)
        return PairRouter(fan_out, within, self._compiled.conditions, enough, self._statistics.times)
