"""The engine: a shared plan run in one process, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from millstream.engine.arrow import arrow_schema, conform
from millstream.engine.backlog import UNBOUNDED, Budget
from millstream.engine.batch import BatchInput, Results, StreamRows
from millstream.engine.chain_run import ChainRun
from millstream.engine.files import Files
from millstream.engine.gauges import Measurements
from millstream.engine.judge import Late
from millstream.engine.memory import MemoryLimit
from millstream.engine.policies import make_policy
from millstream.engine.pool_run import PoolRun
from millstream.engine.probe import CHUNK
from millstream.engine.shard import Shard
from millstream.engine.store import FileStore, MemoryStore
from millstream.engine.watermark import NEVER, StreamClock, chain_watermark
from millstream.engine.widths import together
from millstream.errors import ScriptError
from millstream.model.functions import Function
from millstream.model.query import Query
from millstream.plan.nodes import Plan, PoolName

Sink = Callable[[str, pa.RecordBatch], None]


@dataclass(frozen=True, slots=True)
class _Source:
    clock: StreamClock
    schema: pa.Schema


class Engine:
    """Runs a plan: rows go in by stream, results go to `sink` by query.

    `policy` orders work when a budget defers some of it; `order` is 'eager' or 'strict'. With a `directory` segments
    are files there, without one they stay in memory.
    """

    def __init__(
        self,
        plan: Plan,
        sink: Sink,
        *,
        functions: Mapping[str, Function] | None = None,
        policy: str | None = None,
        order: str | None = None,
        directory: Path | None = None,
        chunk: int = CHUNK,
        hash_bits: int = 64,
    ) -> None:
        settings = plan.script.settings
        self._sink = sink
        self.late: list[Late] = []
        self._batch = 0
        self._sources: dict[str, _Source] = {}
        self._since: dict[str, tuple[Query, int]] = {}
        spills = settings.memory and settings.adaptation not in ("none", "move")
        self._limit = MemoryLimit.of(settings) if spills else None
        self._follow(plan)

        self._shard = Shard(
            plan,
            since=self._first_batches(),
            policy=make_policy(policy or settings.policy, settings.fairness, settings.queue_memory * 1e6),
            strict=(order or settings.order) == "strict",
            functions=functions,
            store=FileStore(Files.at(directory)) if directory else MemoryStore(),
            chunk=chunk,
            hash_bits=hash_bits,
        )

    def change(self, plan: Plan) -> None:
        """Another plan from the next batch on; a new or changed query sees no pairs of earlier batches."""
        self._follow(plan)
        self._shard.change(plan, self._first_batches())

    def _follow(self, plan: Plan) -> None:
        self.plan = plan
        self._pools: dict[str, list[PoolName]] = {}
        for pool in plan.pools:
            self._pools.setdefault(pool.stream.name, []).append(pool.name)
        for stream in plan.script.streams:
            self._sources.setdefault(stream.name, _Source(StreamClock(stream), arrow_schema(stream)))
        before = self._since
        self._since = {}
        for query in plan.script.queries:
            known = before.get(query.name)
            self._since[query.name] = known if known and known[0] == query else (query, self._batch + 1)

    def _first_batches(self) -> dict[str, int]:
        return {name: first for name, (_, first) in self._since.items()}

    def feed(self, rows: Mapping[str, pa.Table], budget: Budget | None = None, now: int = 0) -> None:
        """One batch: rows of any streams, then work until the budget is spent."""
        self._batch += 1
        future = self.plan.script.settings.future
        given = BatchInput(
            batch=self._batch,
            rows=[self._rows(name, table) for name, table in rows.items()],
            horizons={name: source.clock.horizon(future) for name, source in self._sources.items()},
            budget=budget or UNBOUNDED,
            memory=self._limit,
        )
        output = self._shard.run_batch(given)
        self.late += output.late
        self._hand_out(output.results)
        for name, source in self._sources.items():
            if output.rows_in.get(name, 0):
                source.clock.saw(output.greatest.get(name, NEVER))
            else:
                source.clock.had_nothing(now)
        self._settle()

    def measured(self) -> Measurements:
        """What has been measured since this was last asked for."""
        return self._shard.measured()

    def _settle(self) -> None:
        """Advances event time. Unlike a slot on Spark, the engine sees all rows, so a batch's times count at once."""
        watermarks = {}
        for chain in self.plan.chains:
            clocks = {stream.name: self._sources[stream.name].clock for stream in chain.streams}
            watermarks[chain.signature] = chain_watermark(clocks.values())
        self._hand_out(self._shard.advance(watermarks))
        self._shard.keep()

    def work(self, budget: Budget | None = None) -> None:
        """Does deferred units without new rows."""
        given = BatchInput(batch=self._batch, budget=budget or UNBOUNDED, memory=self._limit)
        self._hand_out(self._shard.run_batch(given).results)
        self._settle()

    def close(self) -> None:
        """Does all deferred units and releases all held rows: no more rows will come."""
        self._hand_out(self._shard.run_batch(BatchInput(batch=self._batch, finish=True, memory=self._limit)).results)
        self._shard.keep()

    def _hand_out(self, results: Iterable[Results]) -> None:
        for queries, rows, _ in results:
            for query in queries:
                self._sink(query, rows)

    @property
    def deferred(self) -> int:
        """The number of deferred units."""
        return self._shard.deferred

    @property
    def choosing(self) -> int:
        """Nanoseconds spent on choosing the next work."""
        return self._shard.choosing

    @property
    def held_rows(self) -> int:
        """The number of rows held back for order."""
        return self._shard.held_rows

    def chains(self) -> list[ChainRun]:
        return self._shard.chains()

    def pools(self) -> list[PoolRun]:
        return self._shard.pools()

    def _rows(self, name: str, table: pa.Table) -> StreamRows:
        """The rows of a stream: one batch, unless its columns cannot hold all rows."""
        if name not in self._sources:
            known = ", ".join(self._sources)
            raise ScriptError(
                f'rows for "{name}"', f"the streams are {known}", "Declare the stream, or rename the rows."
            )
        source = self._sources[name]
        stream = source.clock.stream
        if not table.schema.equals(source.schema):
            table = conform(stream, table)
        return StreamRows(stream, together(table.to_batches()), self._pools.get(name, ()))
