"""The engine: a shared plan run in one process, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import conform, microseconds
from millstream.engine.chain_run import Budget, ChainRun
from millstream.engine.pairs import MemberRun, Pairs
from millstream.engine.policies import make_policy
from millstream.engine.probe import CHUNK
from millstream.engine.release import SEQUENCE, Held
from millstream.engine.store import FileStore
from millstream.engine.units import Unit
from millstream.engine.watermark import StreamClock, chain_watermark
from millstream.errors import ScriptError
from millstream.model.functions import Function
from millstream.model.stream import Stream
from millstream.plan.nodes import LEFT, RIGHT, Chain, Plan

Sink = Callable[[str, pa.RecordBatch], None]
Signature = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Late:
    """Rows that came too late for a chain, or without a time."""

    stream: str
    reason: str
    rows: pa.RecordBatch


@dataclass(slots=True)
class _Arrivals:
    clock: StreamClock
    count: int = 0


@dataclass(slots=True)
class _Running:
    chain: ChainRun
    held: dict[str, Held] = field(default_factory=dict)


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
        now: int = 0,
    ) -> None:
        self._sink = sink
        self._functions = dict(functions or {})
        chosen = plan.script.settings
        self._policy = make_policy(policy or chosen.policy, chosen.fairness, chosen.queue_memory * 1e6)
        self._strict = (order or plan.script.settings.order) == "strict"
        self._directory = directory
        self._chunk, self._hash_bits = chunk, hash_bits
        self._started = now
        self._streams: dict[str, _Arrivals] = {}
        self._running: dict[Signature, _Running] = {}
        self._chains_started = 0
        self.late: list[Late] = []
        self.change(plan)

    def change(self, plan: Plan) -> None:
        """Another plan from the next batch on: chains go on with their state, new ones begin, others end."""
        self.plan = plan
        for stream in plan.script.streams:
            self._streams.setdefault(stream.name, _Arrivals(StreamClock(stream)))
        running = {}
        for chain in plan.chains:
            known = self._running.get(chain.signature)
            if known is None:
                known = _Running(self._start(chain))
            else:
                known.chain.change(chain)
                names = {member.name for member in chain.members}
                known.held = {name: held for name, held in known.held.items() if name in names}
            running[chain.signature] = known
        self._running = running

    def _start(self, chain: Chain) -> ChainRun:
        self._chains_started += 1
        store = FileStore(self._directory / str(self._chains_started)) if self._directory else None
        return ChainRun(chain, self._functions, store=store, chunk=self._chunk, hash_bits=self._hash_bits)

    def feed(self, rows: Mapping[str, pa.Table], budget: Budget | None = None, now: int = 0) -> None:
        """One batch: rows of any streams, then work until the budget is spent."""
        taken = {name: self._take_in(name, table, now) for name, table in rows.items()}
        for running in self._running.values():
            run = running.chain
            left, right = run.chain.streams
            in_time = {
                stream.name: self._in_time(stream, taken[stream.name], run.watermark)
                for stream in {left.name: left, right.name: right}.values()
                if stream.name in taken
            }
            run.arrive({LEFT: in_time.get(left.name), RIGHT: in_time.get(right.name)})
            clocks = {stream.name: self._streams[stream.name].clock for stream in (left, right)}
            self._work(running, budget or Budget())
            run.settle(chain_watermark(clocks.values(), now, self._started))
            self._release(running)

    def work(self, budget: Budget | None = None) -> None:
        """Goes on with deferred units, with no new rows."""
        for running in self._running.values():
            self._work(running, budget or Budget())
            running.chain.settle(running.chain.watermark)
            self._release(running)

    def close(self) -> None:
        """Finishes all deferred units and lets out everything that is held: no more rows will come."""
        self.work()
        for running in self._running.values():
            for name, held in running.held.items():
                held.release(None, partial(self._sink, name))

    @property
    def deferred(self) -> int:
        """How many units wait."""
        return sum(len(running.chain.ledger) for running in self._running.values())

    @property
    def held_rows(self) -> int:
        """How many rows wait for their turn."""
        return sum(len(held) for running in self._running.values() for held in running.held.values())

    def chains(self) -> list[ChainRun]:
        return [running.chain for running in self._running.values()]

    def _take_in(self, name: str, table: pa.Table, now: int) -> pa.RecordBatch:
        if name not in self._streams:
            known = ", ".join(self._streams)
            raise ScriptError(
                f'rows for "{name}"', f"the streams are {known}", "Declare the stream, or rename the rows."
            )
        arrivals = self._streams[name]
        stream = arrivals.clock.stream
        table = conform(stream, table).combine_chunks()
        rows = table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], schema=table.schema)
        if rows.column(stream.time).null_count:
            missing = pc.is_null(rows.column(stream.time))
            self.late.append(Late(name, "null time", rows.filter(missing)))
            rows = rows.filter(pc.invert(missing))
        if self._strict:
            numbers = pa.array(np.arange(arrivals.count, arrivals.count + rows.num_rows))
            rows = rows.append_column(SEQUENCE, numbers)
        arrivals.count += rows.num_rows
        if rows.num_rows:
            arrivals.clock.saw(int(microseconds(rows.column(stream.time)).max()), now)
        return rows

    def _in_time(self, stream: Stream, rows: pa.RecordBatch, watermark: int) -> pa.RecordBatch:
        times = microseconds(rows.column(stream.time))
        late = times < watermark
        if not late.any():
            return rows
        shown = rows.drop_columns([SEQUENCE]) if self._strict else rows
        self.late.append(Late(stream.name, "older than the watermark", shown.filter(pa.array(late))))
        return rows.filter(pa.array(~late))

    def _work(self, running: _Running, budget: Budget) -> None:
        def deliver(member: MemberRun, pairs: Pairs, rows: pa.RecordBatch, unit: Unit) -> None:
            if self._strict:
                running.held.setdefault(member.name, Held()).add(pairs, unit, rows)
            else:
                self._sink(member.name, rows)

        running.chain.run(self._policy, budget, deliver)

    def _release(self, running: _Running) -> None:
        if not self._strict:
            return
        bounds = running.chain.bounds(self._policy)
        for name, held in running.held.items():
            held.release(bounds[name], partial(self._sink, name))
