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
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import microseconds
from millstream.engine.backlog import Budget
from millstream.engine.chain_manifest import ChainManifest, SegmentEntry
from millstream.engine.files import Files
from millstream.engine.intake import CODE as HIDDEN_CODE
from millstream.engine.judge import Late, Limits, judged
from millstream.engine.policies import make_policy
from millstream.engine.release import SEQUENCE
from millstream.engine.segment import Segment
from millstream.engine.shard import Shard
from millstream.engine.store import FileStore, keep_rows, load_rows
from millstream.engine.widths import together
from millstream.errors import QueryFailed
from millstream.model.functions import Function
from millstream.pipeline.durable import sync_slot
from millstream.pipeline.layout import BAD
from millstream.pipeline.manifest import Output, SlotManifest
from millstream.pipeline.packing import unpacked
from millstream.pipeline.results import Target, Writer
from millstream.pipeline.routing import CODE, ROUTE, Routing, unkeyed
from millstream.plan.nodes import LEFT, RIGHT, Plan, Signature

REASON, CHAIN, TEXT = "_reason", "_chain", "_text"
"""What late rows are told with; a stream that has such a column itself gets one more _ before it."""
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
    horizons: Mapping[str, int]
    states: Mapping[int, SlotManifest]
    work_version: str
    work: bytes
    finish: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What a slot tells the driver. With an `error` it tells nothing else: `failed` are the queries to blame,
    and where there is none the batch as a whole has failed.
    """

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
        self._names[entry.number], self._stamps[entry.name] = entry.name, entry.stamps
        return self._opened_as[entry.name]

    def drop(self, segment: Segment) -> None:
        self._opened_as.pop(self._forgotten(segment), None)

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
        error = failure.cause or "an expression failed"
        return Report(slot, token, {}, place=place(), failed=failure.queries, error=error)
    _SHARDS[key] = cached
    if len(_SHARDS) > _MOST:
        del _SHARDS[next(iter(_SHARDS))]
    return report


def _run(
    order: Order, slot: int, token: str, batches: Iterable[pa.RecordBatch], cached: _Cached | None
) -> tuple[Report, _Cached]:
    clock = _Stopwatch()
    work = _work(order)
    sync = work.plan.script.settings.sync == "on"
    writer = Writer(order.pipeline, order.batch, slot, token, sync=sync)
    arrived = _read(work, order, batches)
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
    shard.sink = sink
    for number, store in enumerate(cached.stores.values()):
        store.prefix = f"{order.batch:08}-{slot:03}-{token}-{number}-"
    budget = Budget(seconds=work.plan.script.settings.budget / 1e6 or None)
    clock.lap("restore")
    shard.settle(order.watermarks)
    parts = [dict(zip(arrived.by_route, some, strict=True)) for some in zip_longest(*arrived.by_route.values())]
    shard.step_by_step(order.batch, [_sides(work, part) for part in parts], budget)
    if order.finish:
        shard.finish()
    clock.lap("join")
    for part in arrived.late:
        _write_late(writer, work, part)
    outputs = writer.close()
    files = Files.at(order.place).below("segments")

    def keep(query: str, rows: pa.Table) -> str:
        return keep_rows(files, f"{order.batch:08}-{slot:03}-{token}-held-{query}", rows)

    chains = shard.saved(keep)
    if sync:
        sync_slot(files, f"{order.batch:08}-{slot:03}-{token}-", chains.values(), writer.syncing)
    for signature, store in cached.stores.items():
        store.forget_all_but({entry.name for entry in chains[signature].segments})
    clock.lap("write")
    cached.token = token
    groups = sum((run.statistics.group_rows for run in shard.chains()), np.zeros(64, dtype=np.int64))
    report = Report(
        slot,
        token,
        chains,
        outputs=tuple(outputs),
        greatest=arrived.greatest,
        rows_in=arrived.counts,
        late=_late_counts(arrived.late),
        served=served,
        deferred=shard.deferred,
        group_rows=tuple(groups.tolist()),
        seconds=clock.spent,
        place=place(),
    )
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
        cached.shard.restore(state.chains if state else {}, lambda name: load_rows(files, name))
    return cached


@dataclass(slots=True)
class _Arrived:
    """A slot's rows of a batch by route; for each stream how many came and their greatest time; and those set aside.

    The rows of a route are one batch of Arrow's, unless that is more than its columns can hold.
    """

    by_route: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    greatest: dict[str, int] = field(default_factory=dict)
    late: list[Late] = field(default_factory=list)


def _read(work: Work, order: Order, batches: Iterable[pa.RecordBatch]) -> _Arrived:
    parts: dict[int, list[pa.RecordBatch]] = {}
    for some in batches:
        if not some.num_rows:
            continue
        routes = np.asarray(some.column(ROUTE))
        for number in np.unique(routes).tolist():
            own = (
                some if (routes[0] == number and (routes == number).all()) else some.filter(pa.array(routes == number))
            )
            parts.setdefault(number, []).append(own)
    found = _Arrived()
    for number, own in parts.items():
        stream = work.routing.layout.streams[work.routing.routes[number].stream]
        chains = [chain for chain in work.plan.chains if stream.name in (one.name for one in chain.streams)]
        watermarks = [(chain.title, order.watermarks[chain.signature]) for chain in chains]
        limits = Limits(order.horizons[stream.name], watermarks)
        for whole in together(own):
            _take_in(work, order, number, whole, limits, found)
    return found


def _take_in(work: Work, order: Order, number: int, whole: pa.RecordBatch, limits: Limits, found: _Arrived) -> None:
    """Rows that came by one route."""
    routing, route = work.routing, work.routing.routes[number]
    stream = routing.layout.streams[route.stream]
    _check_keyed(work, number, whole)
    rows = routing.layout.rows(whole, route.stream).append_column(HIDDEN_CODE, whole.column(CODE))
    rows, late = judged(stream, rows, limits, whole.column(BAD))
    if number in routing.counting:
        found.counts[stream.name] = found.counts.get(stream.name, 0) + whole.num_rows
        found.late += late
    if not rows.num_rows:
        return
    before = found.by_route.setdefault(number, [])
    if work.plan.script.settings.order == "strict":
        begin = (order.batch << 32) + sum(part.num_rows for part in before)
        rows = rows.append_column(SEQUENCE, pa.array(np.arange(begin, begin + rows.num_rows)))
    before.append(rows)
    latest = int(microseconds(rows.column(stream.time)).max())
    found.greatest[stream.name] = max(latest, found.greatest.get(stream.name, latest))


def _sides(work: Work, rows: Mapping[int, pa.RecordBatch | None]) -> dict[Signature, dict[str, pa.RecordBatch]]:
    """What each chain gets of the routes' rows."""
    found: dict[Signature, dict[str, pa.RecordBatch]] = {}
    for chain in work.plan.chains:
        ways = {side: work.routing.ways[chain.signature, side] for side in (LEFT, RIGHT)}
        found[chain.signature] = {side: rows[way] for side, way in ways.items() if rows.get(way) is not None}
    return found


def _check_keyed(work: Work, number: int, rows: pa.RecordBatch) -> None:
    cause = unkeyed(rows, work.routing.routes[number])
    if cause:
        ways = work.routing.ways
        concerned = [chain for chain in work.plan.chains if number in (ways[chain.signature, s] for s in (LEFT, RIGHT))]
        raise QueryFailed({member.name for chain in concerned for member in chain.members}, cause)


def _late_counts(late: Iterable[Late]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for part in late:
        counted[part.stream] = counted.get(part.stream, 0) + part.rows.num_rows
    return counted


def _write_late(writer: Writer, work: Work, part: Late) -> None:
    rows, count = part.rows, part.rows.num_rows
    told = {
        REASON: pa.array([part.reason] * count, pa.string()),
        CHAIN: pa.array(["; ".join(part.chains) or None] * count, pa.string()),
        TEXT: pa.nulls(count, pa.string()) if part.text is None else part.text,
    }
    taken = {name.lower() for name in rows.schema.names}
    for name, values in told.items():
        while name in taken:
            name = f"_{name}"
        rows = rows.append_column(name, values)
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
