"""A chain at work: results are found once, at once or later, and a saved run goes on as if it had not stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine import segment_log
from millstream.engine.arrow import arrow_schema
from millstream.engine.joiner import Joined
from millstream.engine.keys import codes
from millstream.engine.segment import Segment
from millstream.engine.store import MemoryStore
from millstream.engine.watermark import NEVER
from millstream.plan import Plan
from millstream.testing import naive
from running import Kept, Running

Rows = list[dict[str, Any]]
SECOND = 1_000_000
START = datetime(1970, 1, 1, tzinfo=UTC)
TWO = {"narrow": "WINDOW 2 SECONDS", "wide": "WINDOW 7 SECONDS", "selects": "AND A.v > 0 WINDOW 5 SECONDS"}
THREE = {f"{name}3": f"AND A.k = C.k {rest}" for name, rest in TWO.items()}
SELF = {f"{name}_self": rest for name, rest in TWO.items()}
FROM = {**dict.fromkeys(TWO, "A, B"), **dict.fromkeys(THREE, "A, B, C"), **dict.fromkeys(SELF, "A, A B")}


@cache
def plan_of(names: frozenset[str], slicing: str = "memory") -> Plan:
    script = "".join(
        f"CREATE STREAM {name} (id BIGINT, k INT, v INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "ABC"
    )
    for name in sorted(names):
        rest = {**TWO, **THREE, **SELF}[name]
        ids = "A.id AS a, B.id AS b" + (", C.id AS c" if name in THREE else "")
        script += f"CREATE QUERY {name} AS SELECT {ids} FROM {FROM[name]} WHERE A.k = B.k {rest};"
    return compile_script(script, settings={"slicing": slicing})


CHAINS = {"two": frozenset(TWO), "three": frozenset(THREE), "self": frozenset(SELF)}
ALL = frozenset(TWO)
Batch = dict[str, Rows]
History = list[tuple[Batch, int]]
"""Batches, each with the watermark after it: no later row is behind that."""
Bag = Counter[tuple[object, ...]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    found: History = []
    number, clock = 0, 0
    for _ in range(draw(st.integers(1, 5))):
        batch: Batch = {name: [] for name in "ABC"}
        for _ in range(draw(st.integers(0, 6))):
            time = clock + draw(st.integers(0, 3))
            row = {"id": number, "k": draw(st.integers(1, 2)), "v": draw(st.integers(0, 1))}
            batch[draw(st.sampled_from("ABC"))].append({**row, "Ts": START + timedelta(seconds=time)})
            number += 1
        clock += draw(st.integers(0, 3))
        found.append((batch, clock * SECOND))
    return found


SCHEMA = arrow_schema(plan_of(ALL).script.streams[0])


def arrive(running: Running, batch: Batch, number: int) -> None:
    rows = {name: pa.RecordBatch.from_pylist(some, schema=SCHEMA) for name, some in batch.items()}
    running.arrive(rows, number)


def bag(found: Iterable[Joined]) -> Bag:
    return Counter(
        (query, *row.values()) for joined in found for query in joined.queries for row in joined.rows.to_pylist()
    )


def joined_naively(names: frozenset[str], batches: History) -> Bag:
    rows = {name: [row for batch, _ in batches for row in batch[name]] for name in "ABC"}
    return Counter((query.name, *row.values()) for query in plan_of(names).script.queries for row in naive(query, rows))


slicings = st.sampled_from(["cpu", "memory"])


@given(names=st.sampled_from(sorted(CHAINS)).map(CHAINS.get), batches=histories(), slicing=slicings, data=st.data())
def test_every_result_is_found_once_at_once_or_later(
    names: frozenset[str], batches: History, slicing: str, data: st.DataObject
) -> None:
    running = Running(plan_of(names, slicing))
    chain, found = running.chain, Bag()
    for number, (batch, watermark) in enumerate(batches, start=1):
        arrive(running, batch, number)
        if data.draw(st.booleans()):
            found += bag(running.run_all())
            assert not len(chain.ledger)
        else:
            running.defer()
            for walk in chain.ledger.in_progress()[: data.draw(st.integers(0, 3))]:
                found += bag(chain.execute(list(chain.ledger.take_task(walk).units())))
        running.settle(watermark)
        saved = running.shard.saved(Kept())
        assert chain.ledger.segments() <= {entry.number for entry in saved.segments}, "what units need is there"
        kept = saved.pools.values()
        assert sum(pool.taken - pool.expired for pool in kept) == running.held()
    found += bag(running.run_all())
    assert found == joined_naively(names, batches)
    for name in names:
        assert chain.statistics.queries[name].pairs == sum(n for (query, *_), n in found.items() if query == name)


@settings(max_examples=60)
@given(
    names=st.sampled_from(sorted(CHAINS)).map(CHAINS.get),
    batches=histories(),
    stops=st.sets(st.integers(0, 4)),
    data=st.data(),
)
def test_a_saved_run_goes_on_where_it_was_under_any_slicing(
    names: frozenset[str], batches: History, stops: set[int], data: st.DataObject
) -> None:
    store, kept, found = MemoryStore(), Kept(), Bag()
    running = Running(plan_of(names, data.draw(slicings)), store=store)
    for number, (batch, watermark) in enumerate(batches, start=1):
        if number in stops:
            saved = running.shard.saved(kept)
            running = Running(plan_of(names, data.draw(slicings)), store=store)
            running.shard.restore(saved, kept)
            again = running.shard.saved(kept)
            assert (again.numbered, again.pools) == (saved.numbered, saved.pools)
        arrive(running, batch, number)
        running.defer()
        ledger = running.chain.ledger
        for walk in ledger.in_progress()[:2]:
            found += bag(running.chain.execute([ledger.take(walk)]))
        running.settle(watermark)
    assert found + bag(running.run_all()) == joined_naively(names, batches)


def row(number: int, second: int | None = None) -> dict[str, Any]:
    return {"id": number, "k": 1, "v": 1, "Ts": START + timedelta(seconds=number if second is None else second)}


def two_batches(slicing: str = "memory") -> Running:
    running = Running(plan_of(ALL, slicing))
    for number, stream in ((1, "A"), (2, "B")):
        arrive(running, {stream: [row(number)]}, number)
        running.defer()
    return running


def segments(running: Running) -> list[Segment]:
    return [one for pool in running.shard.pools() for one in pool.segments]


@pytest.mark.parametrize(("before", "after"), [("cpu", "memory"), ("memory", "cpu")])
def test_a_change_of_plan_moves_no_row_and_cuts_what_waits(before: str, after: str) -> None:
    running = two_batches(before)
    chain, known = running.chain, segments(running)
    assert len(chain.ledger)
    running.shard.change(plan_of(frozenset({"wide", "narrow"}), after), {"wide": 1, "narrow": 9})
    assert running.chain is chain
    assert segments(running) == known, "the very same objects"
    slices = [piece.interval for piece in chain.chain.slices]
    assert len(chain.ledger)
    assert all(any(one.covers(unit.interval) for one in slices) for unit in chain.ledger.units())
    assert bag(running.run_all()) == {("wide", 1, 2): 1}, "a new query sees nothing of before"
    assert chain.since() == {"wide": 1, "narrow": 9}


def test_a_run_that_goes_back_to_what_was_saved_settles_anew() -> None:
    running, kept = two_batches(), Kept()
    assert bag(running.run_all()).total() == 3
    saved = running.shard.saved(kept)
    for _ in range(2):
        running.settle(60 * SECOND)
        assert running.held() == 0
        running.shard.restore(saved, kept)
        assert running.held() == 2


def test_time_never_goes_back_and_takes_what_nothing_needs() -> None:
    running = two_batches()
    running.settle(5 * SECOND)
    running.settle(4 * SECOND)
    assert running.chain.watermark == 5 * SECOND
    running.settle(60 * SECOND)
    assert running.held() == 2, "units still wait for them"
    assert bag(running.run_all()).total() == 3
    running.settle(60 * SECOND)
    assert running.held() == 0
    saved = running.shard.saved(Kept())
    assert sum(pool.taken for pool in saved.pools.values()) == sum(pool.expired for pool in saved.pools.values()) == 2
    assert not saved.segments
    assert not saved.deferred


def test_rows_too_late_for_a_chain_are_not_seen_by_it_and_do_not_probe() -> None:
    running = Running(plan_of(ALL | frozenset(THREE)))
    two, three = sorted(running.shard.chains(), key=lambda one: len(one.chain.streams))
    rows = {name: pa.RecordBatch.from_pylist([row(number)], schema=SCHEMA) for number, name in enumerate("ABC", 1)}
    for pool in running.shard.pools():
        hidden = frozenset({two.chain.signature} if pool.pool.stream.name == "B" else ())
        pool.arrive([(rows[pool.pool.stream.name], hidden)], 1)
    assert bag(running.run_all()) == {("wide3", 1, 2, 3): 1, ("selects3", 1, 2, 3): 1}
    running.arrive({"A": pa.RecordBatch.from_pylist([row(4, 3)], schema=SCHEMA)}, 2)
    running.defer()
    assert not len(two.ledger)
    assert len(three.ledger)
    assert {query for query, *_ in bag(running.run_all())} == set(THREE)


def began_later(watermark: int, *, trims: bool, saves: bool = False) -> tuple[Running, Bag]:
    """A chain of three that begins beside one of two, over twenty rows of A, once event time has come to a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_log, "_WORTH_TRIMMING", 1 if trims else 4_096)
        running = Running(plan_of(frozenset({"wide"})))
        arrive(running, {"A": [row(number) for number in range(20)]}, 1)
        assert not bag(running.run_all())
        running.settle(watermark * SECOND)
        running.shard.change(plan_of(frozenset({"wide", "wide3"})), {"wide": 1, "wide3": 2})
        if saves:
            kept = Kept()
            running.shard.restore(running.shard.saved(kept), kept)
        late_for = frozenset(one.chain.signature for one in running.shard.chains() if one.watermark > NEVER)
        for pool in running.shard.pools():
            new = {"B": [row(100, 14)], "C": [row(200, 14)]}.get(pool.pool.stream.name, [])
            pool.arrive([(pa.RecordBatch.from_pylist(new, schema=SCHEMA), late_for)], 2)
        return running, bag(running.run_all())


@pytest.mark.parametrize("watermark", [0, 12, 16])
@pytest.mark.parametrize("saves", [False, True])
def test_a_chain_sees_what_had_not_expired_when_it_began(watermark: int, saves: bool) -> None:
    """Whether expired rows were still there depends on sizes: it must not depend on that what is seen."""
    (lazy, found), (eager, other) = (began_later(watermark, trims=trims, saves=saves) for trims in (False, True))
    assert (lazy.held() > eager.held()) == (watermark > 0), "else the test would show nothing"
    alive = [second for second in range(8, 20) if second + 7 > watermark]
    assert found == other == {("wide3", second, 100, 200): 1 for second in alive}
    chain = max(lazy.shard.chains(), key=lambda one: len(one.chain.streams))
    assert set(chain.floors.values()) == {watermark * SECOND}
    first = min(lazy.shard.chains(), key=lambda one: len(one.chain.streams))
    assert not first.floors


def test_a_chain_that_begins_with_its_pools_has_no_floor() -> None:
    running = two_batches()
    assert running.pool("A").watermark == NEVER
    assert not running.chain.floors


BEHIND = """
CREATE STREAM A (id BIGINT, k INT, v INT, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM B (id BIGINT, k INT, v INT, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM C (id BIGINT, k INT, v INT, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE QUERY ab AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k {0};
"""
LATER = "CREATE QUERY ac AS SELECT A.id AS a, C.id AS c FROM A, C WHERE A.k = C.k {0};"
ONE_WAY = "AND {0}.Ts BETWEEN A.Ts - INTERVAL '8' SECOND AND A.Ts - INTERVAL '4' SECOND"


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize(
    ("windows", "seconds"),
    [
        (("WINDOW 5 SECONDS", "WINDOW 5 SECONDS"), (50, 51)),
        ((ONE_WAY.format("B"), ONE_WAY.format("C")), (102, 97)),
    ],
    ids=["a row late for the others", "a row of a stream that only meets earlier ones"],
)
def test_a_chain_sees_all_that_comes_once_it_has_begun(
    windows: tuple[str, str], seconds: tuple[int, int], saves: bool
) -> None:
    """However old a row is for those that began before: an expired row of before is another matter."""
    store, kept = MemoryStore(), Kept()
    before = compile_script(BEHIND.format(windows[0]))
    after = compile_script(BEHIND.format(windows[0]) + LATER.format(windows[1]))
    running = Running(before, store=store)
    arrive(running, {"A": [row(1, 100)], "B": [row(2, 100)]}, 1)
    list(running.run_all())
    running.settle(100 * SECOND)
    running.shard.change(after, {"ab": 1, "ac": 2})
    late_for = frozenset({before.chains[0].signature} if seconds[0] < 100 else ())
    for number, (stream, second) in enumerate((("A", seconds[0]), ("A", seconds[0]), ("C", seconds[1])), start=2):
        if saves:
            saved = running.shard.saved(kept)
            running = Running(after, since={"ab": 1, "ac": 2}, store=store)
            running.shard.restore(saved, kept)
        for pool in running.shard.pools():
            new = [row(number, second)] if pool.pool.stream.name == stream else []
            pool.arrive([(pa.RecordBatch.from_pylist(new, schema=SCHEMA), late_for)], number)
        found = bag(running.run_all())
        for pool in running.shard.pools():
            pool.tidy(NEVER, frozenset())
    assert found == {("ac", 2, 4): 1, ("ac", 3, 4): 1}


@pytest.mark.parametrize("spilled", [1, 2])
def test_a_part_of_a_unit_that_cannot_match_any_more_is_left_out(spilled: int) -> None:
    """Of two keys only one has rows near each other; each goes its own way while the unit waits."""
    running = Running(plan_of(frozenset({"narrow"})))
    memory = running.shard.memory
    arrive(running, {"A": [row(1, 0), {**row(2, 9), "k": 2}]}, 1)
    running.defer()
    arrive(running, {"B": [row(3, 9), {**row(4, 9), "k": 2}]}, 2)
    running.defer()
    (group,) = memory.grouping.of(codes([pa.array([spilled], pa.int64())], 1)).tolist()
    memory.spill(1 << group, 2)
    assert all(unit.can_match for unit in running.chain.ledger.units())
    assert bag(running.run_all()) == {("narrow", 2, 4): 1}
