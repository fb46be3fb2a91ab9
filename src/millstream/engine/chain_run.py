"""A running chain: which segments of its pools it sees, its deferred units, and what a batch does with them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

import numpy as np

from millstream.engine.arrow import Ints
from millstream.engine.chain_manifest import ChainManifest, DeferredUnit, HeldEntry
from millstream.engine.compiled_chain import CompiledChain
from millstream.engine.joiner import Joined, Joiner
from millstream.engine.on_disk import Piece
from millstream.engine.order_bounds import order_bounds
from millstream.engine.policy import Policy
from millstream.engine.pool_groups import Parts
from millstream.engine.pool_run import PoolRun
from millstream.engine.probe import CHUNK
from millstream.engine.productivity import GroupStatistics
from millstream.engine.release import Bounds
from millstream.engine.segment import Segment, merge
from millstream.engine.shard_manifest import Marks
from millstream.engine.slice_paths import SlicePaths
from millstream.engine.statistics import ChainStatistics
from millstream.engine.units import Ledger, P, Unit
from millstream.engine.walker import Walker
from millstream.engine.watermark import NEVER
from millstream.model.functions import Function
from millstream.model.interval import Interval
from millstream.plan.nodes import Chain, Pool, PoolName


class ChainRun:
    """One chain in one process."""

    def __init__(
        self,
        chain: Chain,
        functions: Mapping[str, Function],
        pools: Mapping[PoolName, PoolRun],
        *,
        since: Mapping[str, int] | None = None,
        hash_bits: int = 64,
        chunk: int = CHUNK,
    ) -> None:
        self._functions, self._hash_bits, self._chunk = functions, hash_bits, chunk
        self._views: dict[int, Segment] = {}
        self.ledger = Ledger()
        self.statistics = ChainStatistics()
        self.paths = SlicePaths(self.statistics, str(chain.signature))
        self.batch = 0
        self.watermark = NEVER
        self.productivity: GroupStatistics | None = None
        self._grouped: tuple[object, Ints] = (None, np.zeros(0, dtype=np.int64))
        self.change(chain, since or {}, pools)
        self._begin()

    def _begin(self) -> None:
        """Notes up to which batch and watermark its pools have come without it."""
        self.floors = {name: run.watermark for name, run in self._pools.items() if run.watermark > NEVER}
        self.began_after = max((one.batch for run in self._pools.values() for one in run.pieces), default=0)
        self._part()

    def _part(self) -> None:
        """What came before this chain and what comes later must not be merged: it sees all of the latter."""
        for name in self.floors:
            self._pools[name].part_at(self.began_after)

    def change(self, chain: Chain, since: Mapping[str, int], pools: Mapping[PoolName, PoolRun]) -> None:
        """Switches to another plan of the same signature between batches. No row moves."""
        self._signature = chain.signature
        self._compiled = CompiledChain(chain, self._functions, since)
        self._pools = {name: pools[name] for _, name in chain.read_at()}
        self._looked_up = [[step.pool for step in sorted(walk, key=lambda step: step.position)] for walk in chain.walks]
        self._joiner: Joiner | Walker = Joiner(self._compiled, self.statistics, self._chunk)
        if not chain.is_pairwise:
            self._joiner = self._walker({name: run.pool for name, run in self._pools.items()})
        self.ledger.rewrite(self._compiled.cut)

    def _walker(self, pools: Mapping[PoolName, Pool]) -> Walker:
        return Walker(
            self._compiled,
            self.statistics,
            self._functions,
            pools=pools,
            chunk=self._chunk,
            hash_bits=self._hash_bits,
        )

    @property
    def chain(self) -> Chain:
        return self._compiled.chain

    def since(self) -> dict[str, int]:
        """The first batch whose rows each query may see."""
        return self._compiled.since()

    def run_deferred(self) -> Iterator[Joined]:
        """Joins all deferred units."""
        tasks = list(self.ledger.tasks())
        self.ledger.take_all()
        for task in tasks:
            yield from self.execute(list(task.units()))

    def run_arrived(self, at: int) -> Iterator[Joined]:
        """Joins what has just arrived at a position."""
        for probe in self._arrived(at):
            seen = self._seen_from(at)
            for piece in self.chain.slices:
                yield from self.execute(list(self._compiled.units(probe, at, seen, piece)))

    def defer(self, at: int) -> None:
        """Makes deferred units of what has just arrived at a position."""
        for probe in self._arrived(at):
            self.ledger.add(self._compiled.units(probe, at, self._seen_from(at)))

    def execute(self, units: Sequence[Unit[Piece]], opened: dict[int, Segment] | None = None) -> Iterator[Joined]:
        """Joins units of one probing segment in one slice. Segments on disk are opened, once for all units where the
        caller keeps them in `opened`.
        """
        found = {} if opened is None else opened
        there = [one for unit in units if (one := self._opened(unit, found)) is not None]
        for joined in self._joiner.join(there):
            self.statistics.served(joined.queries, joined.rows.num_rows, self.batch)
            if self.productivity is not None:
                self._count(joined, self.productivity)
            yield joined

    def _count(self, joined: Joined, productivity: GroupStatistics) -> None:
        """Counts the rows of each group that have been given."""
        placed = [one for one in joined.pairs.placed() if self._pools[self.chain.pools[one[0]]].groups.is_grouped]
        found = next((one for one in placed if isinstance(one[1], Segment)), placed[0] if placed else None)
        if found is None:
            return
        position, source, rows = found
        if self._grouped[0] is not source:
            self._grouped = (source, self._pools[self.chain.pools[position]].groups.groups_of(source))
        counts = np.bincount(self._grouped[1].take(rows), minlength=len(productivity.results))
        productivity.gave(counts, len(joined.queries))

    def _opened(self, unit: Unit[Piece], opened: dict[int, Segment]) -> Unit[Segment] | None:
        """A unit with its segments in memory, as this chain sees them; None where they turn out to have no pairs."""
        if not self.floors and _is_in_memory(unit):
            return unit

        def of(piece: Piece, pool: PoolName) -> Segment:
            segment = piece if isinstance(piece, Segment) else opened.get(piece.number)
            if segment is None:
                segment = opened[piece.number] = piece.open()
            floor = self.floors.get(pool, NEVER)
            return segment if floor == NEVER else self._view(segment, floor)

        pools = self._looked_up[unit.at]
        lookup = tuple([tuple([of(one, pool) for one in some]) for pool, some in zip(pools, unit.lookup, strict=True)])
        probe = of(unit.probe, self.chain.pools[unit.at])
        found = Unit(probe, unit.at, lookup, unit.interval)
        # Of what is on disk only an outer bound of the times was known.
        return None if self.chain.is_pairwise and not found.can_match else found

    def _arrived(self, at: int) -> list[Segment]:
        if at >= len(self.chain.streams):
            return []
        return self._visible(self.chain.pools[at], self._pools[self.chain.pools[at]].fresh)

    def _seen_from(self, at: int) -> list[list[Segment]]:
        """The segments that a stream which arrives at a position sees at the others."""
        return [
            self._visible(pool, self._pools[pool].seen_from(at, place + (place >= at)))
            for place, pool in enumerate(self._looked_up[at])
        ]

    def _visible(self, pool: PoolName, segments: Sequence[P]) -> list[P]:
        """The segments without those whose rows all came too late for this chain or had expired before it began."""
        floor = self.floors.get(pool, NEVER)
        if floor == NEVER and not any(one.hidden_from for one in segments):
            return list(segments)
        return [
            one
            for one in segments
            if self._signature not in one.hidden_from and (one.batch > self.began_after or one.last + one.reach > floor)
        ]

    def _view(self, segment: Segment, floor: int) -> Segment:
        """A segment without the rows that had expired before this chain began: whether they are still there depends on
        chance.
        """
        if segment.batch > self.began_after or segment.first + segment.reach > floor:
            return segment
        if segment.number not in self._views:
            self._views[segment.number] = merge(
                segment.number, [segment], floor - segment.reach, indexed=segment.is_indexed
            )
        return self._views[segment.number]

    def part(self, parts: Parts) -> list[Unit[Piece]]:
        """Divides the deferred units as the segments of its pools have been divided, and takes out those of the first
        parts.
        """
        self._views = {}
        inside: list[Unit[Piece]] = []

        def divided(unit: Unit[Piece]) -> Iterator[Unit[Piece]]:
            for side in (0, 1):
                found = _on_side(unit, parts, side)
                if found is None or (self.chain.is_pairwise and not found.can_match):
                    continue
                if side:
                    yield found
                else:
                    inside.append(found)

        if len(self.ledger):
            self.ledger.rewrite(divided)
        return inside

    def owed(
        self,
        pieces: Mapping[PoolName, Sequence[Piece]],
        grouped: Collection[PoolName],
        marks: Marks,
        seams: Collection[int],
    ) -> Iterator[Unit[Piece]]:
        """The units between rows that came before and after a spill: at least one of a pool in groups is from before.

        `seams` are batches at which no segment has rows from both sides, beside those of the spills. Between two of
        them segments count as equally old, whatever has been merged, and that at the last position probes. Each
        position in turn is the first one with rows from before the spill.
        """
        ends = sorted({*marks, *seams, *(first - 1 for first in self.since().values())})
        for at, name in enumerate(self.chain.pools):
            pools = self._looked_up[at]
            visible = [self._visible(pool, pieces[pool]) for pool in pools]
            for probe in self._visible(name, pieces[name]):
                spills, age = bisect_left(marks, probe.batch), bisect_left(ends, probe.batch)
                if not spills:
                    continue
                seen = [
                    [one for one in some if bisect_left(ends, one.batch) < age + (place < at)]
                    for place, some in enumerate(visible)
                ]
                before = [[one for one in some if bisect_left(marks, one.batch) < spills] for some in seen]
                after = [[one for one in some if bisect_left(marks, one.batch) == spills] for some in seen]
                for turn in (turn for turn, pool in enumerate(pools) if pool in grouped):
                    earlier = [
                        after[place] if pool in grouped else seen[place] for place, pool in enumerate(pools[:turn])
                    ]
                    yield from self._compiled.units(probe, at, [*earlier, before[turn], *seen[turn + 1 :]])

    def settle(self, watermark: int) -> None:
        """Advances the watermark."""
        self.watermark = max(self.watermark, watermark)
        if self._views:
            there = {number for run in self._pools.values() for number in run.by_number()}
            self._views = {number: view for number, view in self._views.items() if number in there}

    def bounds(self, policy: Policy, owed: int | None = None) -> dict[str, Bounds]:
        """For each query, the least sort key that a future result row can have; `owed` is the earliest time that a row
        can have which spilled groups owe.
        """
        return order_bounds(
            self._compiled,
            self.ledger,
            watermark=self.watermark,
            batch=self.batch,
            releases_early=policy.releases_early,
            owed=owed,
        )

    def saved(self, held: Sequence[HeldEntry] = ()) -> ChainManifest:
        """What a later run needs to resume from here; `held` names the rows held back for order."""
        return self.saved_with(self.ledger.units(), held)

    def saved_with(self, units: Iterable[Unit[Piece]], held: Sequence[HeldEntry] = ()) -> ChainManifest:
        """The same for some of its units."""
        return ChainManifest(
            began_after=self.began_after, floors=dict(self.floors), ledger=tuple(map(_named, units)), held=tuple(held)
        )

    def restore(self, saved: ChainManifest | None) -> None:
        """Resumes from a saved run, once its pools have; its units are cut along the current plan's slices. A chain
        that was not saved begins with what its pools hold.
        """
        self._views = {}
        self.ledger = Ledger()
        if saved is None:
            self._begin()
            return
        self.began_after, self.floors = saved.began_after, dict(saved.floors)
        self._part()
        found = {number: one for run in self._pools.values() for number, one in run.by_number().items()}
        for unit in saved.ledger:
            lookup = tuple(tuple(found[number] for number in step) for step in unit.lookup)
            whole = Unit(found[unit.probe], unit.at, lookup, Interval(unit.lo, unit.hi))
            self.ledger.add(self._compiled.cut(whole))


def _is_in_memory(unit: Unit[Piece]) -> TypeGuard[Unit[Segment]]:
    return isinstance(unit.probe, Segment) and all(isinstance(one, Segment) for some in unit.lookup for one in some)


def _named(unit: Unit[Piece]) -> DeferredUnit:
    lookup = tuple(tuple(state.number for state in step) for step in unit.lookup)
    return DeferredUnit(probe=unit.probe.number, at=unit.at, lookup=lookup, lo=unit.interval.lo, hi=unit.interval.hi)


def _on_side(unit: Unit[Piece], parts: Parts, side: int) -> Unit[Piece] | None:
    """What a unit is on one side of a division. Segments of pools that every slot has are on both; without any segment
    that has been divided, a unit is on the second.
    """
    named = [unit.probe, *(one for some in unit.lookup for one in some)]
    if not side and not any(one.number in parts for one in named):
        return None
    probe = _side_of(unit.probe, parts, side)
    lookup = tuple(
        tuple(found for one in some if (found := _side_of(one, parts, side)) is not None) for some in unit.lookup
    )
    return Unit(probe, unit.at, lookup, unit.interval) if probe is not None and all(lookup) else None


def _side_of(piece: Piece, parts: Parts, side: int) -> Piece | None:
    return parts[piece.number][side] if piece.number in parts else piece
