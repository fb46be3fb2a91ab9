"""Queries come and go between batches: those that stay miss nothing, new ones see what is promised."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.engine.backlog import Budget
from millstream.engine.engine import Engine
from millstream.model.settings import POLICY_NAMES
from millstream.plan import Plan
from millstream.testing import naive

Rows = list[dict[str, Any]]
START = datetime(2024, 1, 1, tzinfo=UTC)
STREAMS = "".join(
    f"CREATE STREAM {name} (k INT, v INT, Ts TIMESTAMP) WITH (time = 'Ts', delay = '3 seconds');\n" for name in "AB"
)
QUERIES = {
    "stays": "WINDOW 6 SECONDS",
    "selects": "AND A.v > 0 WINDOW 9 SECONDS",
    "wide": "WINDOW 12 SECONDS",
    "one_way": "AND B.Ts BETWEEN A.Ts AND A.Ts + INTERVAL '4' SECOND",
    "gap": "AND B.Ts BETWEEN A.Ts + INTERVAL '2' SECOND AND A.Ts + INTERVAL '5' SECOND AND B.v < 1",
}


def plan_of(names: set[str], **settings: str) -> Plan:
    select = "SELECT A.k, A.v AS a, B.v AS b, A.Ts AS t, B.Ts AS u FROM A, B WHERE A.k = B.k"
    queries = "".join(f"CREATE QUERY {name} AS {select} {QUERIES[name]};\n" for name in sorted(names))
    return compile_script(STREAMS + queries, settings=settings)


def tables(plan: Plan, batch: dict[str, Rows]) -> dict[str, pa.Table]:
    schemas = {stream.name: arrow_schema(stream) for stream in plan.script.streams}
    return {name: pa.Table.from_pylist(rows, schema=schemas[name]) for name, rows in batch.items()}


def bag(rows: Rows) -> Counter[str]:
    return Counter(repr([str(value) for value in row.values()]) for row in rows)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[dict[str, Rows]], list[set[str]]]:
    """Batches, and the queries that run in each; 'stays' always does."""
    batches, running, clock = [], [], 0
    for _ in range(draw(st.integers(2, 6))):
        batch: dict[str, Rows] = {"A": [], "B": []}
        for _ in range(draw(st.integers(0, 8))):
            clock += draw(st.sampled_from([0, 1, 1, 2]))
            second = max(clock - draw(st.integers(0, 1)), 0)
            row = {"k": draw(st.integers(1, 2)), "v": draw(st.integers(-1, 2)), "Ts": START + timedelta(seconds=second)}
            batch[draw(st.sampled_from("AB"))].append(row)
        batches.append(batch)
        running.append({"stays", *draw(st.sets(st.sampled_from(sorted(QUERIES))))})
    return batches, running


@given(
    history=histories(),
    slicing=st.sampled_from(["cpu", "memory"]),
    policy=st.sampled_from(POLICY_NAMES),
    order=st.sampled_from(["eager", "strict"]),
    budget=st.sampled_from([None, Budget(units=1), Budget(units=4), Budget(seconds=0)]),
)
def test_adds_and_drops(
    history: tuple[list[dict[str, Rows]], list[set[str]]],
    slicing: str,
    policy: str,
    order: str,
    budget: Budget | None,
) -> None:
    batches, running = history
    found: dict[str, list[Rows]] = {name: [] for name in QUERIES}
    settings = {"slicing": slicing, "policy": policy, "order": order}
    current: dict[str, Rows] = {}

    def sink(name: str, rows: pa.RecordBatch) -> None:
        current.setdefault(name, []).extend(rows.to_pylist())

    engine = Engine(plan_of(running[0], **settings), sink)
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in QUERIES}
    for number, (batch, names) in enumerate(zip(batches, running, strict=True)):
        plan = plan_of(names, **settings)
        if number:
            for name in running[number - 1] - names:
                found[name].append(current.pop(name, []))
            engine.change(plan)
        for name in names:
            if not number or name not in running[number - 1]:
                spans[name].append((number, len(batches)))
        for name in QUERIES.keys() - names:
            if number and name in running[number - 1]:
                spans[name][-1] = (spans[name][-1][0], number)
        engine.feed(tables(plan, batch), budget)
    engine.close()
    for name in running[-1]:
        found[name].append(current.pop(name, []))
    assert not any(current.values())
    everything = plan_of(set(QUERIES))
    for query in everything.script.queries:
        for rows, (first, stop) in zip(found[query.name], spans[query.name], strict=True):
            before = joined(query, batches[:first])
            until = joined(query, batches[:stop])
            inside = joined(query, batches[first:stop])
            assert not bag(rows) - (until - before), "a row that no tuple since its addition makes"
            if stop == len(batches) or (budget is None and order == "eager"):
                assert not inside - bag(rows), "a row between tuples that came since its addition is missing"
            if first == 0 and (stop == len(batches) or (budget is None and order == "eager")):
                assert bag(rows) == until


def joined(query: Any, batches: list[dict[str, Rows]]) -> Counter[str]:
    everything = {name: [row for batch in batches for row in batch[name]] for name in "AB"}
    return bag(naive(query, everything))


def test_a_query_within_the_state_of_another_sees_all_pairs_with_a_new_tuple() -> None:
    old = {"A": [{"k": 1, "v": 0, "Ts": START}], "B": [{"k": 1, "v": 1, "Ts": START + timedelta(seconds=1)}]}
    new = {"A": [{"k": 1, "v": 2, "Ts": START + timedelta(seconds=2)}], "B": []}
    got: list[tuple[str, int, int]] = []
    engine = Engine(plan_of({"wide"}), lambda name, rows: got.extend((name, r["a"], r["b"]) for r in rows.to_pylist()))
    engine.feed(tables(engine.plan, old))
    before = [segment for pool in engine.pools() for segment in pool.segments]
    engine.change(plan_of({"wide", "stays"}))
    after = [segment for pool in engine.pools() for segment in pool.segments]
    assert all(a is b for a, b in zip(before, after, strict=True)), "a change of plan moved rows"
    engine.feed(tables(engine.plan, new))
    assert sorted(got) == [("stays", 2, 1), ("wide", 0, 1), ("wide", 2, 1)]


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_deferred_units_of_before_never_serve_a_new_query(policy: str) -> None:
    batch = {"A": [{"k": 1, "v": 0, "Ts": START}], "B": [{"k": 1, "v": 1, "Ts": START}]}
    got: list[str] = []
    engine = Engine(plan_of({"stays"}, policy=policy), lambda name, rows: got.extend([name] * rows.num_rows))
    engine.feed(tables(engine.plan, batch), Budget(units=0))
    assert engine.deferred == 1
    engine.change(plan_of({"stays", "wide", "selects"}, policy=policy))
    engine.close()
    assert got == ["stays"]
