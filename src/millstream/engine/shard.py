"""A shard: every chain of a plan for one part of the keys, run batch by batch.

The engine is one shard with its own clocks; on Spark each slot is one. A shard gets batch numbers and watermarks from
its caller, because only that sees all shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.engine.arrivals import arrivals
from millstream.engine.backlog import UNBOUNDED, Backlog, Budget
from millstream.engine.batch import BatchInput, BatchOutput, Results
from millstream.engine.chain_manifest import ChainManifest, HeldEntry
from millstream.engine.chain_run import ChainRun
from millstream.engine.joiner import Joined
from millstream.engine.policy import Policy
from millstream.engine.probe import CHUNK
from millstream.engine.release import Bounds, OrderedBuffer, OrderedRun
from millstream.engine.store import HeldRows, MemoryStore, Store
from millstream.engine.watermark import NEVER
from millstream.model.functions import Function
from millstream.plan.nodes import Chain, Plan, Signature

_Parts = Iterator[Mapping[Signature, Mapping[str, pa.RecordBatch]]]


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
        store: Callable[[Signature], Store] = lambda _: MemoryStore(),
        chunk: int = CHUNK,
        hash_bits: int = 64,
    ) -> None:
        self._functions = dict(functions or {})
        self._policy, self._strict = policy, strict
        self._backlog = Backlog(policy)
        self._store, self._chunk, self._hash_bits = store, chunk, hash_bits
        self._running: dict[Signature, _Running] = {}
        self.change(plan, since)

    def change(self, plan: Plan, since: Mapping[str, int]) -> None:
        """Another plan from the next batch on: chains of the same signature keep their state, new ones begin, others
        end.
        """
        running = {}
        for chain in plan.chains:
            known = self._running.get(chain.signature)
            if known is None:
                known = _Running(self._start(chain, since))
            else:
                before = known.chain.since()
                known.chain.change(chain, since)
                after = known.chain.since()
                # A query replaced by another of its name starts afresh: rows held for the old one are not for the new
                # one.
                known.held = {
                    name: held for name, held in known.held.items() if name in after and after[name] == before[name]
                }
            running[chain.signature] = known
        self._plan, self._running = plan, running

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

    def run_batch(self, given: BatchInput) -> BatchOutput:
        """Turns rows that are not late into state and units, then does units until the budget is spent."""
        watermarks = {
            signature: max(running.chain.watermark, given.watermarks.get(signature, NEVER))
            for signature, running in self._running.items()
        }
        taken = arrivals(given, self._plan.chains, watermarks, numbered=self._strict)
        return BatchOutput(
            results=self._results(given.batch, given.budget, watermarks, taken.parts(watermarks), finish=given.finish),
            rows_in=taken.rows_in,
            late=taken.late,
            greatest=taken.greatest,
        )

    def _results(
        self, batch: int, budget: Budget, watermarks: Mapping[Signature, int], parts: _Parts, *, finish: bool
    ) -> Iterator[Results]:
        yield from self.advance(watermarks)
        part = next(parts, {})
        while (following := next(parts, None)) is not None:
            # The budget is for all parts of a batch together.
            self._arrive(batch, part)
            yield from self._work(budget if budget == UNBOUNDED else Budget(units=0))
            part = following
        self._arrive(batch, part)
        yield from self._work(budget)
        if finish:
            yield from self._finish()

    def _arrive(self, batch: int, part: Mapping[Signature, Mapping[str, pa.RecordBatch]]) -> None:
        for signature, running in self._running.items():
            running.chain.arrive(part.get(signature, {}), batch)

    def _work(self, budget: Budget) -> Iterator[Results]:
        found = {running.chain: running for running in self._running.values()}
        if budget == UNBOUNDED:
            for chain, running in found.items():
                for joined in chain.run_all():
                    yield from self._let_through(running, joined)
            return
        for chain in found:
            chain.defer()
        for chain, joined in self._backlog.run(list(found), budget):
            yield from self._let_through(found[chain], joined)

    def _let_through(self, running: _Running, joined: Joined) -> Iterator[Results]:
        """Yields rows at once, or holds them back where the order is strict."""
        if not self._strict:
            yield Results(joined.queries, joined.rows, {joined.batch: joined.rows.num_rows})
            return
        part = OrderedRun.of(joined.pairs, joined.batch, joined.rows)
        for query in joined.queries:
            running.held.setdefault(query, OrderedBuffer()).add(part)

    def advance(self, watermarks: Mapping[Signature, int]) -> Iterator[Results]:
        """Advances the watermarks: drops expired state, and releases held rows that no future row can precede."""
        for signature, running in self._running.items():
            running.chain.settle(watermarks.get(signature, running.chain.watermark))
            bounds = running.chain.bounds(self._policy) if self._strict else {}
            for name, held in running.held.items():
                yield from _released(name, held, bounds.get(name))

    def _finish(self) -> Iterator[Results]:
        """Does all deferred units and releases all held rows: no more rows will come."""
        yield from self._work(UNBOUNDED)
        for running in self._running.values():
            running.chain.settle(running.chain.watermark)
            for name, held in running.held.items():
                yield from _released(name, held, None)

    def keep(self) -> None:
        """Hands new segments to the store, at the latest when the state is saved."""
        for running in self._running.values():
            running.chain.keep()

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

    @property
    def oldest_held(self) -> int | None:
        """The first batch in which a probing row of the held rows arrived."""
        held = [held for running in self._running.values() for held in running.held.values() if len(held)]
        return min((one.oldest for one in held), default=None)

    def chains(self) -> list[ChainRun]:
        return [running.chain for running in self._running.values()]

    def saved(self, rows: HeldRows) -> dict[Signature, ChainManifest]:
        """The manifest of every chain; `rows` is where rows held back for order are stored."""
        found = {}
        for signature, running in self._running.items():
            since = running.chain.since()
            held = [
                HeldEntry(name, since[name], rows.keep(name, held.saved()))
                for name, held in running.held.items()
                if len(held)
            ]
            found[signature] = running.chain.saved(held)
        return found

    def restore(self, saved: Mapping[Signature, ChainManifest], rows: HeldRows) -> None:
        """Resumes from what was saved; a chain that was not saved begins empty."""
        for signature, running in self._running.items():
            manifest = saved.get(signature, ChainManifest())
            running.chain.restore(manifest)
            since = running.chain.since()
            running.held = {
                entry.query: OrderedBuffer.restored(rows.load(entry.name))
                for entry in manifest.held
                if since.get(entry.query) == entry.since
            }


def _released(query: str, held: OrderedBuffer, bounds: Bounds | None) -> Iterator[Results]:
    for rows, arrived in held.release(bounds):
        batches, counts = np.unique(arrived, return_counts=True)
        yield Results([query], rows, dict(zip(batches.tolist(), counts.tolist(), strict=True)))
