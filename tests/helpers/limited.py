"""A shard of few groups whose segments are files: it spills, owes, cleans up and is started anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.engine.batch import BatchInput, Results, StreamRows
from millstream.engine.files import Files
from millstream.engine.groups import Grouping
from millstream.engine.keys import codes
from millstream.engine.memory import Memory, MemoryLimit
from millstream.engine.policies import make_policy
from millstream.engine.shard import Shard
from millstream.engine.shard_manifest import ShardManifest
from millstream.pipeline.slot_store import SlotStore
from millstream.plan import Plan
from millstream.testing import naive
from running import Kept

SECOND = 1_000_000
START = datetime(1970, 1, 1, tzinfo=UTC)
COUNT = 16
QUERIES = {
    "wide": "FROM A x, B y WHERE x.k = y.k WINDOW 60 SECONDS",
    "narrow": "FROM A x, B y WHERE x.k = y.k WINDOW 2 SECONDS",
    "self": "FROM A x, A y WHERE x.k = y.k WINDOW 3 SECONDS",
    "three": "FROM A x, B y, C z WHERE x.k = y.k AND y.k = z.k WINDOW 5 SECONDS",
    "path": "FROM A x, B y, C z WHERE x.k = y.k AND y.id % 2 = z.id % 2 WINDOW 3 SECONDS",
}
Rows = list[dict[str, Any]]
Batch = Mapping[str, Rows]
Found = Counter[tuple[str, int, int]]
"""How often each query got a pair of rows."""


@cache
def plan_of(*names: str) -> Plan:
    script = "".join(f"CREATE STREAM {name} (id BIGINT, k INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "ABC")
    for name in names:
        script += f"CREATE QUERY {name} AS SELECT x.id AS a, y.id AS b {QUERIES[name]};"
    return compile_script(script, settings={"groups": str(COUNT)})


def group_of(key: int) -> int:
    return int(Grouping(COUNT).of(codes([pa.array([key], pa.int64())], 1))[0])


def row(number: int, key: int, second: int) -> dict[str, Any]:
    return {"id": number, "k": key, "Ts": START + timedelta(seconds=second)}


def everything(plan: Plan, batches: Iterable[Batch]) -> Found:
    """What nested loops find."""
    rows: dict[str, Rows] = {stream.name: [] for stream in plan.script.streams}
    for batch in batches:
        for name, some in batch.items():
            rows[name] += some
    return Counter((query.name, one["a"], one["b"]) for query in plan.script.queries for one in naive(query, rows))


def counted(results: Iterable[Results]) -> Found:
    return Counter(
        (query, one["a"], one["b"]) for queries, rows, _ in results for query in queries for one in rows.to_pylist()
    )


class Limited:
    """A slot's shard and its store. `saved` is what was last committed."""

    def __init__(self, plan: Plan, files: Files, *, strict: bool = False) -> None:
        self.plan, self.files, self.strict = plan, files, strict
        self.store, self.kept = SlotStore(files), Kept()
        self.batch = self.watermark = 0
        self.saved = ShardManifest()
        self.shard = self._new()

    def _new(self) -> Shard:
        since = {query.name: 1 for query in self.plan.script.queries}
        return Shard(self.plan, since=since, policy=make_policy("greedy"), strict=self.strict, store=self.store)

    def change(self, plan: Plan) -> None:
        """Another plan of the same queries from the next batch on."""
        self.plan = plan
        self.shard.change(plan, {query.name: 1 for query in plan.script.queries})

    @property
    def memory(self) -> Memory:
        return self.shard.memory

    def restart(self, *, store: bool = True) -> None:
        """Goes on from what was committed: in another process, or in the same one, whose `store` is still there."""
        if store:
            self.store = SlotStore(self.files)
        self.shard = self._new()
        self.shard.restore(ShardManifest.from_json(self.saved.to_json()), self.kept)

    def run(self, batch: Batch, limit: MemoryLimit | None = None, *, finish: bool = False, attempt: str = "") -> Found:
        """A batch up to its commit; files of another `attempt` have other names."""
        self.store.prefix = f"{self.batch + 1}{attempt}-"
        output = self.shard.run_batch(
            BatchInput(
                batch=self.batch + 1,
                rows=list(self._rows(batch)),
                watermarks={chain.signature: self.watermark * SECOND for chain in self.plan.chains},
                finish=finish,
                memory=limit,
            )
        )
        found = counted(output.results)
        self.saved = self.shard.saved(self.kept)
        self.batch += 1
        return found

    def _rows(self, batch: Batch) -> Iterable[StreamRows]:
        for stream in self.plan.script.streams:
            pools = [pool.name for pool in self.plan.pools if pool.stream == stream]
            if pools and batch.get(stream.name):
                rows = pa.RecordBatch.from_pylist(list(batch[stream.name]), schema=arrow_schema(stream))
                yield StreamRows(stream, [rows], pools)

    def spill(self, groups: Sequence[int] | None = None) -> None:
        self.shard.spill(self.memory.grouping.every if groups is None else sum(1 << group for group in groups))
