"""Several machines in one process: a shard each, with files of its own, under one of the pipeline's strategies.

What Spark would do is done here by hand and in turn: rows are sent to the shard of their partition group, each shard
runs its part of a batch, a strategy decides from the loads they report, and groups that move are handed over by name. A
shard stands for a machine; what machines would do side by side is done one after the other, and is timed for each.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from millstream.engine.batch import BatchInput, StreamRows
from millstream.engine.files import Files
from millstream.engine.groups import Grouping, group_set, members
from millstream.engine.handover import received
from millstream.engine.memory import MemoryLimit
from millstream.engine.policies import make_policy
from millstream.engine.shard import Shard
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.store import HeldFiles
from millstream.lab.workloads.join_ratio import Coding, engine_codes, pools_of
from millstream.pipeline.adaptation.decision import Decision, Move, Strategy
from millstream.pipeline.adaptation.loads import ClusterLoad, SlotLoad
from millstream.pipeline.slot_store import SlotStore
from millstream.plan import Plan

UNLIMITED = MemoryLimit(nbytes=1 << 62)
"""So that results are counted by group as they are where there is a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a batch has done, and how the machines are after it; lists have an entry for each machine."""

    results: int
    memory: Sequence[int]
    disk: Sequence[int]
    spilled: Sequence[int]
    """The bytes that went to disk in the batch."""
    cpu: float
    """CPU seconds of all machines together, with all that was decided and moved."""
    moving: float = 0.0
    """CPU seconds of deciding and moving alone."""
    moved: int = 0
    """How many groups have moved after it."""
    copied: int = 0
    """The bytes of files that were written by the moves."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CleanUp:
    """The clean-up of one machine."""

    rows: int
    seconds: float


@dataclass(slots=True)
class _Machine:
    shard: Shard
    limit: MemoryLimit
    on_disk: int = 0
    loads: list[SlotLoad] = field(default_factory=list)


class Machines:
    """`table` says which machine has which partition group, `estimated` how many bytes all state will take."""

    def __init__(
        self,
        place: Path,
        plan: Plan,
        *,
        table: Sequence[int],
        strategy: Strategy,
        limit: MemoryLimit = UNLIMITED,
        estimated: int = 0,
        coding: Coding = engine_codes,
    ) -> None:
        self._files, self._plan, self._strategy = Files.at(place), plan, strategy
        self._table, self._estimated, self._coding = np.array(table), estimated, coding
        self._grouping = Grouping(plan.script.settings.groups)
        self._stores = self._batch = 0
        self._machines = [_Machine(self._shard(), limit) for _ in range(int(max(table)) + 1)]
        self._limit = limit

    def _shard(self, state: ShardManifest | None = None) -> Shard:
        self._stores += 1
        store = SlotStore(self._files)
        store.prefix = f"{self._stores}-"
        since = {query.name: 1 for query in self._plan.script.queries}
        shard = Shard(self._plan, since=since, policy=make_policy("greedy"), strict=False, store=store)
        if state is not None:
            shard.restore(state, self._held())
        return shard

    def _held(self) -> HeldFiles:
        return HeldFiles(self._files, f"{self._stores}-")

    def run(self, rows: Mapping[str, pa.Table], now: float) -> Sample:
        """A batch, and what is decided after it; `now` are seconds of the experiment's own clock."""
        self._batch += 1
        sent = self._sent(rows)
        began = time.process_time()
        found = [self._run_on(number, sent[number]) for number in range(len(self._machines))]
        loads = tuple(self._load(number, results) for number, results in enumerate(found))
        ran = time.process_time()
        decision = self._strategy.decide(ClusterLoad(slots=loads, estimated=self._estimated), now)
        copied = self._follow(decision)
        return Sample(
            results=sum(found),
            memory=[one.memory for one in loads],
            disk=[one.disk for one in loads],
            spilled=[one.just_spilled for one in loads],
            cpu=time.process_time() - began,
            moving=time.process_time() - ran,
            moved=sum(len(members(move.groups)) for move in decision.moves),
            copied=copied,
            reason=decision.reason,
        )

    def _sent(self, rows: Mapping[str, pa.Table]) -> list[list[StreamRows]]:
        """The rows of each machine."""
        found: list[list[StreamRows]] = [[] for _ in self._machines]
        for stream in self._plan.script.streams:
            table = rows[stream.name].combine_chunks()
            to = self._table[self._grouping.of(self._coding(np.asarray(table.column("K"))))]
            for number, own in enumerate(found):
                some = table.filter(pa.array(to == number))
                if some.num_rows:
                    own.append(StreamRows(stream, some.to_batches(), pools_of(self._plan, stream.name)))
        return found

    def _run_on(self, number: int, rows: list[StreamRows]) -> int:
        machine = self._machines[number]
        limit = machine.limit if self._strategy.spills else UNLIMITED
        output = machine.shard.run_batch(BatchInput(batch=self._batch, rows=rows, memory=limit))
        results = sum(int(one.rows.num_rows) for one in output.results)
        machine.shard.keep()
        machine.limit = replace(machine.limit, extra=0)
        return results

    def _load(self, number: int, results: int) -> SlotLoad:
        machine = self._machines[number]
        memory = machine.shard.memory
        disk = memory.nbytes_on_disk
        load = SlotLoad(
            slot=number,
            executor=f"machine {number + 1}",
            memory=memory.nbytes,
            limit=0 if self._limit is UNLIMITED else self._limit.nbytes,
            disk=disk,
            results=results,
            just_spilled=max(0, disk - machine.on_disk),
            groups=group_set(np.flatnonzero(self._table == number).tolist()),
            spilled=memory.spilled.groups,
            group_bytes=memory.group_bytes(),
            group_results=memory.statistics.results.astype(np.int64),
        )
        machine.on_disk = disk
        return load

    def _follow(self, decision: Decision) -> int:
        for spill in decision.spills:
            machine = self._machines[spill.slot]
            machine.limit = replace(machine.limit, extra=spill.nbytes)
        before = self._written() if decision.moves else 0
        for move in decision.moves:
            self._move(move)
        return self._written() - before if decision.moves else 0

    def _move(self, move: Move) -> None:
        """The receiver goes on from its own state and what the sender has given up, both by the names of files."""
        sender, receiver = self._machines[move.sender], self._machines[move.receiver]
        everywhere = {pool.name for pool in self._plan.pools if pool.spread.everywhere}
        leaving = sender.shard.memory.give_up(move.groups)
        own = receiver.shard.saved(self._held())
        before = receiver.shard.memory.statistics
        receiver.shard = self._shard(received(own, leaving, everywhere))
        chosen = members(move.groups)
        statistics = receiver.shard.memory.statistics = before
        statistics.results[chosen] = sender.shard.memory.statistics.results[chosen]
        statistics.last_in[chosen] = sender.shard.memory.statistics.last_in[chosen]
        self._table[chosen] = move.receiver
        for machine in (sender, receiver):
            machine.on_disk = machine.shard.memory.nbytes_on_disk

    def _written(self) -> int:
        """The bytes of all files there are; nothing is deleted while machines run."""
        return sum(self._files.size(name) or 0 for name in self._files.names())

    def clean_up(self) -> list[CleanUp]:
        """What every machine still owes, found within its memory."""
        self._batch += 1
        found = []
        for machine in self._machines:
            began = time.perf_counter()
            limit = replace(machine.limit, extra=0)
            output = machine.shard.run_batch(BatchInput(batch=self._batch, memory=limit, finish=True))
            rows = sum(int(one.rows.num_rows) for one in output.results)
            found.append(CleanUp(rows, time.perf_counter() - began))
        return found
