"""What the driver and its slots do on Spark, in one process: shards that come and go, each with a part of the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.backlog import UNBOUNDED, Budget
from millstream.engine.batch import BatchInput, Results, StreamRows
from millstream.engine.files import Files
from millstream.engine.groups import Grouping, Groups, group_set
from millstream.engine.handover import received
from millstream.engine.keys import codes
from millstream.engine.memory import MemoryLimit
from millstream.engine.policies import make_policy
from millstream.engine.probe import CHUNK
from millstream.engine.shard import Shard
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.store import HeldFiles
from millstream.engine.watermark import StreamClock, chain_watermark
from millstream.model.query import Query
from millstream.pipeline.follows import check_follows
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.pipeline.slot_store import SlotStore
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
    moves: Sequence[tuple[int, int, Groups]] = ()
    """Which slot gives which groups to which other slot after the batch."""


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
        self._table = [group % count for group in range(1024)]

    def run(self, step: Step) -> dict[str, Rows]:
        """The rows that each query gets with this batch."""
        plan, batch = step.plan, self._manifest.batch + 1
        before = self._since
        self._since = {}
        for query in plan.script.queries:
            known = before.get(query.name)
            self._since[query.name] = known if known and known[0] == query else (query, batch)
        since = self._firsts()
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
        self._commit(plan, batch, self._moved(step))
        return found

    def _moved(self, step: Step) -> list[ShardManifest]:
        """What the shards have after their groups have moved. A receiver is restored."""
        plan = step.plan
        everywhere = {pool.name for pool in plan.pools if pool.spread.everywhere}
        for sender, receiver, groups in step.moves:
            mine = groups & group_set(group for group, slot in enumerate(self._table) if slot == sender)
            if sender == receiver or not mine:
                continue
            leaving = self._shards[sender].memory.give_up(mine)
            own = self._shards[receiver].saved(self._held())
            self._shards[receiver] = self._restored(receiver, plan, self._firsts(), received(own, leaving, everywhere))
            self._table = [receiver if mine >> group & 1 else slot for group, slot in enumerate(self._table)]
        return [shard.saved(self._held()) for shard in self._shards]

    @property
    def deferred(self) -> int:
        return sum(shard.deferred for shard in self._shards)

    def _held(self) -> HeldFiles:
        self._stores += 1
        return HeldFiles(Files.at(self._place), f"{self._stores}-")

    def _firsts(self) -> dict[str, int]:
        return {name: first for name, (_, first) in self._since.items()}

    def _restored(self, slot: int, plan: Plan, since: Mapping[str, int], state: ShardManifest | None = None) -> Shard:
        self._stores += 1
        store = SlotStore(Files.at(self._place))
        store.prefix = f"{self._stores}-"
        chosen = plan.script.settings
        policy = make_policy(chosen.policy, chosen.fairness, chosen.queue_memory * 1e6)
        strict = chosen.order == "strict"
        shard = Shard(plan, since=since, policy=policy, strict=strict, store=store, chunk=self._chunk)
        saved = self._manifest.slots.get(slot)
        shard.restore(state or (saved.shard if saved else ShardManifest()), self._held())
        return shard

    def _rows(self, slot: int, step: Step) -> list[StreamRows]:
        found = []
        for stream in step.plan.script.streams:
            rows = step.rows[stream.name].combine_chunks()
            if self._count > 1:
                rows = rows.filter(pa.array(self._slot_of(rows.column(self._key).combine_chunks()) == slot))
            pools = [pool.name for pool in step.plan.pools if pool.stream.name == stream.name]
            found.append(StreamRows(stream, rows.to_batches(), pools))
        return found

    def _slot_of(self, keys: pa.Array) -> np.ndarray:
        """The slot of each key by its group; that of nulls is the first."""
        coded = np.zeros(len(keys), dtype=np.uint64)
        there = np.asarray(pc.is_valid(keys).to_numpy(zero_copy_only=False), dtype=np.bool_)
        coded[there] = codes([keys.drop_null()], int(there.sum()))
        return np.array(self._table).take(Grouping(len(self._table)).of(coded))

    def _commit(self, plan: Plan, batch: int, saved: list[ShardManifest]) -> None:
        slots = {slot: SlotManifest(f"{batch}-{slot}", shard) for slot, shard in enumerate(saved)}
        after = Manifest(batch=batch, pipeline="p", routing=self._manifest.routing, slots=slots)
        check_follows(self._manifest, after, plan)
        self._manifest = Manifest.from_json(after.to_json())
