"""A chain at work: pairs are found once, at once or later, and a saved run goes on as if it had not stopped."""

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
from millstream.engine.arrow import arrow_schema
from millstream.engine.chain_run import ChainRun
from millstream.engine.joiner import Joined
from millstream.engine.store import MemoryStore
from millstream.plan import Plan
from millstream.plan.nodes import LEFT, RIGHT
from millstream.testing import naive

Rows = list[dict[str, Any]]
SECOND = 1_000_000
START = datetime(1970, 1, 1, tzinfo=UTC)
QUERIES = {"narrow": "WINDOW 2 SECONDS", "wide": "WINDOW 7 SECONDS", "selects": "AND A.v > 0 WINDOW 5 SECONDS"}


@cache
def plan_of(names: frozenset[str], slicing: str = "memory") -> Plan:
    script = "".join(
        f"CREATE STREAM {name} (id BIGINT, k INT, v INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB"
    )
    for name in sorted(names):
        script += f"CREATE QUERY {name} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k {QUERIES[name]};"
    return compile_script(script, settings={"slicing": slicing})


ALL = frozenset(QUERIES)
Batch = dict[str, Rows]
History = list[tuple[Batch, int]]
"""Batches, each with the watermark after it: no later row is behind that."""


@st.composite
def histories(draw: st.DrawFn) -> History:
    found: History = []
    number, clock = 0, 0
    for _ in range(draw(st.integers(1, 5))):
        batch: Batch = {LEFT: [], RIGHT: []}
        for _ in range(draw(st.integers(0, 6))):
            time = clock + draw(st.integers(0, 3))
            row = {"id": number, "k": draw(st.integers(1, 2)), "v": draw(st.integers(0, 1))}
            batch[draw(st.sampled_from([LEFT, RIGHT]))].append({**row, "Ts": START + timedelta(seconds=time)})
            number += 1
        clock += draw(st.integers(0, 3))
        found.append((batch, clock * SECOND))
    return found


def run_of(plan: Plan, store: MemoryStore | None = None) -> ChainRun:
    (chain,) = plan.chains
    return ChainRun(chain, {}, since=dict.fromkeys(ALL, 1), store=store)


def arrive(run: ChainRun, batch: Batch, number: int) -> None:
    schema = arrow_schema(run.chain.streams[0])
    run.arrive({side: pa.RecordBatch.from_pylist(rows, schema=schema) for side, rows in batch.items()}, number)


def bag(found: Iterable[Joined]) -> Counter[tuple[str, int, int]]:
    return Counter(
        (query, row["a"], row["b"]) for joined in found for query in joined.queries for row in joined.rows.to_pylist()
    )


def joined_naively(batches: History) -> Counter[tuple[str, int, int]]:
    rows = {name: [row for batch, _ in batches for row in batch[side]] for name, side in (("A", LEFT), ("B", RIGHT))}
    return Counter(
        (query.name, row["a"], row["b"]) for query in plan_of(ALL).script.queries for row in naive(query, rows)
    )


def held(run: ChainRun) -> int:
    return sum(len(segment) for segments in run.segments.values() for segment in segments)


@given(batches=histories(), slicing=st.sampled_from(["cpu", "memory"]), data=st.data())
def test_every_pair_is_found_once_at_once_or_later(batches: History, slicing: str, data: st.DataObject) -> None:
    run = run_of(plan_of(ALL, slicing))
    found: Counter[tuple[str, int, int]] = Counter()
    for number, (batch, watermark) in enumerate(batches, start=1):
        arrive(run, batch, number)
        if data.draw(st.booleans()):
            found += bag(run.run_all())
            assert not len(run.ledger)
        else:
            run.defer()
            for walk in run.ledger.in_progress()[: data.draw(st.integers(0, 3))]:
                found += bag(run.execute(list(run.ledger.take_task(walk).units())))
        run.settle(watermark)
        saved = run.saved()
        assert saved.taken - saved.expired == held(run) == sum(entry.rows for entry in saved.segments)
        assert run.ledger.segments() <= {entry.number for entry in saved.segments}, "what units need is there"
    found += bag(run.run_all())
    assert found == joined_naively(batches)
    assert sum(run.statistics.rows.values()) == run.saved().taken
    for name in QUERIES:
        assert run.statistics.queries[name].pairs == sum(n for (query, *_), n in found.items() if query == name)


@settings(max_examples=60)
@given(batches=histories(), stops=st.sets(st.integers(0, 4)), data=st.data())
def test_a_saved_run_goes_on_where_it_was_under_any_slicing(
    batches: History, stops: set[int], data: st.DataObject
) -> None:
    store = MemoryStore()
    slicing = st.sampled_from(["cpu", "memory"])
    run = run_of(plan_of(ALL, data.draw(slicing)), store)
    found: Counter[tuple[str, int, int]] = Counter()
    for number, (batch, watermark) in enumerate(batches, start=1):
        if number in stops:
            saved = run.saved()
            run = run_of(plan_of(ALL, data.draw(slicing)), store)
            run.restore(saved)
            again = run.saved()
            assert (again.numbered, again.taken, again.expired) == (saved.numbered, saved.taken, saved.expired)
            assert again.segments == saved.segments
        arrive(run, batch, number)
        run.defer()
        for walk in run.ledger.in_progress()[:2]:
            found += bag(run.execute([run.ledger.take(walk)]))
        run.settle(watermark)
    assert found + bag(run.run_all()) == joined_naively(batches)


def two_batches(slicing: str = "memory") -> ChainRun:
    run = run_of(plan_of(ALL, slicing))
    for number, side in ((1, LEFT), (2, RIGHT)):
        row = {"id": number, "k": 1, "v": 1, "Ts": START + timedelta(seconds=number)}
        arrive(run, {side: [row]}, number)
        run.defer()
    return run


@pytest.mark.parametrize(("before", "after"), [("cpu", "memory"), ("memory", "cpu")])
def test_a_change_of_plan_moves_no_row_and_cuts_what_waits(before: str, after: str) -> None:
    run = two_batches(before)
    segments = [*run.segments[LEFT], *run.segments[RIGHT]]
    assert len(run.ledger)
    run.change(plan_of(frozenset({"wide", "narrow"}), after).chains[0], {"wide": 1, "narrow": 9})
    assert [*run.segments[LEFT], *run.segments[RIGHT]] == segments, "the very same objects"
    slices = [piece.interval for piece in run.chain.slices]
    assert len(run.ledger)
    assert all(any(one.covers(unit.interval) for one in slices) for unit in run.ledger.units())
    assert bag(run.run_all()) == {("wide", 1, 2): 1}, "a new query sees nothing of before"
    assert run.since() == {"wide": 1, "narrow": 9}


def test_a_run_that_goes_back_to_what_was_saved_settles_anew() -> None:
    run = two_batches()
    assert bag(run.run_all()).total() == 3
    saved = run.saved()
    for _ in range(2):
        run.settle(60 * SECOND)
        assert held(run) == 0
        run.restore(saved)
        assert held(run) == 2


def test_time_never_goes_back_and_takes_what_nothing_needs() -> None:
    run = two_batches()
    run.settle(5 * SECOND)
    run.settle(4 * SECOND)
    assert run.watermark == 5 * SECOND
    run.settle(60 * SECOND)
    assert held(run) == 2, "units still wait for them"
    assert bag(run.run_all()).total() == 3
    run.settle(60 * SECOND)
    assert held(run) == 0
    saved = run.saved()
    assert (saved.taken, saved.expired, saved.segments, saved.ledger) == (2, 2, (), ())
