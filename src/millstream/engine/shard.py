"""A shard: every chain of a plan for one part of the keys, run batch by batch.

The engine is one shard with its own clocks; on Spark each slot is one. A shard is told batch numbers and watermarks,
because only whoever sees all shards can know them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from millstream.engine.arrow import microseconds
from millstream.engine.backlog import Backlog, Budget
from millstream.engine.chain_manifest import ChainManifest, HeldEntry
from millstream.engine.chain_run import ChainRun
from millstream.engine.pairs import Pairs
from millstream.engine.probe import CHUNK
from millstream.engine.release import Held, Part
from millstream.engine.store import MemoryStore, Store
from millstream.engine.units import Unit
from millstream.engine.work import Policy
from millstream.model.functions import Function
from millstream.model.stream import Stream
from millstream.plan.nodes import LEFT, RIGHT, Chain, Plan, Signature

Sink = Callable[[list[str], int, pa.RecordBatch], None]
"""Takes rows for all queries that get them, with the batch their probing tuples arrived in."""
Arrivals = Mapping[str, pa.RecordBatch]
"""The rows of a chain's sides."""


@dataclass(slots=True)
class _Running:
    chain: ChainRun
    held: dict[str, Held] = field(default_factory=dict)


class Shard:
    """`since` says for each query the first batch whose tuples it may see."""

    def __init__(
        self,
        plan: Plan,
        sink: Sink,
        *,
        since: Mapping[str, int],
        policy: Policy,
        strict: bool,
        functions: Mapping[str, Function] | None = None,
        store: Callable[[Signature], Store] = lambda _: MemoryStore(),
        chunk: int = CHUNK,
        hash_bits: int = 64,
    ) -> None:
        self.sink = sink
        self._functions = dict(functions or {})
        self._policy, self._strict = policy, strict
        self._backlog = Backlog(policy)
        self._store, self._chunk, self._hash_bits = store, chunk, hash_bits
        self._running: dict[Signature, _Running] = {}
        self.change(plan, since)

    def change(self, plan: Plan, since: Mapping[str, int]) -> None:
        """Another plan from the next batch on: chains go on with their state, new ones begin, others end."""
        running = {}
        for chain in plan.chains:
            known = self._running.get(chain.signature)
            if known is None:
                known = _Running(self._start(chain, since))
            else:
                before = known.chain.since()
                known.chain.change(chain, since)
                after = known.chain.since()
                # A query replaced by another of its name begins anew: what was held for it is not the other's.
                known.held = {
                    name: held for name, held in known.held.items() if name in after and after[name] == before[name]
                }
            running[chain.signature] = known
        self._running = running

    def _start(self, chain: Chain, since: Mapping[str, int]) -> ChainRun:
        return ChainRun(
            chain,
            self._functions,
            since=since,
            store=self._store(chain.signature),
            strict=self._strict,
            chunk=self._chunk,
            hash_bits=self._hash_bits,
        )

    def step(self, batch: int, arrivals: Mapping[Signature, Arrivals], budget: Budget) -> None:
        """Rows that are not late become state and work; then work until the budget is spent."""
        for signature, running in self._running.items():
            run, rows = running.chain, arrivals.get(signature, {})
            sides = zip((LEFT, RIGHT), run.chain.streams, strict=True)
            judged: dict[int, pa.RecordBatch] = {}
            in_time = {}
            for side, stream in sides:
                if side in rows:
                    given = rows[side]
                    if id(given) not in judged:
                        judged[id(given)] = self._in_time(stream, given, run)
                    in_time[side] = judged[id(given)]
            run.arrive(in_time, batch)
        self._work(budget)

    def step_by_step(self, batch: int, parts: Sequence[Mapping[Signature, Arrivals]], budget: Budget) -> None:
        """A batch whose rows are more than one batch of Arrow's can hold; the budget is for all its parts together."""
        for part in parts[:-1]:
            self.step(batch, part, budget if budget == Budget() else Budget(units=0))
        self.step(batch, parts[-1] if parts else {}, budget)

    def settle(self, watermarks: Mapping[Signature, int]) -> None:
        """Time has come so far: what nothing needs any more goes, and rows whose turn it is come out."""
        for signature, running in self._running.items():
            running.chain.settle(watermarks.get(signature, running.chain.watermark))
            bounds = running.chain.bounds(self._policy) if self._strict else {}
            for name, held in running.held.items():
                held.release(bounds[name] if self._strict else None, partial(self.sink, [name], running.chain.batch))

    def keep(self) -> None:
        """State goes where the store has it: at the latest when it is saved."""
        for running in self._running.values():
            running.chain.keep()

    def finish(self) -> None:
        """Does all deferred units and lets out everything that is held: no more rows will come."""
        self._work(Budget())
        for running in self._running.values():
            running.chain.settle(running.chain.watermark)
            for name, held in running.held.items():
                held.release(None, partial(self.sink, [name], running.chain.batch))

    @property
    def deferred(self) -> int:
        """How many units wait."""
        return sum(len(running.chain.ledger) for running in self._running.values())

    @property
    def choosing(self) -> int:
        """Nanoseconds spent on choosing what comes next, where a budget has left work."""
        return self._backlog.choosing

    @property
    def held_rows(self) -> int:
        """How many rows wait for their turn."""
        return sum(len(held) for running in self._running.values() for held in running.held.values())

    def chains(self) -> list[ChainRun]:
        return [running.chain for running in self._running.values()]

    def saved(self, keep: Callable[[str, pa.Table], str]) -> dict[Signature, ChainManifest]:
        """Every chain as it stands; `keep` stores rows held for their turn under a name it chooses."""
        found = {}
        for signature, running in self._running.items():
            since = running.chain.since()
            held = [
                HeldEntry(name, since[name], keep(name, held.saved()))
                for name, held in running.held.items()
                if len(held)
            ]
            found[signature] = running.chain.saved(held)
        return found

    def restore(self, saved: Mapping[Signature, ChainManifest], load: Callable[[str], pa.Table]) -> None:
        """Goes on from what was saved; a chain that was not begins empty."""
        for signature, running in self._running.items():
            manifest = saved.get(signature, ChainManifest())
            running.chain.restore(manifest)
            since = running.chain.since()
            running.held = {
                entry.query: Held.restored(load(entry.name))
                for entry in manifest.held
                if since.get(entry.query) == entry.since
            }

    def _in_time(self, stream: Stream, rows: pa.RecordBatch, run: ChainRun) -> pa.RecordBatch:
        """The rows that are not late for this chain; whoever hands rows in tells of those that are."""
        times = microseconds(rows.column(stream.time))
        if not len(times) or times.min() >= run.watermark:
            return rows
        return rows.filter(pa.array(times >= run.watermark))

    def _work(self, budget: Budget) -> None:
        if budget == Budget():
            for running in self._running.values():
                running.chain.run_all(partial(self._deliver, running))
            return
        found = {running.chain: running for running in self._running.values()}
        for chain in found:
            chain.put_off()
        self._backlog.run(
            list(found), budget, lambda chain, units: chain.execute(units, partial(self._deliver, found[chain]))
        )

    def _deliver(self, running: _Running, queries: list[str], pairs: Pairs, rows: pa.RecordBatch, unit: Unit) -> None:
        if not self._strict:
            self.sink(queries, unit.probe.batch, rows)
            return
        part = Part.of(pairs, unit, rows)
        for query in queries:
            running.held.setdefault(query, Held()).add(part)
