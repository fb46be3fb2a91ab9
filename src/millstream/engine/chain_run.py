"""A running chain: the state of its two sides, its deferred units, and what a batch does with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from millstream.engine.chain_manifest import ChainManifest, DeferredUnit, HeldEntry
from millstream.engine.compiled_chain import CompiledChain
from millstream.engine.joiner import Joined, Joiner
from millstream.engine.order_bounds import order_bounds
from millstream.engine.policy import Policy
from millstream.engine.probe import CHUNK
from millstream.engine.release import Bounds, sequenced
from millstream.engine.segment import Segment
from millstream.engine.segment_log import SegmentLog, StateCounts
from millstream.engine.slice_paths import SlicePaths
from millstream.engine.statistics import ChainStatistics
from millstream.engine.store import MemoryStore, Store
from millstream.engine.units import Ledger, Unit
from millstream.engine.watermark import NEVER
from millstream.model.functions import Function
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, RIGHT, Chain


class ChainRun:
    """One chain in one process."""

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
        self._functions, self._strict = functions, strict
        self._store = store or MemoryStore()
        self._hash_bits, self._chunk = hash_bits, chunk
        self._counts = StateCounts()
        self._logs = {side: SegmentLog(side, self._store, self._counts) for side in (LEFT, RIGHT)}
        self._arrived: dict[str, list[Segment]] = {LEFT: [], RIGHT: []}
        self._settled: tuple[int, int, set[int]] | None = None
        self.ledger = Ledger()
        self.statistics = ChainStatistics()
        self.paths = SlicePaths(self.statistics, str(chain.signature))
        self.batch = 0
        self.watermark = NEVER
        self.change(chain, since or {})

    def change(self, chain: Chain, since: Mapping[str, int]) -> None:
        """Switches to another plan of the same signature between batches. No row moves."""
        self._compiled = CompiledChain(chain, self._functions, since, self._hash_bits)
        self._joiner = Joiner(self._compiled, self.statistics, self._chunk)
        self.ledger.rewrite(self._compiled.cut)

    @property
    def chain(self) -> Chain:
        return self._compiled.chain

    @property
    def segments(self) -> Mapping[str, Sequence[Segment]]:
        """The state of both sides."""
        return {side: log.segments for side, log in self._logs.items()}

    def since(self) -> dict[str, int]:
        """The first batch whose rows each query may see."""
        return self._compiled.since()

    def arrive(self, rows: Mapping[str, pa.RecordBatch], batch: int) -> None:
        """Turns rows that are not late into segments; `run_all` joins them, or `defer` makes deferred units of them."""
        self.batch = batch
        for side in (LEFT, RIGHT):
            made: list[Segment] = []
            if side in rows and rows[side].num_rows:
                intake, lanes = self._compiled.intake[side], self.chain.lanes(side)
                made = intake.segments(rows[side], batch, lanes, self._counts.next_number)
            self.statistics.arrived(side, made)
            self._counts.taken += sum(map(len, made))
            self._arrived[side] = made

    def _meet(self, side: str) -> Iterator[tuple[Segment, Sequence[Segment]]]:
        """Each new segment with the state it probes. Left segments come first and are state for the right ones, so each
        pair of rows is met exactly once.
        """
        arrived, self._arrived[side] = self._arrived[side], []
        for probe in arrived:
            yield probe, self._logs[RIGHT if side == LEFT else LEFT].segments
        self._logs[side].append(arrived)

    def run_all(self) -> Iterator[Joined]:
        """Joins all deferred units and everything that has just arrived."""
        tasks = list(self.ledger.tasks())
        self.ledger.take_all()
        for task in tasks:
            yield from self.execute(list(task.units()))
        for side in (LEFT, RIGHT):
            for probe, states in self._meet(side):
                for piece in self.chain.slices:
                    yield from self.execute(list(self._compiled.units(probe, states, piece)))
            if side == LEFT:
                self._tidy(LEFT, set())  # so that right segments probe fewer segments

    def execute(self, units: Sequence[Unit]) -> Iterator[Joined]:
        """Joins units of one probing segment in one slice."""
        for joined in self._joiner.join(units):
            self.statistics.served(joined.queries, joined.rows.num_rows, self.batch)
            yield joined

    def defer(self) -> None:
        """Makes deferred units of the segments that have just arrived; units name segments as the store holds them."""
        self.keep()
        for side in (LEFT, RIGHT):
            self._arrived[side] = [self._logs[side].kept(segment) for segment in self._arrived[side]]
            for probe, states in self._meet(side):
                self.ledger.add(self._compiled.units(probe, states))
        self.paths.refresh()

    def settle(self, watermark: int) -> None:
        """Drops state that nothing needs any more and merges small neighbours."""
        self.watermark = max(self.watermark, watermark)
        busy = self.ledger.segments()
        if self._settled == (self.watermark, self._counts.numbered, busy):
            return
        for side in (LEFT, RIGHT):
            self._tidy(side, busy)
        self._settled = (self.watermark, self._counts.numbered, busy)

    def _tidy(self, side: str, busy: set[int]) -> None:
        self._logs[side].tidy(self.watermark, busy, self._compiled.spans)

    def bounds(self, policy: Policy) -> dict[str, Bounds]:
        """For each query, the least sort key that a future result row can have."""
        return order_bounds(
            self._compiled,
            self.ledger,
            watermark=self.watermark,
            batch=self.batch,
            releases_early=policy.releases_early,
        )

    def keep(self) -> None:
        """Hands new segments to the store."""
        for log in self._logs.values():
            log.keep()

    def saved(self, held: Sequence[HeldEntry] = ()) -> ChainManifest:
        """What a later run needs to resume from here; `held` names the rows held back for order."""
        self.keep()
        units = [
            DeferredUnit(probe=one.probe.number, state=one.state.number, lo=one.interval.lo, hi=one.interval.hi)
            for one in self.ledger.units()
        ]
        return ChainManifest(
            numbered=self._counts.numbered,
            taken=self._counts.taken,
            expired=self._counts.expired,
            segments=tuple(entry for log in self._logs.values() for entry in log.saved()),
            ledger=tuple(units),
            held=tuple(held),
        )

    def restore(self, saved: ChainManifest) -> None:
        """Resumes from a saved run; its units are cut along the current plan's slices."""
        self._settled = None
        counts = self._counts
        counts.numbered, counts.taken, counts.expired = saved.numbered, saved.taken, saved.expired
        found = {entry.number: sequenced(self._store.load(entry), strict=self._strict) for entry in saved.segments}
        for side, log in self._logs.items():
            log.restore([found[entry.number] for entry in saved.segments if entry.side == side])
        waiting = [Unit(found[one.probe], found[one.state], Interval(one.lo, one.hi)) for one in saved.ledger]
        self.ledger = Ledger()
        self.ledger.add(unit for one in waiting for unit in self._compiled.cut(one))
