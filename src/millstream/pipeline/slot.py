"""One slot in a Python worker of Spark: its rows of a batch in, a small report out.

A worker caches the shards it has run, so that a slot that stays with it continues from memory. A cached shard that was
not left by a task the last batch was committed from is restored: from the slot's part of that batch's manifest and from
the saved pools, whose files are memory-mapped.
"""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import Ints
from millstream.engine.backlog import Budget
from millstream.engine.batch import BatchInput, Results, StreamRows
from millstream.engine.files import Files
from millstream.engine.gauges import Measurements
from millstream.engine.groups import Groups
from millstream.engine.intake import CODE as HIDDEN_CODE
from millstream.engine.judge import UNREAD
from millstream.engine.memory import MemoryLimit
from millstream.engine.policies import make_policy
from millstream.engine.shard import Shard
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.shortage import shortage
from millstream.engine.store import HeldFiles
from millstream.engine.widths import together
from millstream.errors import QueryFailed
from millstream.model.functions import Function
from millstream.pipeline import late
from millstream.pipeline.durable import sync_slot
from millstream.pipeline.layout import BAD
from millstream.pipeline.manifest import SavedSlots, StagedFile
from millstream.pipeline.packing import unpacked
from millstream.pipeline.results import Target, Writer
from millstream.pipeline.routing import CODE, ROUTE, Routing, unkeyed
from millstream.pipeline.slot_store import SlotStore
from millstream.plan.nodes import Plan, PoolName, Signature

_MOST = 64
"""How many shards a worker caches before it forgets those of other runs, which may have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan:
    """What a slot needs to know of a plan; the same for all batches until the plan changes."""

    version: str
    plan: Plan
    routing: Routing
    since: Mapping[str, int]
    targets: Mapping[str, Target]
    late: str
    functions: Mapping[str, Function]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOrder:
    """What the driver asks of one slot: how many bytes of state it may hold in memory, how many it spills at least, and
    which sets of groups it gives up, each for another slot.
    """

    share: int
    spill: int = 0
    leave: tuple[Groups, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """The driver's request to all slots in one batch. `run` identifies the driver's process, `pipeline` the directory,
    which is at `location`. `plan` is a packed SlotPlan of this version.

    `committed` are the ids of the Spark tasks that this run committed the batch before from, as ranges. Spark gives no
    id twice, and those of a stage follow each other: a few ranges say of every slot in which task, and so in which
    worker, its committed state came about.

    Without a `share` there is no limit of memory; slots with an order of their own are in `orders`. `unfinished` is
    what slots have deferred or owe in strict order, by chain. `reaches` are pools that are cut short, in microseconds.
    """

    run: str
    pipeline: str
    location: str
    batch: int
    watermarks: Mapping[Signature, int]
    horizons: Mapping[str, int]
    committed: tuple[range, ...]
    plan_version: str
    plan: bytes
    finish: bool
    share: int | None = None
    orders: Mapping[int, SlotOrder] = field(default_factory=dict)
    unfinished: Mapping[Signature, int] = field(default_factory=dict)
    reaches: Mapping[PoolName, int] = field(default_factory=dict)

    def order(self, slot: int) -> SlotOrder | None:
        default = None if self.share is None else SlotOrder(share=self.share)
        return self.orders.get(slot, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotMemory:
    """The memory of a slot in bytes, and its groups: what each has in memory, and what it has given."""

    held: int
    on_disk: int
    just_spilled: int
    spilled: Groups
    group_bytes: Ints
    group_results: Ints
    short: str = ""
    """Why it cannot keep to its limit, for people to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReport:
    """A slot's report to the driver, from a Spark task. With an `error` all else is empty: `failed` are the queries to
    blame, and where there are none the batch as a whole has failed. `leaving` is what it gives up, set by set.
    """

    slot: int
    task: int
    token: str
    state: ShardManifest = field(default_factory=ShardManifest)
    outputs: tuple[StagedFile, ...] = ()
    greatest: Mapping[str, int] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    rows_in: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    served: Mapping[tuple[str, int], int] = field(default_factory=dict)
    oldest_held: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    executor: str = ""
    leaving: tuple[ShardManifest, ...] = ()
    memory: SlotMemory | None = None
    unfinished: Mapping[Signature, int] = field(default_factory=dict)
    measured: Measurements = field(default_factory=Measurements)
    failed: tuple[str, ...] = ()
    error: str = ""


def executor() -> str:
    """The executor this worker belongs to: the machine, and the daemon that started the worker."""
    return f"{socket.gethostname()} {os.getppid()}"


@dataclass(slots=True, kw_only=True)
class _Cached:
    """A shard as a task has left it."""

    task: int
    version: str
    shard: Shard
    store: SlotStore


_PLANS: dict[str, SlotPlan] = {}
_SHARDS: dict[tuple[str, int], _Cached] = {}
_SAVED: dict[tuple[str, int], SavedSlots] = {}


def run_slot(request: BatchRequest, slot: int, task: int, batches: Iterable[pa.RecordBatch]) -> SlotReport:
    """Runs a slot's part of a batch in a Spark task."""
    key, token = (request.run, slot), uuid.uuid4().hex[:10]
    _forget_stale(request)
    # Removed from the cache while it runs: a shard that fails half-way must not be used again.
    cached = _SHARDS.pop(key, None)
    try:
        report, cached = _run(request, slot, task, token, batches, cached)
    except QueryFailed as failure:
        error = failure.cause or "an expression failed"
        return SlotReport(slot=slot, task=task, token=token, executor=executor(), failed=failure.queries, error=error)
    _SHARDS[key] = cached
    others = [other for other in _SHARDS if other[0] != request.run]
    for other in others[: max(len(_SHARDS) - _MOST, 0)]:
        del _SHARDS[other]
    return report


def _forget_stale(request: BatchRequest) -> None:
    """Closes shards of this run that other workers have run since: they take memory, and would have to be restored."""
    newest = max((tasks.stop for tasks in request.committed), default=0)
    for key, cached in list(_SHARDS.items()):
        if key[0] == request.run and cached.task < newest and not any(cached.task in one for one in request.committed):
            del _SHARDS[key]


def _run(
    request: BatchRequest, slot: int, task: int, token: str, batches: Iterable[pa.RecordBatch], cached: _Cached | None
) -> tuple[SlotReport, _Cached]:
    clock = _Stopwatch()
    plan = _plan(request)
    settings = plan.plan.script.settings
    sync, prefix = settings.sync == "on", f"{request.batch:08}-{slot:03}-{token}-"
    files = Files.at(request.location).below("segments")
    held = HeldFiles(files, prefix)
    rows = list(_read(plan, slot, batches))
    clock.lap("read")
    cached = _brought_up(request, slot, plan, cached, held)
    shard = cached.shard
    cached.store.prefix = prefix
    clock.lap("restore")
    order = request.order(slot)
    limit = MemoryLimit.of(settings, order.share, order.spill) if order else None
    given = BatchInput(
        batch=request.batch,
        rows=rows,
        watermarks=request.watermarks,
        horizons=request.horizons,
        budget=Budget(seconds=settings.budget / 1e6 or None),
        finish=request.finish,
        memory=limit,
        unfinished=request.unfinished,
        reaches=request.reaches,
    )
    output = shard.run_batch(given)
    del rows, given
    clock.lap("read")
    writer = Writer(request.pipeline, request.batch, slot, token, sync=sync)
    leave = order.leave if order else ()
    given_up = (rows for groups in leave for rows in shard.before_leaving(groups))
    served = _write(writer, plan.targets, chain(output.results, given_up), clock)
    for part in output.late:
        writer.write([Target(part.stream, f"{plan.late}/{part.stream}")], late.told(part))
    outputs = writer.close()
    leaving = tuple(map(shard.memory.give_up, leave))
    state = shard.saved(held)
    if sync:
        sync_slot(files, prefix, (state, *leaving), writer.syncing)
    cached.store.forget_all_but({entry.name for entry in state.segments})
    clock.lap("write")
    cached.task = task
    memory = shard.memory
    report = SlotReport(
        slot=slot,
        task=task,
        token=token,
        state=state,
        outputs=tuple(outputs),
        greatest=output.greatest,
        least=output.least,
        rows_in=output.rows_in,
        late=late.counts(output.late),
        served=served,
        oldest_held=shard.oldest_held,
        seconds=clock.spent,
        executor=executor(),
        leaving=leaving,
        memory=_memory(shard, limit) if limit else None,
        unfinished=shard.unfinished(),
        measured=shard.measured(),
    )
    if order and (leaving or memory.just_spilled or memory.spilled.by_marks):
        release_unused()
    return report, cached


def _memory(shard: Shard, limit: MemoryLimit) -> SlotMemory:
    memory = shard.memory
    return SlotMemory(
        held=memory.nbytes + shard.held_bytes,
        on_disk=memory.nbytes_on_disk,
        just_spilled=memory.just_spilled,
        spilled=memory.spilled.groups,
        group_bytes=memory.group_bytes(),
        group_results=memory.statistics.results.astype(np.int64),
        short=shortage(memory, limit, shard.held_bytes),
    )


def release_unused() -> None:
    """Gives memory that is free back to the system; allocators would keep it for later."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has it
    if trim is not None:
        trim(0)


def _plan(request: BatchRequest) -> SlotPlan:
    found = _PLANS.get(request.plan_version)
    if found is None:
        # The plan is new; earlier ones are not needed again.
        _PLANS.clear()
        found = _PLANS[request.plan_version] = unpacked(request.plan)
    return found


def _brought_up(request: BatchRequest, slot: int, plan: SlotPlan, cached: _Cached | None, held: HeldFiles) -> _Cached:
    """The slot's shard as the last committed batch left it, with the current plan."""
    is_current = cached is not None and any(cached.task in tasks for tasks in request.committed)
    if cached is None:
        store, settings = SlotStore(held.files), plan.plan.script.settings
        shard = Shard(
            plan.plan,
            since=plan.since,
            policy=make_policy(settings.policy, settings.fairness, settings.queue_memory * 1e6),
            strict=settings.order == "strict",
            functions=plan.functions,
            store=store,
        )
        cached = _Cached(task=-1, version=plan.version, shard=shard, store=store)
    elif cached.version != plan.version:
        cached.shard.change(plan.plan, plan.since)
        cached.version = plan.version
    if not is_current:
        cached.shard.restore(_committed(request, slot), held)
    return cached


def _committed(request: BatchRequest, slot: int) -> ShardManifest:
    """The slot's part of the manifest of the batch before. The file is read once for all slots of a worker."""
    before = request.batch - 1
    if not before:
        return ShardManifest()
    key = (request.run, before)
    if key not in _SAVED:
        _SAVED.clear()
        _SAVED[key] = SavedSlots.read(Files.at(request.location).below("manifest"), before)
    return _SAVED[key].shard(slot)


def _write(
    writer: Writer, targets: Mapping[str, Target], results: Iterable[Results], clock: _Stopwatch
) -> dict[tuple[str, int], int]:
    """Writes results as they are made; returns how many each query got, by the batch their probing rows arrived in."""
    served: dict[tuple[str, int], int] = {}
    for queries, rows, arrived in results:
        for query in queries:
            for batch, count in arrived.items():
                served[query, batch] = served.get((query, batch), 0) + count
        clock.lap("join")
        writer.write([targets[query] for query in queries], rows)
        clock.lap("write")
    clock.lap("join")
    return served


def _read(plan: SlotPlan, slot: int, batches: Iterable[pa.RecordBatch]) -> Iterator[StreamRows]:
    """A slot's rows of a batch, route by route."""
    routing = plan.routing
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
    for number, own in parts.items():
        stream = routing.layout.streams[routing.routes[number].stream]
        pools = [pool for pool, route in routing.ways.items() if route == number]
        whole = [_columns(plan, number, part) for part in together(own)]
        yield StreamRows(stream, whole, pools, counted=routing.counts(number, slot))


def _columns(plan: SlotPlan, number: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of one route: the columns of their stream, with their key codes and the text that did not parse."""
    routing, route = plan.routing, plan.routing.routes[number]
    cause = unkeyed(rows, route)
    if cause:
        pools = [pool for pool, way in routing.ways.items() if way == number]
        readers = [one for pool in pools for one in plan.plan.readers(pool)]
        raise QueryFailed({member.name for one in readers for member in one.members}, cause)
    own = routing.layout.rows(rows, route.stream).append_column(HIDDEN_CODE, rows.column(CODE))
    bad = rows.column(BAD)
    return own if bad.null_count == len(bad) else own.append_column(UNREAD, bad)


class _Stopwatch:
    """Measures where the time of a slot goes."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.spent[name] = self.spent.get(name, 0.0) + now - self._last
        self._last = now
