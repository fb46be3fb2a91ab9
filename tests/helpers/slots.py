"""What the driver and its slots do on Spark, in one process: shards that come and go, each with a part of the keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.engine.backlog import UNBOUNDED, Budget
from millstream.engine.batch import BatchInput, Results, StreamRows
from millstream.engine.files import Files
from millstream.engine.memory import MemoryLimit
from millstream.engine.policies import make_policy
from millstream.engine.probe import CHUNK
from millstream.engine.shard import Shard
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.store import FileStore, HeldFiles
from millstream.engine.watermark import StreamClock, chain_watermark
from millstream.model.query import Query
from millstream.pipeline.follows import check_follows
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.plan import Plan

Rows = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A batch, the plan it is run by, and whether the process was started anew before it. `finish` says that no more
    rows will come.
    """

    plan: Plan
    rows: Mapping[str, pa.Table]
    restarts: bool = False
    budget: Budget = UNBOUNDED
    finish: bool = False
    memory: MemoryLimit | None = None
    then: Callable[[Shard], Iterable[Results]] = lambda _: ()
    """What is done with each shard after its batch."""


class Slots:
    """So many shards. Each batch is run by shards that were saved after the one before, or that go on from memory.

    Rows go to shards by the value of `key`; one shard takes all.
    """

    def __init__(self, place: Path, *, count: int = 1, key: str = "x", chunk: int = CHUNK) -> None:
        self._place, self._count, self._key, self._chunk = place, count, key, chunk
        self._manifest = Manifest(pipeline="p", routing=tuple(range(count)))
        self._shards: list[Shard] = []
        self._since: dict[str, tuple[Query, int]] = {}
        self._clocks: dict[str, StreamClock] = {}
        self._stores = 0

    def run(self, step: Step) -> dict[str, Rows]:
        """The rows that each query gets with this batch."""
        plan, batch = step.plan, self._manifest.batch + 1
        before = self._since
        self._since = {}
        for query in plan.script.queries:
            known = before.get(query.name)
            self._since[query.name] = known if known and known[0] == query else (query, batch)
        since = {name: first for name, (_, first) in self._since.items()}
        for stream in plan.script.streams:
            self._clocks.setdefault(stream.name, StreamClock(stream))
        watermarks = {
            one.signature: chain_watermark([self._clocks[stream.name] for stream in one.streams]) for one in plan.chains
        }
        if not self._shards or step.restarts:
            self._shards = [self._restored(slot, plan, since) for slot in range(self._count)]
        else:
            for shard in self._shards:
                shard.change(plan, since)
        found: dict[str, Rows] = {}
        greatest: dict[str, int] = {}
        for slot, shard in enumerate(self._shards):
            given = BatchInput(
                batch=batch,
                rows=self._rows(slot, step),
                watermarks=watermarks,
                budget=step.budget,
                finish=step.finish,
                memory=step.memory,
            )
            output = shard.run_batch(given)
            assert not output.late
            for queries, rows, _ in chain(output.results, () if step.finish else step.then(shard)):
                for query_name in queries:
                    found.setdefault(query_name, []).extend(rows.to_pylist())
            for name, time in output.greatest.items():
                greatest[name] = max(time, greatest.get(name, time))
        for name, time in greatest.items():
            self._clocks[name].saw(time)
        self._commit(plan, batch, [shard.saved(self._held()) for shard in self._shards])
        return found

    @property
    def deferred(self) -> int:
        return sum(shard.deferred for shard in self._shards)

    def _held(self) -> HeldFiles:
        self._stores += 1
        return HeldFiles(Files.at(self._place), f"{self._stores}-")

    def _restored(self, slot: int, plan: Plan, since: Mapping[str, int]) -> Shard:
        self._stores += 1
        store = FileStore(Files.at(self._place), f"{self._stores}-")
        chosen = plan.script.settings
        policy = make_policy(chosen.policy, chosen.fairness, chosen.queue_memory * 1e6)
        strict = chosen.order == "strict"
        shard = Shard(plan, since=since, policy=policy, strict=strict, store=store, chunk=self._chunk)
        saved = self._manifest.slots.get(slot)
        shard.restore(saved.shard if saved else ShardManifest(), self._held())
        return shard

    def _rows(self, slot: int, step: Step) -> list[StreamRows]:
        found = []
        for stream in step.plan.script.streams:
            rows = step.rows[stream.name].combine_chunks()
            if self._count > 1:
                own = [part_of(value, self._count) == slot for value in rows.column(self._key).to_pylist()]
                rows = rows.filter(pa.array(own, pa.bool_()))
            pools = [pool.name for pool in step.plan.pools if pool.stream.name == stream.name]
            found.append(StreamRows(stream, rows.to_batches(), pools))
        return found

    def _commit(self, plan: Plan, batch: int, saved: list[ShardManifest]) -> None:
        slots = {slot: SlotManifest(f"{batch}-{slot}", shard) for slot, shard in enumerate(saved)}
        after = Manifest(batch=batch, pipeline="p", routing=self._manifest.routing, slots=slots)
        check_follows(self._manifest, after, plan)
        self._manifest = Manifest.from_json(after.to_json())


def part_of(value: Any, count: int) -> int:
    """The shard of a key: equal values have the same, NaN and nulls the first."""
    return 0 if value is None or (isinstance(value, float) and math.isnan(value)) else hash(value) % count
