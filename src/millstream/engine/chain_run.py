"""A chain at work: its segments, its ledger, and one step per batch."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine import widths
from millstream.engine.arrow import Bools, Ints
from millstream.engine.chain_manifest import ChainManifest, HeldEntry, SegmentEntry, WaitingUnit
from millstream.engine.compaction import SMALL, SPANS, run_to_merge
from millstream.engine.guards import find_guards
from millstream.engine.intake import Intake, equal_columns
from millstream.engine.pairs import Conditions, MemberRun, Pairs, building, wide_columns
from millstream.engine.probe import CHUNK, Matches, differences, matches, ranges
from millstream.engine.release import Bounds, sequenced
from millstream.engine.segment import Condition, Segment, merge
from millstream.engine.serving import Layout, Served, Server
from millstream.engine.slice_paths import SlicePaths, ages
from millstream.engine.stacked import Met, Stacked
from millstream.engine.statistics import ChainStatistics
from millstream.engine.store import MemoryStore, Store
from millstream.engine.units import Ledger, Unit
from millstream.engine.work import Policy
from millstream.model.functions import Function
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, RIGHT, Chain, Slice

Deliver = Callable[[list[str], Pairs, pa.RecordBatch, Unit], None]
"""Takes rows with the names of all queries they are for."""
_WORTH_TRIMMING = 4_096
_Since = tuple[Interval, int]
"""A slice, and the first batch whose tuples some query may see in it."""


class ChainRun:
    """The state of one chain in one process."""

    def __init__(
        self,
        chain: Chain,
        functions: Mapping[str, Function],
        *,
        since: Mapping[str, int] | None = None,
        store: Store | None = None,
        strict: bool = False,
        hash_bits: int = 64,
        chunk: int = CHUNK,
    ) -> None:
        self._functions = functions
        self._store = store or MemoryStore()
        self._hash_bits = hash_bits
        self._chunk = chunk
        self._number = self._taken = self._expired = 0
        self._strict = strict
        self._conditions = Conditions(functions, self._owners)
        self._members: dict[str, MemberRun] = {}
        self.segments: dict[str, list[Segment]] = {LEFT: [], RIGHT: []}
        self.ledger = Ledger()
        self._arrived: dict[str, list[Segment]] = {LEFT: [], RIGHT: []}
        self._stored: dict[int, Segment] = {}
        self.statistics = ChainStatistics()
        self.paths = SlicePaths(self.statistics, str(chain.signature))
        self._settled: tuple[int, int, set[int]] | None = None
        self.batch = 0
        self.watermark = -(2**62)
        self.change(chain, since or {})

    def change(self, chain: Chain, since: Mapping[str, int]) -> None:
        """Takes over another plan of the same signature between batches. No row moves.

        `since` is the first batch whose tuples a query may see; units of before never serve it.
        """
        self.chain = chain
        self._members = {}
        for member in chain.members:
            with building([member.name]):
                self._members[member.name] = MemberRun(member, self._functions, since.get(member.name, 0))
        with building(self._members):
            self._guards = find_guards(chain.members, self._functions)
            self._intake = {side: self._intake_of(side) for side in (LEFT, RIGHT)}
        self._equal = {side: equal_columns(chain, side) for side in (LEFT, RIGHT)}
        self._wide_keys = wide_columns(expr for key in chain.keys for expr in (key.left, key.right))
        self._slices = [
            (piece.interval, min(self._members[name].since for name in piece.queries)) for piece in chain.slices
        ]
        self._slice_of: dict[Interval, Slice] = {piece.interval: piece for piece in chain.slices}
        self._layouts: dict[tuple[Interval, int, int], Layout] = {}
        self._youngest = max((member.since for member in self._members.values()), default=0)
        # Where nothing is routed a shorter segment has nothing to gain.
        self._spans = SPANS if any(piece.cuts for piece in chain.slices) else 1
        self.ledger.rewrite(lambda unit: self._cut(unit.probe, unit.state, unit.interval))

    def _intake_of(self, side: str) -> Intake:
        return Intake(self.chain, side, self._functions, self._conditions, self._hash_bits)

    def since(self) -> dict[str, int]:
        """The first batch whose tuples each query may see."""
        return {name: member.since for name, member in self._members.items()}

    def _owners(self, condition: Condition) -> list[str]:
        return [name for name, member in self._members.items() if condition in member.conditions.values()]

    def saved(self, held: Sequence[HeldEntry] = ()) -> ChainManifest:
        """What a later run needs to go on from here; `held` names rows that wait for their turn."""
        self.keep()
        entries = [
            SegmentEntry(
                number=s.number,
                name=self._store.name(s),
                side=side,
                batch=s.batch,
                reach=s.reach,
                rows=len(s),
                nbytes=s.nbytes,
                first=s.first,
                last=s.last,
                stamps=self._store.stamps(s),
            )
            for side, segments in self.segments.items()
            for s in segments
        ]
        units = [
            WaitingUnit(probe=u.probe.number, state=u.state.number, lo=u.interval.lo, hi=u.interval.hi)
            for u in self.ledger.units()
        ]
        return ChainManifest(
            numbered=self._number,
            taken=self._taken,
            expired=self._expired,
            segments=tuple(entries),
            ledger=tuple(units),
            held=tuple(held),
        )

    def restore(self, saved: ChainManifest) -> None:
        """Goes on where a run was saved; units come out as the plan of now cuts them."""
        self._number, self._settled = saved.numbered, None
        self._taken, self._expired = saved.taken, saved.expired
        found = {entry.number: sequenced(self._store.load(entry), strict=self._strict) for entry in saved.segments}
        self._stored = dict(found)
        for side in (LEFT, RIGHT):
            self.segments[side] = [found[entry.number] for entry in saved.segments if entry.side == side]
        waiting = [(found[unit.probe], found[unit.state], Interval(unit.lo, unit.hi)) for unit in saved.ledger]
        self.ledger = Ledger()
        self.ledger.add(unit for probe, state, within in waiting for unit in self._cut(probe, state, within))

    def arrive(self, rows: Mapping[str, pa.RecordBatch | None], batch: int) -> None:
        """Rows in time become segments; what they meet is up to whoever runs or puts off the work."""
        self.batch = batch
        self._arrived = {side: self._take_in(side, rows.get(side)) for side in (LEFT, RIGHT)}

    def _take_in(self, side: str, rows: pa.RecordBatch | None) -> list[Segment]:
        if rows is None or not rows.num_rows:
            return []
        made = self._intake[side].segments(rows, self.batch, self.chain.lanes(side), self._next_number)
        self.statistics.arrived(side, made)
        self._taken += sum(map(len, made))
        return made

    def _meet(self, side: str) -> Iterator[tuple[Segment, Sequence[Segment]]]:
        """Each new segment with the state it meets. Left ones come first and then are state, so each pair of tuples
        meets exactly once.
        """
        arrived, self._arrived[side] = self._arrived[side], []
        for probe in arrived:
            yield probe, self.segments[RIGHT if side == LEFT else LEFT]
        self.segments[side] = [*self.segments[side], *arrived]

    def run_all(self, deliver: Deliver) -> None:
        """Does everything that waits or has just arrived."""
        tasks = list(self.ledger.tasks())
        self.ledger.take_all()
        for task in tasks:
            self.execute(list(task.units()), deliver)
        for side in (LEFT, RIGHT):
            for probe, states in self._meet(side):
                for piece in self._slices:
                    self.execute(list(self._units(probe, states, [piece])), deliver)
            if side == LEFT:
                self._tidy(LEFT, set())  # so right ones meet fewer segments

    def put_off(self) -> None:
        """What has just arrived becomes units that wait; they name segments as the store holds them."""
        self.keep()
        for side in (LEFT, RIGHT):
            self._arrived[side] = [self._kept(segment) for segment in self._arrived[side]]
            for probe, states in self._meet(side):
                self.ledger.add(self._units(probe, states, self._slices))
        self.paths.refresh()

    def settle(self, watermark: int) -> None:
        """After a batch: drops segments nothing needs any more and merges small neighbours."""
        self.watermark = max(self.watermark, watermark)
        busy = self.ledger.segments()
        if self._settled == (self.watermark, self._number, busy):
            return
        for side in (LEFT, RIGHT):
            self._tidy(side, busy)
        self._settled = (self.watermark, self._number, busy)

    def keep(self) -> None:
        """The store takes in what is new and lets go of what is no more; what came and went meanwhile it never sees."""
        for side, segments in self.segments.items():
            self.segments[side] = [self._kept(segment) for segment in segments]
        alive = {segment.number for segments in self.segments.values() for segment in segments}
        for number in self._stored.keys() - alive:
            self._store.drop(self._stored.pop(number))

    def _kept(self, segment: Segment) -> Segment:
        """The segment as the store holds it."""
        known = self._stored.get(segment.number)
        if known is None:
            known = self._stored[segment.number] = self._store.keep(segment)
        return known

    def _tidy(self, side: str, busy: set[int]) -> None:
        """Without segments that have expired, small neighbours merged."""
        before = sum(map(len, self.segments[side]))
        alive = [s for s in self.segments[side] if s.number in busy or s.last + s.reach > self.watermark]
        self.segments[side] = self._compacted([self._trimmed(segment, busy) for segment in alive], busy)
        self._expired += before - sum(map(len, self.segments[side]))

    def _trimmed(self, segment: Segment, busy: set[int]) -> Segment:
        """The segment without its expired rows, once they are about half of it or a quarter of the window."""
        enough = segment.first + min((segment.last - segment.first) // 2, segment.reach // 4)
        small = len(segment) < _WORTH_TRIMMING and segment.bulk < widths.CHUNK_BYTES
        if segment.number in busy or small or enough + segment.reach > self.watermark:
            return segment
        return merge(self._next_number(), [segment], self.watermark - segment.reach)

    def bounds(self, policy: Policy) -> dict[str, Bounds]:
        """For each query, the earliest place a row still to come can have."""
        fresh = dict.fromkeys(self._members, (self.watermark, self.batch + 1, 0))
        held = dict(fresh)
        tasks = list(self.ledger.earliest())
        if any(batch < self._youngest for _, _, batch in tasks):
            tasks = [(task.interval, task.first, task.probe.batch) for task in self.ledger.tasks()]
        for interval, first, batch in tasks:
            near = ages(interval)[0]
            for name in self._piece(interval).queries:
                if self._members[name].since <= batch:
                    fresh[name] = min(fresh[name], (first, batch, near))
                    held[name] = min(held[name], (first, batch, near if policy.releases_early else 0))
        return {name: Bounds(fresh[name], held[name]) for name in self._members}

    def _units(self, probe: Segment, states: Iterable[Segment], slices: Sequence[_Since]) -> Iterator[Unit]:
        """For each state one unit per slice in which there can be pairs for a query that may see them."""
        seen = [interval for interval, since in slices if since <= probe.batch]
        for state in states:
            low, high = _needed(probe, state)
            for interval in seen if low < high else ():
                if interval.lo < high and low < interval.hi:
                    yield Unit(probe, state, interval)

    def _cut(self, probe: Segment, state: Segment, within: Interval) -> Iterator[Unit]:
        """What is left of a unit, as the plan of now cuts it."""
        for unit in self._units(probe, [state], self._slices):
            lo, hi = max(unit.interval.lo, within.lo), min(unit.interval.hi, within.hi)
            if lo < hi:
                yield Unit(probe, state, Interval(lo, hi))

    def execute(self, units: list[Unit], deliver: Deliver) -> None:
        """Does units of one probing segment in one slice."""
        if units and len(units[0].probe) < SMALL and self._execute_together(units, deliver):
            return
        for unit in units:
            server = self._server([unit], self._chunk)
            for met in self._met(unit):
                self._give_out(server.serve(self._pairs(unit, unit.state, *met)), unit, deliver)
            self._give_out(server.finish(), unit, deliver)

    def _execute_together(self, units: Sequence[Unit], deliver: Deliver) -> bool:
        """Units of one small probe: their matches are put together before they are given out. Not done where one row
        has too many of them.
        """
        if self._access(units[0]) == "scan":
            return False
        found, took = [], []
        for unit in units:
            began = time.perf_counter_ns()
            found.append(ranges(unit.probe, unit.state, _within(unit)))
            took.append(time.perf_counter_ns() - began)
        met = Met([unit.state for unit in units], found)
        states = met.stacked(self._chunk)
        if states is None:
            return False
        for unit, pairs, nanoseconds in zip(units, met.of_each(), took, strict=True):
            self.statistics.done(unit.interval, unit.probe, unit.state, pairs, nanoseconds)
        server, unit = self._server(units), units[0]
        for state in states:
            self._give_out(server.serve(self._pairs(unit, state, state.rows, state.positions)), unit, deliver)
        return True

    def _access(self, unit: Unit) -> str:
        return self.chain.access.left if unit.state.side == LEFT else self.chain.access.right

    def _met(self, unit: Unit) -> Iterator[Matches]:
        """The matches of a unit, timed."""
        began, found = time.perf_counter_ns(), 0
        for some in matches(unit.probe, unit.state, _within(unit), self._access(unit), self._chunk):
            found += len(some[0])
            yield some
        self.statistics.done(unit.interval, unit.probe, unit.state, found, time.perf_counter_ns() - began)

    def _pairs(self, unit: Unit, state: Segment | Stacked, probe_rows: Ints, state_rows: Ints) -> Pairs:
        equal = self._equal[unit.probe.side]
        met = Pairs(unit.probe, state, probe_rows, state_rows, equal)
        if unit.probe.side == RIGHT:
            met = Pairs(state, unit.probe, state_rows, probe_rows, equal)
        return self._truly_equal(met)

    def _server(self, units: Sequence[Unit], enough: int = 0) -> Server:
        """For the queries that get pairs of these units, all of one probing segment and one slice."""
        looked_at = [_within(unit) for unit in units]
        within = Interval(min(one.lo for one in looked_at), max(one.hi for one in looked_at))
        piece = self._piece(units[0].interval)
        return Server(self._layout(piece, within, units[0].probe.batch), within, self._conditions, enough)

    def _layout(self, piece: Slice, within: Interval, batch: int) -> Layout:
        """The same for all pairs of a slice between the same cuts, once every query may see them."""
        place = piece.interval, bisect_right(piece.cuts, within.lo), bisect_left(piece.cuts, within.hi)
        known = self._layouts.get(place) if batch >= self._youngest else None
        if known is None:
            members = [self._members[name] for name in piece.queries if self._members[name].since <= batch]
            known = Layout(within, piece.cuts[place[1] : place[2]], members, self._guards)
            if batch >= self._youngest:
                self._layouts[place] = known
        return known

    def _give_out(self, found: Iterable[Served], unit: Unit, deliver: Deliver) -> None:
        for queries, own, rows in found:
            self.statistics.served(queries, rows.num_rows, self.batch)
            deliver(queries, own, rows, unit)

    def _piece(self, interval: Interval) -> Slice:
        """The slice in which the interval of a unit lies."""
        known = self._slice_of.get(interval)
        if known is None:
            known = next(piece for piece in self.chain.slices if piece.interval.covers(interval))
            self._slice_of[interval] = known
        return known

    def _truly_equal(self, pairs: Pairs) -> Pairs:
        """Hashed codes may collide: the keys themselves decide."""
        if self._intake[LEFT].exact:
            return pairs
        kept = np.concatenate([self._equal_keys(some) for some in pairs.cut(self._wide_keys)])
        return pairs if kept.all() else pairs.at(np.flatnonzero(kept))

    def _equal_keys(self, pairs: Pairs) -> Bools:
        kept = np.ones(len(pairs), dtype=np.bool_)
        sides = [self._intake[side].pair_keys(pairs) for side in (LEFT, RIGHT)]
        for left, right in zip(*sides, strict=True):
            equal = pc.equal(left, right)
            if pa.types.is_floating(left.type):
                equal = pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
            kept &= np.asarray(equal.to_numpy(zero_copy_only=False), dtype=np.bool_)
        return kept

    def _compacted(self, segments: Sequence[Segment], busy: set[int]) -> list[Segment]:
        by_lane: dict[int, list[Segment]] = {}
        for segment in segments:
            by_lane.setdefault(segment.reach, []).append(segment)
        for lane in by_lane.values():
            while (run := run_to_merge(lane, busy, self._spans)) is not None:
                expired = self.watermark - lane[run.start].reach
                lane[run] = [merge(self._next_number(), lane[run], expired)]
        merged = [segment for lane in by_lane.values() for segment in lane]
        return sorted(merged, key=lambda segment: (segment.batch, segment.number))

    def _next_number(self) -> int:
        self._number += 1
        return self._number


def _needed(probe: Segment, state: Segment) -> tuple[int, int]:
    """From which time difference up to which these two can have pairs that somebody needs; none where the first is not
    below the second.
    """
    least, greatest = differences(probe, state)
    left, right = (probe, state) if probe.side == LEFT else (state, probe)
    return max(least, 1 - right.reach), min(greatest + 1, left.reach)


def _within(unit: Unit) -> Interval:
    """The part of a unit's interval in which there can be pairs that somebody needs."""
    low, high = _needed(unit.probe, unit.state)
    return Interval(max(unit.interval.lo, low), min(unit.interval.hi, high))
