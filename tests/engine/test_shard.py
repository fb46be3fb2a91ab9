"""A shard: results come as they are asked for, and neither parts, restarts nor budgets change them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.engine.backlog import UNBOUNDED, Budget
from millstream.engine.batch import BatchInput, StreamRows
from millstream.engine.policies import make_policy
from millstream.engine.release import SEQUENCE
from millstream.engine.shard import Shard
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.store import MemoryStore
from millstream.plan import Plan
from millstream.testing import naive
from running import Kept

Rows = list[dict[str, Any]]
SECOND = 1_000_000
START = datetime(1970, 1, 1, tzinfo=UTC)
QUERIES = {
    "narrow": "FROM A x, B y WHERE x.k = y.k WINDOW 2 SECONDS",
    "wide": "FROM A x, B y WHERE x.k = y.k WINDOW 7 SECONDS",
    "other": "FROM B x, C y WHERE x.k = y.k WINDOW 4 SECONDS",
    "self": "FROM A x, A y WHERE x.k = y.k WINDOW 2 SECONDS",
    "three": "FROM A x, B y, C z WHERE x.k = y.k AND y.k = z.k WINDOW 5 SECONDS",
    "path": "FROM A x, B y, C z WHERE x.k = y.k AND y.id % 2 = z.id % 2 WINDOW 3 SECONDS",
    "selves": "FROM A x, A y, A z WHERE x.k = y.k AND y.k = z.k WINDOW 2 SECONDS",
}


@cache
def plan_of(names: frozenset[str] = frozenset(QUERIES)) -> Plan:
    script = "".join(f"CREATE STREAM {name} (id BIGINT, k INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "ABC")
    for name in sorted(names):
        script += f"CREATE QUERY {name} AS SELECT x.id AS a, y.id AS b {QUERIES[name]};"
    return compile_script(script, settings={"slicing": "memory"})


def shard_of(plan: Plan, *, strict: bool, store: MemoryStore | None = None, chunk: int = 1 << 16) -> Shard:
    since = {query.name: 1 for query in plan.script.queries}
    return Shard(plan, since=since, policy=make_policy("greedy"), strict=strict, store=store, chunk=chunk)


def rows_of(plan: Plan, batch: dict[str, Rows], parts: int = 1) -> list[StreamRows]:
    found = []
    for stream in plan.script.streams:
        rows = pa.RecordBatch.from_pylist(batch[stream.name], schema=arrow_schema(stream))
        size = -(-rows.num_rows // parts)
        pieces = [rows.slice(start, size) for start in range(0, rows.num_rows, max(size, 1))]
        found.append(StreamRows(stream, pieces, [pool.name for pool in plan.pools if pool.stream == stream]))
    return found


History = list[tuple[dict[str, Rows], int]]
"""Batches, each with the watermark before it."""


@st.composite
def histories(draw: st.DrawFn) -> History:
    found: History = []
    number, clock = 0, 0
    for _ in range(draw(st.integers(1, 4))):
        batch: dict[str, Rows] = {name: [] for name in "ABC"}
        for _ in range(draw(st.integers(0, 9))):
            moment = START + timedelta(seconds=clock + draw(st.integers(0, 4)))
            row = {"id": number, "k": draw(st.integers(1, 2)), "Ts": moment}
            batch[draw(st.sampled_from("AABC"))].append(row)
            number += 1
        found.append((batch, clock * SECOND))
        clock += draw(st.integers(0, 4))
    return found


def answers(
    history: History,
    *,
    strict: bool,
    parts: int = 1,
    restarts: frozenset[int] = frozenset(),
    budget: Budget = UNBOUNDED,
) -> dict[str, list[tuple[int, int]]]:
    """Each query's rows in the order in which they came out."""
    plan, store, kept = plan_of(), MemoryStore(), Kept()
    shard = shard_of(plan, strict=strict, store=store)
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in QUERIES}
    for number, (batch, watermark) in enumerate(history, start=1):
        if number in restarts:
            saved = ShardManifest.from_json(json.loads(json.dumps(shard.saved(kept).to_json())))
            held, deferred = shard.held_rows, shard.deferred
            shard = shard_of(plan, strict=strict, store=store)
            shard.restore(saved, kept)
            assert (shard.held_rows, shard.deferred) == (held, deferred)
        output = shard.run_batch(
            BatchInput(
                batch=number,
                rows=rows_of(plan, batch, parts),
                watermarks={chain.signature: watermark for chain in plan.chains},
                budget=budget,
                finish=number == len(history),
            )
        )
        assert output.rows_in == {name: len(rows) for name, rows in batch.items() if rows}
        for queries, rows, arrived in output.results:
            assert sum(arrived.values()) == rows.num_rows
            for query in queries:
                found[query] += [(row["a"], row["b"]) for row in rows.to_pylist()]
        shard.keep()
    assert (shard.deferred, shard.held_rows) == (0, 0), "the last batch lets everything out"
    return found


budgets = st.sampled_from([UNBOUNDED, Budget(units=0), Budget(units=2), Budget(seconds=0)])


@settings(max_examples=50)
@given(
    history=histories(),
    strict=st.booleans(),
    parts=st.integers(1, 4),
    restarts=st.frozensets(st.integers(2, 4)),
    budget=budgets,
)
def test_parts_restarts_and_budgets_change_no_result(
    history: History, strict: bool, parts: int, restarts: frozenset[int], budget: Budget
) -> None:
    found = answers(history, strict=strict, parts=parts, restarts=restarts, budget=budget)
    plain = answers(history, strict=strict)
    everything = {name: [row for batch, _ in history for row in batch[name]] for name in "ABC"}
    for query in plan_of().script.queries:
        wanted = Counter((row["a"], row["b"]) for row in naive(query, everything))
        assert Counter(found[query.name]) == wanted
        if strict:
            assert found[query.name] == plain[query.name], "strict order is one order"


def hot(plan: Plan, count: int = 6) -> list[StreamRows]:
    rows = [{"id": number, "k": 1, "Ts": START} for number in range(count)]
    return rows_of(plan, {"A": rows, "B": rows, "C": []})


def test_results_are_made_as_they_are_asked_for() -> None:
    plan = plan_of(frozenset({"wide"}))
    shard = shard_of(plan, strict=False, chunk=6)
    output = shard.run_batch(BatchInput(batch=1, rows=hot(plan)))
    (chain,) = shard.chains()
    assert output.rows_in == {"A": 6, "B": 6}, "what is known of the rows is known at once"
    assert chain.batch == 0, "nothing has been done yet"
    results = iter(output.results)
    first = next(results)
    made = chain.statistics.queries["wide"].pairs
    assert first.rows.num_rows <= made < 36
    assert first.rows.num_rows + sum(some.rows.num_rows for some in results) == 36


def test_a_query_replaced_by_another_of_its_name_is_not_given_what_was_held() -> None:
    plan = plan_of(frozenset({"wide", "narrow"}))
    shard = shard_of(plan, strict=True)
    assert not list(shard.run_batch(BatchInput(batch=1, rows=hot(plan))).results)
    assert shard.held_rows == 72
    before = shard.saved(kept := Kept())
    shard.change(plan, {"wide": 1, "narrow": 2})
    assert shard.held_rows == 36
    again = Shard(plan, since={"wide": 1, "narrow": 2}, policy=make_policy("lwo"), strict=True)
    assert {entry.query for one in before.chains.values() for entry in one.held} == {"wide", "narrow"}
    again.restore(replace(before, pools={}), kept)
    assert again.held_rows == 36
    assert {query for some in again._finish() for query in some.queries} == {"wide"}


def test_a_chain_that_no_query_needs_ends_and_another_begins_with_what_is_there() -> None:
    shard = shard_of(plan_of(frozenset({"wide", "self"})), strict=False)
    list(shard.run_batch(BatchInput(batch=1, rows=hot(plan_of(frozenset({"wide", "self"}))))).results)
    wide = next(one for one in shard.chains() if one.chain.members[0].name == "wide")
    shard.change(plan_of(frozenset({"wide", "other"})), {"wide": 1, "other": 2})
    assert [one.chain.members[0].name for one in shard.chains()] == ["wide", "other"]
    assert shard.chains()[0] is wide
    held = {pool.pool.title: sum(map(len, pool.segments)) for pool in shard.pools()}
    assert held == {"A by k": 6, "B by k": 6, "C by k": 0}, "a new chain finds what others keep"
    c_rows = rows_of(plan_of(frozenset({"wide", "other"})), {"A": [], "B": [], "C": [{"id": 7, "k": 1, "Ts": START}]})
    found = list(shard.run_batch(BatchInput(batch=2, rows=c_rows)).results)
    assert [(queries, rows.num_rows) for queries, rows, _ in found] == [(["other"], 6)]
    shard.change(plan_of(frozenset({"self"})), {"self": 3})
    assert [pool.pool.title for pool in shard.pools()] == ["A by k"]


def test_a_budget_is_for_all_parts_of_a_batch_together() -> None:
    plan = plan_of(frozenset({"wide"}))
    rows = [{"id": number, "k": 1, "Ts": START} for number in range(6)]
    given_rows = rows_of(plan, {"A": rows, "B": rows, "C": []}, parts=3)
    deferred = []
    for units in (0, 2):
        shard = shard_of(plan, strict=False)
        list(shard.run_batch(BatchInput(batch=1, rows=given_rows, budget=Budget(units=units))).results)
        deferred.append(shard.deferred)
    assert deferred[0] - deferred[1] == 2


@pytest.mark.parametrize("strict", [False, True])
def test_rows_come_out_when_event_time_says_that_it_is_their_turn(strict: bool) -> None:
    plan = plan_of(frozenset({"wide"}))
    shard = shard_of(plan, strict=strict)
    (chain,) = plan.chains
    at_once = list(shard.run_batch(BatchInput(batch=1, rows=hot(plan))).results)
    assert bool(at_once) != strict
    later = list(shard.advance({chain.signature: SECOND}))
    assert bool(later) == strict
    assert sum(some.rows.num_rows for some in at_once + later) == 36
    assert shard.chains()[0].watermark == SECOND
    numbered = [SEQUENCE in one.rows.schema.names for pool in shard.pools() for one in pool.segments]
    assert set(numbered) == {strict}, "only strict order needs arrival numbers"


def test_what_is_known_of_event_time_before_a_batch_comes_first() -> None:
    plan = plan_of(frozenset({"wide"}))
    shard = shard_of(plan, strict=True)
    assert not list(shard.run_batch(BatchInput(batch=1, rows=hot(plan))).results)
    marks = {plan.chains[0].signature: 60 * SECOND}
    output = shard.run_batch(BatchInput(batch=2, rows=hot(plan), watermarks=marks))
    assert sum(some.rows.num_rows for some in output.late) == 12, "late by what the batch was told"
    assert sum(some.rows.num_rows for some in output.results) == 36
    assert not any(pool.segments for pool in shard.pools())


def signature(plan: Plan, query: str) -> str:
    """That of the chain which a query is in."""
    return next(chain.signature for chain in plan.chains if query in {member.name for member in chain.members})


def test_a_row_late_for_one_chain_only_is_seen_by_the_others() -> None:
    plan = plan_of(frozenset({"wide", "self", "other"}))
    shard = shard_of(plan, strict=False)
    ab, aa, bc = (signature(plan, name) for name in ("wide", "self", "other"))
    list(shard.run_batch(BatchInput(batch=1, rows=hot(plan, 1))).results)
    rows = {"A": [{"id": 5, "k": 1, "Ts": START + timedelta(seconds=1)}], "B": [], "C": []}
    marks = {ab: 2 * SECOND, aa: 0, bc: 0}
    output = shard.run_batch(BatchInput(batch=2, rows=rows_of(plan, rows), watermarks=marks))
    found = Counter(
        (query, *row.values()) for queries, some, _ in output.results for query in queries for row in some.to_pylist()
    )
    assert found == {("self", 0, 5): 1, ("self", 5, 0): 1, ("self", 5, 5): 1}, "and not by the chain it is late for"
    assert [(late.stream, late.chains) for late in output.late] == [("A", ("A B k = k",))]
    rows = {"A": [], "B": [{"id": 9, "k": 1, "Ts": START + timedelta(seconds=2)}], "C": []}
    output = shard.run_batch(BatchInput(batch=3, rows=rows_of(plan, rows), watermarks=marks))
    assert [row for _, some, _ in output.results for row in some.to_pylist()] == [{"a": 0, "b": 9}]


def test_state_is_kept_for_as_long_as_the_slowest_chain_needs_it() -> None:
    plan = plan_of(frozenset({"wide", "self"}))
    shard = shard_of(plan, strict=False)
    list(shard.run_batch(BatchInput(batch=1, rows=hot(plan))).results)
    ab, aa = (signature(plan, name) for name in ("wide", "self"))
    for marks, held in (({ab: 60 * SECOND, aa: 0}, 6), ({ab: 60 * SECOND, aa: 60 * SECOND}, 0)):
        list(shard.advance(marks))
        a_pool = next(pool for pool in shard.pools() if pool.pool.stream.name == "A")
        b_pool = next(pool for pool in shard.pools() if pool.pool.stream.name == "B")
        assert sum(map(len, a_pool.segments)) == held
        assert not b_pool.segments, "which only the faster one reads"


def test_in_strict_order_rows_wait_for_what_another_shard_has_not_finished() -> None:
    plan = plan_of(frozenset({"wide"}))
    (chain,) = plan.chains
    shard, marks = shard_of(plan, strict=True), {chain.signature: 60 * SECOND}
    list(shard.run_batch(BatchInput(batch=1, rows=hot(plan))).results)
    assert not list(shard.advance(marks, {chain.signature: 0})), "a row of the same time may still come"
    assert sum(some.rows.num_rows for some in shard.advance(marks, {chain.signature: 1})) == 36


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_deferred_is_unfinished_from_its_earliest_result_on(strict: bool) -> None:
    plan = plan_of(frozenset({"wide"}))
    shard = shard_of(plan, strict=strict)
    assert not shard.unfinished()
    list(shard.run_batch(BatchInput(batch=1, rows=hot(plan), budget=Budget(units=0))).results)
    assert shard.unfinished() == ({plan.chains[0].signature: 0} if strict else {})
    list(shard.run_batch(BatchInput(batch=2)).results)
    assert not shard.unfinished()
