"""One slot at work in a Python worker of Spark: its rows of a batch in, a small report out.

A worker keeps the shards it has run, so that a slot that stays with it goes on from memory. A shard whose token is not
the one the manifest names has missed a batch and is restored from the saved chains, whose files are mapped.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import arrow_schema, microseconds
from millstream.engine.backlog import Budget
from millstream.engine.chain_manifest import ChainManifest, SegmentEntry
from millstream.engine.files import Files
from millstream.engine.intake import CODE
from millstream.engine.policies import make_policy
from millstream.engine.release import SEQUENCE
from millstream.engine.segment import Segment
from millstream.engine.shard import Late, Shard, Signature
from millstream.engine.store import FileStore
from millstream.errors import QueryFailed
from millstream.model.functions import Function
from millstream.pipeline.manifest import Output, SlotManifest
from millstream.pipeline.packing import unpacked
from millstream.pipeline.results import Target, Writer
from millstream.pipeline.routing import ROUTE, Routing
from millstream.pipeline.sources import BAD, payload
from millstream.plan.nodes import Plan

REASON, CHAIN, TEXT = "_reason", "_chain", "_text"
_MOST = 64


@dataclass(frozen=True, slots=True)
class Work:
    """What a plan means to a slot; the same for all batches until the plan changes."""

    version: str
    plan: Plan
    routing: Routing
    since: Mapping[str, int]
    targets: Mapping[str, Target]
    late: str
    functions: Mapping[str, Function]


@dataclass(frozen=True, slots=True)
class Order:
    """What the driver asks of all slots in one batch. `run` names the driver's process, `pipeline` the directory."""

    run: str
    pipeline: str
    place: str
    batch: int
    watermarks: Mapping[Signature, int]
    states: Mapping[int, SlotManifest]
    work_version: str
    work: bytes
    finish: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What a slot tells the driver."""

    slot: int
    token: str
    chains: Mapping[Signature, ChainManifest]
    outputs: tuple[Output, ...] = ()
    greatest: Mapping[str, int] = field(default_factory=dict)
    rows_in: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    served: Mapping[tuple[str, int], int] = field(default_factory=dict)
    deferred: int = 0
    group_rows: tuple[int, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    place: str = ""
    failed: tuple[str, ...] = ()
    error: str = ""


def place() -> str:
    """The executor this worker belongs to: its machine, and the daemon that started the worker."""
    return f"{socket.gethostname()} {os.getppid()}"


class SlotStore(FileStore):
    """Segments as files that only the driver deletes, once no committed batch names them."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._opened_as: dict[str, Segment] = {}

    def keep(self, segment: Segment) -> Segment:
        kept = super().keep(segment)
        self._opened_as[self.name(kept)] = kept
        return kept

    def load(self, entry: SegmentEntry) -> Segment:
        if entry.name not in self._opened_as:
            self._opened_as[entry.name] = super().load(entry)
        self._names[entry.number] = entry.name
        return self._opened_as[entry.name]

    def drop(self, segment: Segment) -> None:
        self._opened_as.pop(self._names.pop(segment.number), None)

    def forget_all_but(self, names: set[str]) -> None:
        self._opened_as = {name: segment for name, segment in self._opened_as.items() if name in names}


@dataclass(slots=True)
class _Cached:
    token: str
    version: str
    shard: Shard
    stores: dict[Signature, SlotStore]


_WORKS: dict[str, Work] = {}
_SHARDS: dict[tuple[str, int], _Cached] = {}


def run_slot(order: Order, slot: int, batches: Iterable[pa.RecordBatch]) -> Report:
    """A slot's part of a batch."""
    key, token = (order.run, slot), uuid.uuid4().hex[:10]
    # Out of the cache while it works: a run that fails half-way must not be taken up again.
    cached = _SHARDS.pop(key, None)
    try:
        report, cached = _run(order, slot, token, batches, cached)
    except QueryFailed as failure:
        return Report(slot, token, {}, place=place(), failed=failure.queries, error=failure.cause)
    _SHARDS[key] = cached
    if len(_SHARDS) > _MOST:
        del _SHARDS[next(iter(_SHARDS))]
    return report


def _run(
    order: Order, slot: int, token: str, batches: Iterable[pa.RecordBatch], cached: _Cached | None
) -> tuple[Report, _Cached]:
    clock = _Stopwatch()
    work = _work(order)
    writer = Writer(order.pipeline, order.batch, slot, token)
    arrived, late, greatest, rows_in = _read(work, order.batch, batches)
    clock.lap("read")
    served: dict[tuple[str, int], int] = {}

    def sink(queries: list[str], batch: int, rows: pa.RecordBatch) -> None:
        for query in queries:
            served[query, batch] = served.get((query, batch), 0) + rows.num_rows
        began = time.perf_counter()
        writer.write([work.targets[query] for query in queries], rows)
        clock.move("join", "write", time.perf_counter() - began)

    cached = _brought_up(order, slot, work, cached)
    shard = cached.shard
    shard.sink, shard.late = sink, late
    for number, store in enumerate(cached.stores.values()):
        store.prefix = f"{order.batch:08}-{slot:03}-{token}-{number}-"
    budget = Budget(seconds=work.plan.script.settings.budget / 1e6 or None)
    clock.lap("restore")
    shard.settle(order.watermarks)
    arrivals = {
        chain.signature: {
            side: arrived[way]
            for side in ("left", "right")
            if (way := work.routing.ways[chain.signature, side]) in arrived
        }
        for chain in work.plan.chains
    }
    shard.step(order.batch, arrivals, budget)
    if order.finish:
        shard.finish()
    clock.lap("join")
    for part in shard.late:
        _write_late(writer, work, part)
    counted: dict[str, int] = {}
    for part in shard.late:
        counted[part.stream] = counted.get(part.stream, 0) + part.rows.num_rows
    outputs = writer.close()
    files = Files.at(order.place).below("segments")

    def keep(query: str, rows: pa.RecordBatch) -> str:
        name = f"{order.batch:08}-{slot:03}-{token}-held-{query}"
        files.write_arrow(f"{name}.arrow", rows)
        return name

    chains = shard.saved(keep)
    for signature, store in cached.stores.items():
        store.forget_all_but({entry.name for entry in chains[signature].segments})
    clock.lap("write")
    cached.token = token
    groups = sum((run.statistics.group_rows for run in shard.chains()), np.zeros(64, dtype=np.int64))
    report = Report(
        slot,
        token,
        chains,
        tuple(outputs),
        greatest,
        rows_in,
        counted,
        served,
        shard.deferred,
        tuple(groups.tolist()),
        clock.spent,
        place(),
    )
    shard.late = []
    return report, cached


def _work(order: Order) -> Work:
    found = _WORKS.get(order.work_version)
    if found is None:
        # What the driver has just made; plans of before are not needed again.
        _WORKS.clear()
        found = _WORKS[order.work_version] = unpacked(order.work)
    return found


def _brought_up(order: Order, slot: int, work: Work, cached: _Cached | None) -> _Cached:
    """The slot's shard as the last committed batch left it, with the plan of now."""
    state = order.states.get(slot)
    files = Files.at(order.place).below("segments")
    if cached is None:
        stores: dict[Signature, SlotStore] = {}

        def store(signature: Signature) -> SlotStore:
            stores[signature] = SlotStore(files)
            return stores[signature]

        settings = work.plan.script.settings
        shard = Shard(
            work.plan,
            lambda *_: None,
            since=work.since,
            policy=make_policy(settings.policy, settings.fairness, settings.queue_memory * 1e6),
            strict=settings.order == "strict",
            functions=work.functions,
            store=store,
        )
        cached = _Cached("", work.version, shard, stores)
    elif cached.version != work.version:
        cached.shard.change(work.plan, work.since)
        running = {chain.signature for chain in work.plan.chains}
        for gone in set(cached.stores) - running:
            del cached.stores[gone]
        cached.version = work.version
    if cached.token != (state.token if state else ""):
        cached.shard.restore(state.chains if state else {}, lambda name: files.read_arrow(f"{name}.arrow"))
    return cached


def _read(
    work: Work, batch: int, batches: Iterable[pa.RecordBatch]
) -> tuple[dict[int, pa.RecordBatch], list[Late], dict[str, int], dict[str, int]]:
    """The rows by route, those that cannot be used, and for each stream its greatest time and its count."""
    parts: dict[int, list[pa.RecordBatch]] = {}
    unusable: list[Late] = []
    for some in batches:
        if not some.num_rows:
            continue
        routes = np.asarray(some.column(ROUTE))
        for number in np.unique(routes).tolist():
            own = (
                some if (routes[0] == number and (routes == number).all()) else some.filter(pa.array(routes == number))
            )
            parts.setdefault(number, []).append(own)
    arrived, greatest, rows_in, counted = {}, {}, {}, set[str]()
    strict = work.plan.script.settings.order == "strict"
    for number, own in parts.items():
        stream = work.routing.streams[work.routing.routes[number].stream]
        first = stream.name not in counted  # a stream that comes by several routes is counted by one of them
        counted.add(stream.name)
        whole = pa.Table.from_batches(own).combine_chunks().to_batches()[0]
        if first:
            rows_in[stream.name] = whole.num_rows
        struct = whole.column(payload(work.routing.routes[number].stream))
        schema = arrow_schema(stream)
        columns = [_typed(column, kind.type) for column, kind in zip(struct.flatten(), schema, strict=True)]
        rows = pa.RecordBatch.from_arrays([*columns, whole.column(CODE)], names=[*schema.names, CODE])
        usable = _usable(rows, whole.column(BAD), stream.name, stream.time, unusable if first else [])
        if usable is not None:
            rows = rows.filter(usable)
        if not rows.num_rows:
            continue
        if strict:
            begin = batch << 32
            rows = rows.append_column(SEQUENCE, pa.array(np.arange(begin, begin + rows.num_rows)))
        greatest[stream.name] = int(microseconds(rows.column(stream.time)).max())
        arrived[number] = rows
    return arrived, unusable, greatest, rows_in


def _usable(rows: pa.RecordBatch, bad: pa.Array, stream: str, time_column: str, late: list[Late]) -> pa.Array | None:
    """Which rows have a time and were read; None where all have and were. The others are late."""
    unread, timeless = pc.is_valid(bad), pc.is_null(rows.column(time_column))
    if not (pc.any(unread).as_py() or pc.any(timeless).as_py()):
        return None
    timeless = pc.and_(timeless, pc.invert(unread))
    for reason, mask in (("does not parse", unread), ("null time", timeless)):
        some = rows.filter(mask)
        if some.num_rows:
            late.append(Late(stream, reason, some.drop_columns([CODE]).append_column(TEXT, bad.filter(mask))))
    return pc.invert(pc.or_(unread, timeless))


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else pc.cast(column, kind)


def _write_late(writer: Writer, work: Work, part: Late) -> None:
    rows = part.rows
    if TEXT not in rows.schema.names:
        rows = rows.append_column(TEXT, pa.nulls(rows.num_rows, pa.string()))
    chain = None if part.chain is None else " ".join(part.chain)
    extra = {REASON: part.reason, CHAIN: chain}
    for name, value in extra.items():
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, pa.string()))
    writer.write([Target(part.stream, f"{work.late}/{part.stream}")], rows)


class _Stopwatch:
    """Where the time of a slot goes."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.spent[name] = self.spent.get(name, 0.0) + now - self._last
        self._last = now

    def move(self, taken: str, given: str, seconds: float) -> None:
        """Time that will be counted as one thing was another."""
        self.spent[taken] = self.spent.get(taken, 0.0) - seconds
        self.spent[given] = self.spent.get(given, 0.0) + seconds
