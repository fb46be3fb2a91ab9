"""The engine: a shared plan run in one process, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import arrow_schema, conform, microseconds
from millstream.engine.backlog import Budget
from millstream.engine.chain_run import ChainRun
from millstream.engine.files import Files
from millstream.engine.judge import Late, Limits, judged
from millstream.engine.policies import make_policy
from millstream.engine.probe import CHUNK
from millstream.engine.release import SEQUENCE
from millstream.engine.shard import Shard
from millstream.engine.store import FileStore, MemoryStore, Store
from millstream.engine.watermark import StreamClock, chain_watermark
from millstream.engine.widths import together
from millstream.errors import ScriptError
from millstream.model.functions import Function
from millstream.model.query import Query
from millstream.plan.nodes import LEFT, RIGHT, Plan, Signature

Sink = Callable[[str, pa.RecordBatch], None]


@dataclass(slots=True)
class _Arrivals:
    clock: StreamClock
    schema: pa.Schema
    count: int = 0


class Engine:
    """Runs a plan: rows go in by stream, results go to `sink` by query.

    `policy` orders work when a budget leaves some of it for later; `order` is 'eager' or 'strict'. With a `directory`
    segments are files there, without one they stay in memory.
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
        self._strict = (order or settings.order) == "strict"
        self._directory = directory
        self.late: list[Late] = []
        self._batch = 0
        self._streams: dict[str, _Arrivals] = {}
        self._since: dict[str, tuple[Query, int]] = {}
        self._stores = 0
        self._follow(plan)

        def to_each(queries: list[str], _: int, rows: pa.RecordBatch) -> None:
            for query in queries:
                sink(query, rows)

        self._shard = Shard(
            plan,
            to_each,
            since=self._first_batches(),
            policy=make_policy(policy or settings.policy, settings.fairness, settings.queue_memory * 1e6),
            strict=self._strict,
            functions=functions,
            store=self._store,
            chunk=chunk,
            hash_bits=hash_bits,
        )

    def change(self, plan: Plan) -> None:
        """Another plan from the next batch on; a query that is new or has changed sees no pairs of before."""
        self._follow(plan)
        self._shard.change(plan, self._first_batches())

    def _follow(self, plan: Plan) -> None:
        self.plan = plan
        for stream in plan.script.streams:
            self._streams.setdefault(stream.name, _Arrivals(StreamClock(stream), arrow_schema(stream)))
        before = self._since
        self._since = {}
        for query in plan.script.queries:
            known = before.get(query.name)
            self._since[query.name] = known if known and known[0] == query else (query, self._batch + 1)

    def _first_batches(self) -> dict[str, int]:
        return {name: first for name, (_, first) in self._since.items()}

    def _store(self, _: Signature) -> Store:
        self._stores += 1
        return FileStore(Files.at(self._directory / str(self._stores))) if self._directory else MemoryStore()

    def feed(self, rows: Mapping[str, pa.Table], budget: Budget | None = None, now: int = 0) -> None:
        """One batch: rows of any streams, then work until the budget is spent."""
        self._batch += 1
        taken = {name: self._take_in(name, table) for name, table in rows.items()}
        for name, arrivals in self._streams.items():
            if not sum(part.num_rows for part in taken.get(name, [])):
                arrivals.clock.had_nothing(now)
        parts = [dict(zip(taken, some, strict=True)) for some in zip_longest(*taken.values())]
        self._shard.step_by_step(self._batch, [self._sides(part) for part in parts], budget or Budget())
        watermarks = {}
        for chain in self.plan.chains:
            clocks = {stream.name: self._streams[stream.name].clock for stream in chain.streams}
            watermarks[chain.signature] = chain_watermark(clocks.values())
        self._shard.settle(watermarks)
        self._shard.keep()

    def _sides(self, rows: Mapping[str, pa.RecordBatch | None]) -> dict[Signature, dict[str, pa.RecordBatch]]:
        """What each chain gets of the streams' rows."""
        found: dict[Signature, dict[str, pa.RecordBatch]] = {}
        for chain in self.plan.chains:
            sides = zip((LEFT, RIGHT), chain.streams, strict=True)
            found[chain.signature] = {side: rows[one.name] for side, one in sides if rows.get(one.name) is not None}
        return found

    def work(self, budget: Budget | None = None) -> None:
        """Goes on with deferred units, with no new rows."""
        self._shard.step(self._batch, {}, budget or Budget())
        self._shard.settle({})
        self._shard.keep()

    def close(self) -> None:
        """Finishes all deferred units and lets out everything that is held: no more rows will come."""
        self._shard.finish()
        self._shard.keep()

    @property
    def deferred(self) -> int:
        """How many units wait."""
        return self._shard.deferred

    @property
    def choosing(self) -> int:
        """Nanoseconds spent on choosing what comes next."""
        return self._shard.choosing

    @property
    def held_rows(self) -> int:
        """How many rows wait for their turn."""
        return self._shard.held_rows

    def chains(self) -> list[ChainRun]:
        return self._shard.chains()

    def _take_in(self, name: str, table: pa.Table) -> list[pa.RecordBatch]:
        """The rows of a stream: one batch, unless that is more than its columns can hold."""
        if name not in self._streams:
            known = ", ".join(self._streams)
            raise ScriptError(
                f'rows for "{name}"', f"the streams are {known}", "Declare the stream, or rename the rows."
            )
        arrivals = self._streams[name]
        stream = arrivals.clock.stream
        if not table.schema.equals(arrivals.schema):
            table = conform(stream, table)
        chains = [run for run in self.chains() if stream.name in (one.name for one in run.chain.streams)]
        watermarks = [(run.chain.title, run.watermark) for run in chains]
        limits = Limits(arrivals.clock.horizon(self.plan.script.settings.future), watermarks)
        return [self._usable(arrivals, rows, limits) for rows in together(table.to_batches())]

    def _usable(self, arrivals: _Arrivals, rows: pa.RecordBatch, limits: Limits) -> pa.RecordBatch:
        stream = arrivals.clock.stream
        rows, late = judged(stream, rows, limits)
        self.late += late
        if self._strict:
            numbers = pa.array(np.arange(arrivals.count, arrivals.count + rows.num_rows))
            rows = rows.append_column(SEQUENCE, numbers)
        arrivals.count += rows.num_rows
        if rows.num_rows:
            arrivals.clock.saw(int(microseconds(rows.column(stream.time)).max()))
        return rows
