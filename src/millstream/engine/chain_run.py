"""A running chain: which segments of its pools it sees, its deferred units, and what a batch does with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from millstream.engine.chain_manifest import ChainManifest, DeferredUnit, HeldEntry
from millstream.engine.compiled_chain import CompiledChain
from millstream.engine.joiner import Joined, Joiner
from millstream.engine.order_bounds import order_bounds
from millstream.engine.policy import Policy
from millstream.engine.pool_run import PoolRun
from millstream.engine.probe import CHUNK
from millstream.engine.release import Bounds
from millstream.engine.segment import Segment, merge
from millstream.engine.slice_paths import SlicePaths
from millstream.engine.statistics import ChainStatistics
from millstream.engine.units import Ledger, Unit
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
        self._views: dict[int, Segment | None] = {}
        self.ledger = Ledger()
        self.statistics = ChainStatistics()
        self.paths = SlicePaths(self.statistics, str(chain.signature))
        self.batch = 0
        self.watermark = NEVER
        self.change(chain, since or {}, pools)
        self._begin()

    def _begin(self) -> None:
        """Notes up to which batch and watermark its pools have come without it."""
        self.floors = {name: run.watermark for name, run in self._pools.items() if run.watermark > NEVER}
        self.began_after = max((one.batch for run in self._pools.values() for one in run.segments), default=0)
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

    def execute(self, units: Sequence[Unit]) -> Iterator[Joined]:
        """Joins units of one probing segment in one slice."""
        for joined in self._joiner.join(units):
            self.statistics.served(joined.queries, joined.rows.num_rows, self.batch)
            yield joined

    def _arrived(self, at: int) -> list[Segment]:
        if at >= len(self.chain.streams):
            return []
        return self._visible(self.chain.pools[at], self._pools[self.chain.pools[at]].fresh)

    def _seen_from(self, at: int) -> list[list[Segment]]:
        """The segments that a stream which arrives at a position sees at the others."""
        return [
            self._visible(step.pool, self._pools[step.pool].seen_from(at, step.position))
            for step in sorted(self.chain.walks[at], key=lambda step: step.position)
        ]

    def _visible(self, pool: PoolName, segments: list[Segment]) -> list[Segment]:
        """The segments without those whose rows came too late for this chain or had expired before it began."""
        floor = self.floors.get(pool, NEVER)
        if floor == NEVER and not any(one.hidden_from for one in segments):
            return segments
        own = [one for one in segments if self._signature not in one.hidden_from]
        return [view for one in own if (view := self._view(one, floor)) is not None]

    def _view(self, segment: Segment, floor: int) -> Segment | None:
        """A segment without the rows that had expired before this chain began: whether they are still there depends on
        chance.
        """
        if segment.batch > self.began_after or segment.first + segment.reach > floor:
            return segment
        if segment.number not in self._views:
            gone = segment.last + segment.reach <= floor
            self._views[segment.number] = None if gone else merge(segment.number, [segment], floor - segment.reach)
        return self._views[segment.number]

    def settle(self, watermark: int) -> None:
        """Advances the watermark."""
        self.watermark = max(self.watermark, watermark)
        if self._views:
            there = {one.number for run in self._pools.values() for one in run.segments}
            self._views = {number: view for number, view in self._views.items() if number in there}

    def bounds(self, policy: Policy) -> dict[str, Bounds]:
        """For each query, the least sort key that a future result row can have."""
        return order_bounds(
            self._compiled,
            self.ledger,
            watermark=self.watermark,
            batch=self.batch,
            releases_early=policy.releases_early,
        )

    def saved(self, held: Sequence[HeldEntry] = ()) -> ChainManifest:
        """What a later run needs to resume from here; `held` names the rows held back for order."""
        units = [
            DeferredUnit(
                probe=one.probe.number,
                at=one.at,
                lookup=tuple(tuple(state.number for state in step) for step in one.lookup),
                lo=one.interval.lo,
                hi=one.interval.hi,
            )
            for one in self.ledger.units()
        ]
        return ChainManifest(
            began_after=self.began_after, floors=dict(self.floors), ledger=tuple(units), held=tuple(held)
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
        found = {one.number: one for name, run in self._pools.items() for one in self._visible(name, run.segments)}
        for unit in saved.ledger:
            lookup = tuple(tuple(found[number] for number in step) for step in unit.lookup)
            whole = Unit(found[unit.probe], unit.at, lookup, Interval(unit.lo, unit.hi))
            self.ledger.add(self._compiled.cut(whole))
