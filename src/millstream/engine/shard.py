"""A shard: all pools and chains of a plan for one part of the keys, run batch by batch.

The engine is one shard with its own clocks; on Spark each slot is one. A shard gets batch numbers and watermarks from
its caller, because only that sees all shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from millstream.engine.arrivals import arrivals
from millstream.engine.backlog import UNBOUNDED, Backlog, Budget
from millstream.engine.batch import BatchInput, BatchOutput, Results
from millstream.engine.chain_manifest import HeldEntry
from millstream.engine.chain_run import ChainRun
from millstream.engine.compiled_chain import owners_at
from millstream.engine.gauges import Measurements, PairCounts, StepTimes, condition_name
from millstream.engine.groups import Grouping, Groups
from millstream.engine.joiner import Joined
from millstream.engine.memory import Memory, MemoryLimit
from millstream.engine.policy import Policy
from millstream.engine.pool_manifest import PoolManifest
from millstream.engine.pool_run import Arriving, PoolRun
from millstream.engine.probe import CHUNK
from millstream.engine.release import Bounds, OrderedBuffer, OrderedRun
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.spilled import Spilled
from millstream.engine.store import HeldRows, MemoryStore, Store
from millstream.engine.watermark import NEVER
from millstream.model.functions import Function
from millstream.plan.nodes import Chain, Condition, Plan, Pool, PoolName, Signature

_IDLE = 0.5
"""For how many seconds a batch without rows cleans up."""
_Parts = Iterator[Mapping[PoolName, Arriving]]


@dataclass(slots=True)
class _Running:
    chain: ChainRun
    held: dict[str, OrderedBuffer] = field(default_factory=dict)


class Shard:
    """`since` says for each query the first batch whose rows it may see."""

    def __init__(
        self,
        plan: Plan,
        *,
        since: Mapping[str, int],
        policy: Policy,
        strict: bool,
        functions: Mapping[str, Function] | None = None,
        store: Store | None = None,
        chunk: int = CHUNK,
        hash_bits: int = 64,
    ) -> None:
        self._functions = dict(functions or {})
        self._policy, self._strict = policy, strict
        self._backlog = Backlog(policy)
        self._store, self._chunk, self._hash_bits = store or MemoryStore(), chunk, hash_bits
        self._numbered = self._batch = 0
        self._pools: dict[PoolName, PoolRun] = {}
        self._running: dict[Signature, _Running] = {}
        self.memory = Memory(Grouping(plan.script.settings.groups), strict=strict)
        self.change(plan, since)

    def change(self, plan: Plan, since: Mapping[str, int]) -> None:
        """Another plan from the next batch on: pools and chains that stay keep their state, new ones begin, others end.
        A new chain sees what the pools it reads hold already.
        """
        pools = {pool.name: self._pools.get(pool.name) or self._new_pool() for pool in plan.pools}
        gone = [run for name, run in self._pools.items() if name not in pools]
        readers = {pool.name: plan.readers(pool.name) for pool in plan.pools}
        for pool in plan.pools:
            self._use(pools[pool.name], pool, readers[pool.name])
        running = {}
        for chain in plan.chains:
            known = self._running.get(chain.signature)
            if known is None:
                known = _Running(self._start(chain, since, pools))
            else:
                before = known.chain.since()
                known.chain.change(chain, since, pools)
                after = known.chain.since()
                # A query replaced by another of its name starts afresh: rows held for the old one are not for the new
                # one.
                known.held = {
                    name: held for name, held in known.held.items() if name in after and after[name] == before[name]
                }
            running[chain.signature] = known
        for run in gone:
            run.end()
        self._plan, self._pools, self._running = plan, pools, running
        self._readers = {name: [chain.signature for chain in chains] for name, chains in readers.items()}
        self._stages = max((len(chain.streams) for chain in plan.chains), default=0)
        self.memory.pools, self.memory.chains = pools, [running.chain for running in self._running.values()]
        self._part_at_changes(since)

    def _part_at_changes(self, since: Mapping[str, int]) -> None:
        """While groups owe results, rows from before and after the coming of a query are not merged: it gets those of
        later rows only. From then on no batches are merged, because what a wider query sees of older rows depends on
        which row came last. In strict order neither, since a row's batch is part of its sort key.
        """
        spilled = self.memory.spilled
        if not spilled.by_marks:
            return
        seams = {first - 1 for first in since.values()}
        if self.memory.keeps_apart:
            seams |= {one.batch for pool in self._pools.values() for one in pool.pieces}
        for pool in self._pools.values():
            for batch in (*seams, *(() if pool.groups.is_grouped else self.memory.spilled.marks)):
                pool.part_at(batch)

    def _new_pool(self) -> PoolRun:
        return PoolRun(
            self._store,
            self._next_number,
            self.memory.grouping,
            lambda: self.memory.spilled.owing,
            strict=self._strict,
        )

    def _next_number(self) -> int:
        self._numbered += 1
        return self._numbered

    def _use(self, run: PoolRun, pool: Pool, readers: Sequence[Chain]) -> None:
        """The pool's selections and their owners follow from all chains that read it."""
        owners: dict[Condition, list[str]] = {}
        last_position = 0
        for chain in readers:
            for position in (position for position, name in chain.read_at() if name == pool.name):
                last_position = max(last_position, position)
                for condition, names in owners_at(chain.members, position).items():
                    owners.setdefault(condition, []).extend(names)
        run.use(
            pool,
            self._functions,
            owners,
            readers=[member.name for chain in readers for member in chain.members],
            last_position=last_position,
            is_routing=any(chain.is_routing for chain in readers),
            hash_bits=self._hash_bits,
        )

    def _start(self, chain: Chain, since: Mapping[str, int], pools: Mapping[PoolName, PoolRun]) -> ChainRun:
        return ChainRun(chain, self._functions, pools, since=since, chunk=self._chunk, hash_bits=self._hash_bits)

    def run_batch(self, given: BatchInput) -> BatchOutput:
        """Turns rows that are not late into state and units, then does units until the budget is spent."""
        watermarks = {
            signature: max(running.chain.watermark, given.watermarks.get(signature, NEVER))
            for signature, running in self._running.items()
        }
        taken = arrivals(given, self._plan.chains, self._readers, watermarks, numbered=self._strict)
        return BatchOutput(
            results=self._results(given, watermarks, taken.parts(watermarks)),
            rows_in=taken.rows_in,
            late=taken.late,
            greatest=taken.greatest,
            least=taken.least,
        )

    def _results(self, given: BatchInput, watermarks: Mapping[Signature, int], parts: _Parts) -> Iterator[Results]:
        budget, self._batch = given.budget, given.batch
        self.memory.measure(given.memory)
        for name, pool in self._pools.items():
            pool.reach_up_to(given.reaches.get(name))
        yield from self.advance(watermarks, given.unfinished)
        part = next(parts, {})
        while (following := next(parts, None)) is not None:
            # The budget is for all parts of a batch together.
            self._arrive(given.batch, part)
            yield from self._work(budget if budget == UNBOUNDED else Budget(units=0))
            part = following
        self._arrive(given.batch, part)
        yield from self._work(budget)
        if given.finish:
            yield from self._finish(given.memory)
        elif given.memory is not None or self.memory.spilled.by_marks:
            yield from self._fit(given)

    def _fit(self, given: BatchInput) -> Iterator[Results]:
        """Makes the state fit into memory. What waits for a budget comes before what is on disk."""
        if not self.deferred:
            yield from self._let_all_through(self.memory.bring_back(given.memory, given.batch, self.held_bytes))
            if not given.rows:
                yield from self._let_all_through(self.memory.clean_up_within(given.memory, given.batch, _IDLE))
        if given.memory is not None:
            self.memory.relieve(given.memory, given.batch, self.held_bytes)
        self._part_at_changes({"": given.batch + 1} if self._strict else {})

    def spill(self, groups: Groups) -> None:
        """Groups leave memory."""
        self.memory.spill(groups, self._batch)
        self._part_at_changes({})

    def before_leaving(self, groups: Groups) -> Iterator[Results]:
        """Finds what groups owe with rows that every slot has: another slot has not kept these for them."""
        if any(not pool.groups.is_grouped for pool in self._pools.values()):
            yield from self.clean_up(groups & self.memory.spilled.owing, keep=False)

    def clean_up(self, groups: Groups, *, keep: bool) -> Iterator[Results]:
        """Finds what groups owe; then they stay in memory, or on disk."""
        return self._let_all_through(self.memory.clean_up(groups, self._batch, keep=keep))

    def _let_all_through(self, found: Iterator[tuple[ChainRun, Joined]]) -> Iterator[Results]:
        running = {one.chain: one for one in self._running.values()}
        for chain, joined in found:
            yield from self._let_through(running[chain], joined)

    def _arrive(self, batch: int, part: Mapping[PoolName, Arriving]) -> None:
        for running in self._running.values():
            running.chain.batch = batch
        for name, pool in self._pools.items():
            pool.arrive(part.get(name, ()), batch)
        self.memory.arrived()

    def _work(self, budget: Budget) -> Iterator[Results]:
        if budget == UNBOUNDED:
            yield from self._run_all()
            return
        self._defer()
        yield from self._let_all_through(self._backlog.run(self.memory.chains, budget))

    def _run_all(self) -> Iterator[Results]:
        """Joins all deferred units and everything that has just arrived, position by position."""
        for running in self._running.values():
            for joined in running.chain.run_deferred():
                yield from self._let_through(running, joined)
        for at in range(self._stages if any(pool.fresh for pool in self._pools.values()) else 0):
            for name, pool in self._pools.items():
                if pool.last_position == at and pool.fresh and at < self._stages - 1:
                    # From here on all see what has arrived; merged, it is fewer segments to probe.
                    pool.become_state()
                    pool.tidy(self._watermark(name), frozenset())
            for running in self._running.values():
                for joined in running.chain.run_arrived(at):
                    yield from self._let_through(running, joined)
        self._forget_arrived()

    def _defer(self) -> None:
        """Makes deferred units of what has just arrived."""
        for pool in self._pools.values():
            pool.keep_fresh()
        for at in range(self._stages):
            for running in self._running.values():
                running.chain.defer(at)
        self._forget_arrived()
        for running in self._running.values():
            running.chain.paths.refresh()

    def _forget_arrived(self) -> None:
        for pool in self._pools.values():
            pool.become_state()
            pool.fresh = []

    def _watermark(self, pool: PoolName) -> int:
        """The least watermark of the chains that read a pool."""
        return min(self._running[signature].chain.watermark for signature in self._readers[pool])

    def _let_through(self, running: _Running, joined: Joined) -> Iterator[Results]:
        """Yields rows at once, or holds them back where the order is strict."""
        if not self._strict:
            yield Results(joined.queries, joined.rows, {joined.batch: joined.rows.num_rows})
            return
        part = OrderedRun.of(joined.pairs, joined.batch, joined.rows)
        for query in joined.queries:
            running.held.setdefault(query, OrderedBuffer()).add(part)

    def advance(
        self, watermarks: Mapping[Signature, int], unfinished: Mapping[Signature, int] | None = None
    ) -> Iterator[Results]:
        """Advances the watermarks: drops expired state, and releases held rows that no future row can precede, of this
        shard or of another, as `unfinished` says.
        """
        for signature, running in self._running.items():
            running.chain.settle(watermarks.get(signature, running.chain.watermark))
        self._tidy()
        own = self.memory.earliest_owed() if self._strict else None
        for signature, running in self._running.items():
            owed = min((one for one in (own, (unfinished or {}).get(signature)) if one is not None), default=None)
            bounds = running.chain.bounds(self._policy, owed) if self._strict else {}
            for name, held in running.held.items():
                yield from _released(name, held, bounds.get(name))

    def _tidy(self) -> None:
        busy = self.memory.busy()
        for name, pool in self._pools.items():
            pool.tidy(self._watermark(name), busy)

    def _finish(self, limit: MemoryLimit | None = None) -> Iterator[Results]:
        """Does all deferred units and all that is owed, and releases all held rows: no more rows will come."""
        yield from self._work(UNBOUNDED)
        yield from self._let_all_through(self.memory.clean_up_within(limit, self._batch, None))
        self._tidy()
        for running in self._running.values():
            for name, held in running.held.items():
                yield from _released(name, held, None)

    def keep(self) -> None:
        """Hands new segments to the store, at the latest when the state is saved."""
        for pool in self._pools.values():
            pool.keep()

    @property
    def deferred(self) -> int:
        """The number of deferred units."""
        return sum(len(running.chain.ledger) for running in self._running.values())

    @property
    def choosing(self) -> int:
        """Nanoseconds spent on choosing among deferred units."""
        return self._backlog.choosing

    @property
    def held_rows(self) -> int:
        """The number of rows held back for order."""
        return sum(len(held) for running in self._running.values() for held in running.held.values())

    def unfinished(self) -> dict[Signature, int]:
        """For each chain the earliest time of a result row that is deferred or owed; only strict order needs it."""
        if not self._strict:
            return {}
        owed = self.memory.earliest_owed()
        found = {}
        for signature, running in self._running.items():
            times = [first for _, first, _ in running.chain.ledger.earliest()]
            if owed is not None:
                times.append(owed)
            if times:
                found[signature] = min(times)
        return found

    @property
    def held_bytes(self) -> int:
        """What rows held back for order take in memory."""
        return sum(held.nbytes for running in self._running.values() for held in running.held.values())

    @property
    def oldest_held(self) -> int | None:
        """The first batch in which a probing row of the held rows arrived."""
        held = [held for running in self._running.values() for held in running.held.values() if len(held)]
        return min((one.oldest for one in held), default=None)

    def measured(self) -> Measurements:
        """What has been measured since this was last asked for."""
        steps, pairs, keys = StepTimes(), {}, {}
        passed: dict[tuple[PoolName, str], tuple[int, int]] = {}
        for signature, running in self._running.items():
            statistics = running.chain.statistics
            steps.add_all(statistics.times.taken())
            pairs[signature], statistics.met = statistics.met, PairCounts()
        for name, pool in self._pools.items():
            steps.add_all(pool.times.taken())
            keys[name] = pool.sketch.count
            pool.sketch.next_batch()
            passed |= {(name, condition_name(one)): counts for one, counts in pool.sampler.counts.items()}
            pool.sampler.counts = {}
        return Measurements(steps=steps, pairs=pairs, keys=keys, passed=passed)

    def chains(self) -> list[ChainRun]:
        return self.memory.chains

    def pools(self) -> list[PoolRun]:
        return list(self._pools.values())

    def saved(self, rows: HeldRows) -> ShardManifest:
        """What a later run needs to resume from here; `rows` is where rows held back for order are stored."""
        pools = {name: pool.saved() for name, pool in self._pools.items()}
        chains = {}
        for signature, running in self._running.items():
            since = running.chain.since()
            held = [
                HeldEntry(name, since[name], rows.keep(name, held.saved()))
                for name, held in running.held.items()
                if len(held)
            ]
            chains[signature] = running.chain.saved(held)
        spilled = self.memory.spilled
        return ShardManifest(
            numbered=self._numbered, spilled=dict(spilled.by_marks), owing=spilled.owing, pools=pools, chains=chains
        )

    def restore(self, saved: ShardManifest, rows: HeldRows) -> None:
        """Resumes from what was saved; a pool that was not saved begins empty."""
        self._numbered = saved.numbered
        self.memory.spilled = Spilled(dict(saved.spilled), saved.owing)
        for name, pool in self._pools.items():
            pool.restore(saved.pools.get(name, PoolManifest()), strict=self._strict)
        for signature, running in self._running.items():
            manifest = saved.chains.get(signature)
            running.chain.restore(manifest)
            since = running.chain.since()
            running.held = {}
            for entry in manifest.held if manifest else ():
                if since.get(entry.query) == entry.since:
                    running.held.setdefault(entry.query, OrderedBuffer()).take_back(rows.load(entry.name))
        for running in self._running.values():
            self._part_at_changes(running.chain.since())


def _released(query: str, held: OrderedBuffer, bounds: Bounds | None) -> Iterator[Results]:
    for rows, arrived in held.release(bounds):
        batches, counts = np.unique(arrived, return_counts=True)
        yield Results([query], rows, dict(zip(batches.tolist(), counts.tolist(), strict=True)))
