"""Scripts, definitions, orders and settings change between batches and restarts, and nothing is lost or doubled.

Each batch is run by a shard that was saved by the one before, or goes on from memory, as slots on Spark do.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.engine.backlog import Budget
from millstream.engine.batch import BatchInput, StreamRows
from millstream.engine.files import Files
from millstream.engine.policies import make_policy
from millstream.engine.shard import Shard
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.store import FileStore, HeldFiles
from millstream.engine.watermark import StreamClock, chain_watermark
from millstream.model.query import Query
from millstream.model.settings import POLICY_NAMES
from millstream.pipeline.follows import check_follows
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.plan import Plan
from millstream.testing import naive

Rows = list[dict[str, Any]]
START = datetime(2024, 1, 1, tzinfo=UTC)
COLUMNS = "k INT, v INT, m DECIMAL(9, 2), s STRING, Ts TIMESTAMP"
STREAMS = "".join(
    f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts', delay = '3 seconds', rate = {rate});\n"
    for name, rate in (("A", 80), ("B", 1))
)
NARROW = "SELECT A.v AS a, B.v AS b, A.Ts AS t, B.Ts AS u FROM A, B WHERE"
OTHER = "SELECT A.s, B.m, A.v + B.v AS w, B.Ts AS u FROM A, B WHERE"
DEFINITIONS = {
    "stays": [f"{NARROW} A.k = B.k WINDOW 6 SECONDS"],
    "changes": [
        f"{NARROW} A.k = B.k WINDOW 4 SECONDS",
        f"{OTHER} A.k = B.k AND A.v > 0 WINDOW 9 SECONDS",
        f"{OTHER} A.k = B.k AND A.v + B.v > 0 WINDOW 9 SECONDS",
        f"{NARROW} A.k + 1 = B.k WINDOW 5 SECONDS",
    ],
    "computed": [f"{OTHER} A.k + 1 = B.k WINDOW 7 SECONDS", f"{NARROW} B.k = A.k + 1 AND A.v < B.v WINDOW 2 SECONDS"],
    "one_way": [f"{NARROW} A.k = B.k AND B.Ts BETWEEN A.Ts AND A.Ts + INTERVAL '4' SECOND"],
    "text": [f"{OTHER} A.s = B.s AND A.m = B.m WINDOW 8 SECONDS"],
}


@dataclass(frozen=True)
class Step:
    """A batch, the definitions in force with it, and whether the process was started anew before it."""

    rows: Mapping[str, Rows]
    running: Mapping[str, int]
    restarts: bool
    order: str
    slicing: str
    policy: str
    budget: Budget

    def plan(self) -> Plan:
        queries = "".join(f"CREATE QUERY {name} AS {DEFINITIONS[name][n]};\n" for name, n in self.running.items())
        chosen = {"order": self.order, "slicing": self.slicing, "policy": self.policy}
        return compile_script(STREAMS + queries, settings=chosen)


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = []
    clock, order = 0, draw(st.sampled_from(["eager", "strict"]))
    running: dict[str, int] = {"stays": 0}
    for _ in range(draw(st.integers(2, 6))):
        batch: dict[str, Rows] = {"A": [], "B": []}
        for _ in range(draw(st.integers(0, 8))):
            clock += draw(st.sampled_from([0, 1, 1, 2]))
            row = {
                "k": draw(st.integers(1, 3)),
                "v": draw(st.integers(-1, 2)),
                "m": draw(st.sampled_from([Decimal("1.00"), Decimal("2.50"), None])),
                "s": draw(st.sampled_from(["", "x" * 3000, None])),
                "Ts": START + timedelta(seconds=max(clock - draw(st.integers(0, 1)), 0)),
            }
            batch[draw(st.sampled_from("AB"))].append(row)
        restarts = draw(st.booleans())
        if draw(st.booleans()):
            chosen = draw(st.sets(st.sampled_from(sorted(DEFINITIONS))))
            running = {name: draw(st.integers(0, len(DEFINITIONS[name]) - 1)) for name in sorted(chosen)} | {"stays": 0}
        if restarts:
            order = draw(st.sampled_from(["eager", "strict"]))
        steps.append(
            Step(
                rows=batch,
                running=dict(running),
                restarts=restarts,
                order=order,
                slicing=draw(st.sampled_from(["cpu", "memory"])),
                policy=draw(st.sampled_from(POLICY_NAMES)),
                budget=draw(st.sampled_from([Budget(), Budget(units=1), Budget(seconds=0)])),
            )
        )
    return steps


class Runner:
    """What the driver and one slot do, with shards that come and go."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._manifest = Manifest(pipeline="p", routing=(0,))
        self._shard: Shard | None = None
        self._since: dict[str, tuple[Query, int]] = {}
        self._clocks: dict[str, StreamClock] = {}
        self._stores = 0
        self.found: dict[str, Rows] = {}

    def run(self, step: Step, *, finish: bool) -> None:
        plan, batch = step.plan(), self._manifest.batch + 1
        before = self._since
        self._since = {}
        for query in plan.script.queries:
            known = before.get(query.name)
            self._since[query.name] = known if known and known[0] == query else (query, batch)
        since = {name: first for name, (_, first) in self._since.items()}
        watermarks = {}
        for chain in plan.chains:
            clocks = [self._clocks.setdefault(stream.name, StreamClock(stream)) for stream in chain.streams]
            watermarks[chain.signature] = chain_watermark(clocks)
        if self._shard is None or step.restarts:
            self._shard = self._restored(step, plan, since)
        else:
            self._shard.change(plan, since)
        given = BatchInput(
            batch=batch, rows=self._rows(step, plan), watermarks=watermarks, budget=step.budget, finish=finish
        )
        output = self._shard.run_batch(given)
        assert not output.late
        for queries, rows, _ in output.results:
            for query in queries:
                self.found.setdefault(query, []).extend(rows.to_pylist())
        for name, greatest in output.greatest.items():
            self._clocks[name].saw(greatest)
        self._commit(plan, batch, self._shard.saved(self._held()))

    def _held(self) -> HeldFiles:
        self._stores += 1
        return HeldFiles(Files.at(self._place), f"{self._stores}-")

    def _restored(self, step: Step, plan: Plan, since: Mapping[str, int]) -> Shard:
        self._stores += 1
        store = FileStore(Files.at(self._place), f"{self._stores}-")
        policy = make_policy(step.policy, "none", 1e9)
        shard = Shard(plan, since=since, policy=policy, strict=step.order == "strict", store=store)
        slot = self._manifest.slots.get(0)
        shard.restore(slot.shard if slot else ShardManifest(), self._held())
        return shard

    def _rows(self, step: Step, plan: Plan) -> list[StreamRows]:
        found = []
        for stream in plan.script.streams:
            self._clocks.setdefault(stream.name, StreamClock(stream))
            rows = pa.RecordBatch.from_pylist(step.rows[stream.name], schema=arrow_schema(stream))
            pools = [pool.name for pool in plan.pools if pool.stream.name == stream.name]
            found.append(StreamRows(stream, [rows], pools))
        return found

    def _commit(self, plan: Plan, batch: int, state: ShardManifest) -> None:
        after = Manifest(batch=batch, pipeline="p", routing=(0,), slots={0: SlotManifest(str(batch), state)})
        check_follows(self._manifest, after, plan)
        self._manifest = Manifest.from_json(after.to_json())


def bag(rows: Rows) -> Counter[str]:
    return Counter(repr([str(value) for value in row.values()]) for row in rows)


def joined(query: Query, steps: list[Step]) -> Counter[str]:
    everything = {name: [row for step in steps for row in step.rows[name]] for name in "AB"}
    return bag(naive(query, everything))


def spans(steps: list[Step], name: str) -> Iterator[tuple[int, int]]:
    """From when to when a query ran under one definition."""
    defined = [step.running.get(name) for step in steps] + [None]
    first = 0
    for number in range(1, len(defined)):
        if defined[number] != defined[first]:
            if defined[first] is not None:
                yield first, number
            first = number


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(steps=histories())
def test_restarts_with_other_scripts_and_settings(steps: list[Step]) -> None:
    place = Path(tempfile.mkdtemp(prefix="millstream-"))
    try:
        runner = Runner(place)
        given_out: dict[tuple[str, int], Rows] = {}
        firsts = {(name, n) for name in DEFINITIONS for n, _ in spans(steps, name)}
        began: dict[str, int] = {}
        for number, step in enumerate(steps):
            for name in DEFINITIONS:
                if (name, number) in firsts:
                    began[name] = number
            runner.found = {}
            runner.run(step, finish=number == len(steps) - 1)
            for name, rows in runner.found.items():
                given_out.setdefault((name, began[name]), []).extend(rows)
    finally:
        shutil.rmtree(place)
    for name in DEFINITIONS:
        for first, stop in spans(steps, name):
            (query,) = (one for one in steps[first].plan().script.queries if one.name == name)
            rows = bag(given_out.pop((name, first), []))
            event("rows" if rows else "no rows")
            before, until, inside = (joined(query, some) for some in (steps[:first], steps[:stop], steps[first:stop]))
            assert not rows - (until - before), "a row that no tuple since its addition makes, or one too many"
            if stop == len(steps):
                assert not inside - rows, "a row between tuples that came since its addition is missing"
                if first == 0:
                    assert rows == until
    assert not given_out
