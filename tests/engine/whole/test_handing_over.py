"""Shards that hand partition groups over while queries come: together they find what one shard finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.engine.backlog import UNBOUNDED, Budget
from millstream.engine.batch import BatchInput, Results, StreamRows
from millstream.engine.files import Files
from millstream.engine.groups import Grouping, Groups
from millstream.engine.handover import received
from millstream.engine.keys import codes
from millstream.engine.memory import MemoryLimit
from millstream.engine.policies import make_policy
from millstream.engine.shard import Shard
from millstream.engine.shard_manifest import ShardManifest
from millstream.pipeline.follows import check_follows
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.pipeline.slot_store import SlotStore
from millstream.plan import Plan
from millstream.plan.nodes import Chain
from running import Kept

SECOND = 1_000_000
START = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = {
    "wide": "FROM A x, B y WHERE x.k = y.k WINDOW 4 SECONDS",
    "self": "FROM A x, A y WHERE x.k = y.k WINDOW 2 SECONDS",
    "path": "FROM A x, B y, C z WHERE x.k = y.k AND y.id % 2 = z.id % 2 WINDOW 3 SECONDS",
}
LATER = {
    "narrow": "FROM A x, B y WHERE x.k = y.k WINDOW 2 SECONDS",
    "other": "FROM B x, C y WHERE x.k = y.k WINDOW 30 SECONDS",
    "three": "FROM A x, B y, C z WHERE x.k = y.k AND y.k = z.k WINDOW 20 SECONDS",
}


@cache
def plan_of(queries: tuple[str, ...]) -> Plan:
    script = "".join(f"CREATE STREAM {name} (id BIGINT, k INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "ABC")
    for name in queries:
        script += f"CREATE QUERY {name} AS SELECT x.id AS a, y.id AS b {(FIRST | LATER)[name]};"
    return compile_script(script, settings={"slicing": "memory"})


def lag(chain: Chain) -> int:
    """How far the watermark of a chain is behind: C is slow."""
    return 6 * SECOND if any(stream.name == "C" for stream in chain.streams) else 0


def everywhere(plan: Plan) -> list[str]:
    return [pool.name for pool in plan.pools if pool.spread.everywhere]


Batch = dict[str, list[dict[str, Any]]]
History = list[tuple[Batch, int]]
CHANGED = 3


@st.composite
def histories(draw: st.DrawFn) -> History:
    found: History = []
    number, clock = 0, 0
    for _ in range(6):
        batch: Batch = {name: [] for name in "ABC"}
        for _ in range(draw(st.integers(0, 8))):
            moment = START + timedelta(seconds=clock + draw(st.integers(-4, 4)))
            batch[draw(st.sampled_from("AABC"))].append({"id": number, "k": draw(st.integers(1, 3)), "Ts": moment})
            number += 1
        found.append((batch, clock * SECOND))
        clock += draw(st.integers(0, 4))
    return found


def row(number: int, second: int) -> dict[str, Any]:
    return {"id": number, "k": 1, "Ts": START + timedelta(seconds=second)}


HALF_EXPIRED: History = [
    ({"A": [row(0, 0), row(1, 6)], "B": [], "C": []}, 0),
    ({"A": [], "B": [], "C": []}, 5 * SECOND),
    ({"A": [], "B": [], "C": []}, 5 * SECOND),
    ({"A": [], "B": [row(2, 3)], "C": [row(3, 3)]}, 5 * SECOND),
]
"""The first row has expired when more queries come, but is still there: they must not see it, wherever it is. What
comes then is late for the first queries and not for these.
"""


class Slot:
    """A shard that gets the rows of some keys, and all rows of pools that are everywhere. Some queries come later, to
    pools that have lost rows by then.
    """

    def __init__(self, files: Files, name: str, keys: set[int]) -> None:
        self.files, self.name, self.keys = files, name, keys
        self.shard = self._new(1)
        self.found: Counter[tuple[str, int, int]] = Counter()

    def since(self, batch: int) -> dict[str, int]:
        return dict.fromkeys(FIRST, 1) | (dict.fromkeys(LATER, CHANGED) if batch >= CHANGED else {})

    def plan(self, batch: int) -> Plan:
        return plan_of(tuple(self.since(batch)))

    def _new(self, batch: int) -> Shard:
        store = SlotStore(self.files)
        store.prefix = f"{self.name}{batch}-"
        policy = make_policy("greedy")
        return Shard(self.plan(batch), since=self.since(batch), policy=policy, strict=False, store=store)

    def restore(self, saved: ShardManifest, batch: int) -> None:
        self.shard = self._new(batch)
        self.shard.restore(saved, Kept())

    def run(self, number: int, batch: Batch, watermark: int, *, budget: Budget, finish: bool) -> None:
        plan = self.plan(number)
        self.change(number)
        output = self.shard.run_batch(
            BatchInput(
                batch=number,
                rows=list(self._rows(plan, batch)),
                watermarks={chain.signature: watermark - lag(chain) for chain in plan.chains},
                budget=budget,
                finish=finish,
                memory=MemoryLimit(nbytes=1 << 40, room=0.0),
            )
        )
        self.take(output.results)

    def take(self, results: Iterable[Results]) -> None:
        for queries, rows, _ in results:
            self.found.update((query, row["a"], row["b"]) for query in queries for row in rows.to_pylist())
        self.shard.keep()

    def change(self, number: int) -> None:
        if number == CHANGED:
            self.shard.change(self.plan(number), self.since(number))

    def _rows(self, plan: Plan, batch: Batch) -> Iterator[StreamRows]:
        for pool in plan.pools:
            rows = [row for row in batch[pool.stream.name] if pool.spread.everywhere or row["k"] in self.keys]
            parts = [pa.RecordBatch.from_pylist(rows, schema=arrow_schema(pool.stream))]
            yield StreamRows(pool.stream, parts, [pool.name])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files.at(tmp_path_factory.mktemp("handover"))


@pytest.mark.parametrize(
    "budget",
    [UNBOUNDED, Budget(units=0), Budget(units=2)],
    ids=["at once", "all deferred", "some deferred"],
)
@settings(max_examples=15)
@example(history=HALF_EXPIRED, moved=4, divided=False)
@example(history=HALF_EXPIRED, moved=4, divided=True)
@given(history=histories(), moved=st.integers(CHANGED + 1, 6), divided=st.booleans())
def test_slots_that_hand_over_all_their_groups_find_what_one_slot_finds(
    files: Files, budget: Budget, history: History, moved: int, divided: bool
) -> None:
    """The first slot gives all it has to the second, which has other keys already or is new."""
    alone = Slot(files, "alone", {1, 2, 3})
    giver = Slot(files, "x", {1, 2} if divided else {1, 2, 3})
    receiver = Slot(files, "y", {3})
    for number, (batch, watermark) in enumerate(history, start=1):
        if number == moved:
            own = receiver.shard.saved(Kept()) if divided else ShardManifest()
            plan = receiver.plan(number)
            saved = received(own, giver.shard.saved(Kept()), everywhere(plan), is_new=not divided)
            check_follows(committed(own, number - 1), committed(saved, number), plan)
            receiver.keys = {1, 2, 3}
            receiver.restore(saved, number)
        running = [alone]
        if number < moved:
            running.append(giver)
        if divided or number >= moved:
            running.append(receiver)
        for slot in running:
            slot.run(number, batch, watermark, budget=budget, finish=number == len(history))
    assert giver.found + receiver.found == alone.found


BEFORE_AND_AFTER: History = [
    ({"A": [row(0, 0)], "B": [row(6, 0)], "C": [row(2, 0)]}, 0),
    ({"A": [], "B": [], "C": [row(4, 0)]}, 0),
    ({"A": [], "B": [], "C": []}, 0),
    ({"A": [], "B": [], "C": []}, 0),
    ({"A": [], "B": [], "C": []}, 0),
]
"""In a slot that has spilled nothing, rows that are everywhere are merged across what is a spill elsewhere."""
EXPIRED_ELSEWHERE: History = [
    ({"A": [row(0, 0)], "B": [], "C": [row(2, 0)]}, 0),
    ({"A": [], "B": [row(4, 0)], "C": []}, 0),
    ({"A": [], "B": [], "C": []}, 60 * SECOND),
    ({"A": [], "B": [], "C": []}, 60 * SECOND),
    ({"A": [], "B": [], "C": []}, 60 * SECOND),
]
"""A row that is everywhere has expired, and one slot still owes results with it."""


def group_of(key: int) -> Groups:
    return 1 << int(Grouping().of(codes([pa.array([key], pa.int64())], 1))[0])


def given_some(
    files: Files, budget: Budget, history: History, moved: int, spills: list[tuple[int, int]], *, is_new: bool
) -> tuple[Counter[tuple[str, int, int]], Counter[tuple[str, int, int]]]:
    """What two slots and what one slot finds. The first gives the groups of one key to the second and goes on with
    another; after some batches one or the other spills all its groups.
    """
    alone = Slot(files, "alone", {1, 2, 3})
    giver = Slot(files, "x", {1, 2, 3} if is_new else {1, 2})
    receiver = Slot(files, "y", {3})
    for number, (batch, watermark) in enumerate(history, start=1):
        plan = receiver.plan(number)
        if number == moved:
            giver.change(number)
            receiver.change(number)
            groups = group_of(1) | (group_of(3) if is_new else 0)
            giver.take(giver.shard.before_leaving(groups))
            leaving = giver.shard.memory.give_up(groups)
            own = ShardManifest() if is_new else receiver.shard.saved(Kept())
            receiver.restore(received(own, leaving, everywhere(plan), is_new=is_new), number)
            giver.keys, receiver.keys = {2}, {1, 3}
        slots = [giver] if is_new and number < moved else [giver, receiver]
        for slot in (alone, *slots):
            slot.run(number, batch, watermark, budget=budget, finish=number == len(history))
        for slot in slots:
            if (number, [giver, receiver].index(slot)) in spills and number < len(history):
                slot.shard.spill(slot.shard.memory.grouping.every)
    return giver.found + receiver.found, alone.found


@pytest.mark.parametrize("budget", [UNBOUNDED, Budget(units=1)], ids=["at once", "deferred"])
@settings(max_examples=12)
@given(
    history=histories(),
    moved=st.integers(2, 6),
    spills=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1)), max_size=3),
    is_new=st.booleans(),
)
def test_slots_that_hand_over_some_groups_find_what_one_slot_finds(
    files: Files, budget: Budget, history: History, moved: int, spills: list[tuple[int, int]], is_new: bool
) -> None:
    found, wanted = given_some(files, budget, history, moved, spills, is_new=is_new)
    assert found == wanted


@pytest.mark.parametrize("history", [BEFORE_AND_AFTER, EXPIRED_ELSEWHERE], ids=["merged", "expired"])
def test_groups_that_owe_results_with_rows_that_are_everywhere_may_be_handed_over(
    files: Files, history: History
) -> None:
    found, wanted = given_some(files, UNBOUNDED, history, 4, [(1, 0)], is_new=False)
    assert found == wanted


def committed(shard: ShardManifest, batch: int) -> Manifest:
    return Manifest(batch=batch, pipeline="p", routing=(0,), slots={0: SlotManifest("t", shard)})
