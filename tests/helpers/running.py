"""A shard taken step by step: what arrives, what waits and what is kept are moved by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from millstream.engine.chain_run import ChainRun
from millstream.engine.joiner import Joined
from millstream.engine.policies import make_policy
from millstream.engine.pool_run import PoolRun
from millstream.engine.shard import Shard
from millstream.engine.store import MemoryStore
from millstream.plan import Plan


class Kept:
    """Held rows in memory."""

    def __init__(self) -> None:
        self._rows: dict[str, pa.Table] = {}

    def keep(self, query: str, rows: pa.Table) -> str:
        self._rows[query] = rows
        return query

    def load(self, name: str) -> pa.Table:
        return self._rows[name]


class Running:
    """The pools and chains of a plan. A query sees what arrives from the batch on that `since` says, else from the
    first.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        since: Mapping[str, int] | None = None,
        store: MemoryStore | None = None,
        strict: bool = False,
        chunk: int = 1 << 16,
        hash_bits: int = 64,
    ) -> None:
        every = {query.name: 1 for query in plan.script.queries}
        self.shard = Shard(
            plan,
            since={**every, **(since or {})},
            policy=make_policy("greedy"),
            strict=strict,
            store=store,
            chunk=chunk,
            hash_bits=hash_bits,
        )

    @property
    def chain(self) -> ChainRun:
        """The only chain."""
        (chain,) = self.shard.chains()
        return chain

    def pool(self, stream: str) -> PoolRun:
        """The only pool of a stream."""
        (pool,) = (one for one in self.shard.pools() if one.pool.stream.name == stream)
        return pool

    def held(self) -> int:
        """How many rows are state."""
        return sum(len(one) for pool in self.shard.pools() for one in pool.segments)

    def arrive(self, rows: Mapping[str, pa.RecordBatch], batch: int) -> None:
        """Rows of streams, in time for all chains."""
        for chain in self.shard.chains():
            chain.batch = batch
        for pool in self.shard.pools():
            some = rows.get(pool.pool.stream.name)
            pool.arrive([] if some is None else [(some, frozenset())], batch)

    def defer(self) -> None:
        """What has arrived waits."""
        for pool in self.shard.pools():
            pool.keep_fresh()
        for chain in self.shard.chains():
            for at in range(len(chain.chain.streams)):
                chain.defer(at)
        self._become_state()

    def run_all(self) -> Iterator[Joined]:
        """Joins what waits and what has arrived."""
        for chain in self.shard.chains():
            yield from chain.run_deferred()
            for at in range(len(chain.chain.streams)):
                yield from chain.run_arrived(at)
        self._become_state()

    def _become_state(self) -> None:
        for pool in self.shard.pools():
            pool.become_state()
            pool.fresh = []

    def settle(self, watermark: int) -> None:
        """Event time goes on for all chains."""
        for chain in self.shard.chains():
            chain.settle(watermark)
        busy = frozenset().union(*(chain.ledger.segments() for chain in self.shard.chains()))
        for pool in self.shard.pools():
            pool.tidy(min(chain.watermark for chain in self.shard.chains()), busy)
