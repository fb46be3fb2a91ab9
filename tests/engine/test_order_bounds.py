"""Strict order: no row that is still to come has a place before its query's bound."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.joiner import Joined
from millstream.engine.policies import make_policy
from millstream.engine.policy import Policy
from millstream.engine.release import SEQUENCE, Bounds, OrderedRun
from millstream.plan import Plan
from running import Running

SECOND = 1_000_000
WINDOWS = {
    "narrow": "WINDOW 2 SECONDS",
    "wide": "WINDOW 7 SECONDS",
    "ahead": "AND B.Ts BETWEEN A.Ts AND A.Ts + INTERVAL '5' SECOND",
}
TRIPLES = {
    "narrow3": "WINDOW 2 SECONDS",
    "wide3": "WINDOW 7 SECONDS",
    "ahead3": "AND B.Ts BETWEEN A.Ts AND A.Ts + INTERVAL '5' SECOND"
    " AND C.Ts BETWEEN B.Ts AND B.Ts + INTERVAL '1' SECOND",
}
EARLY, LATE = make_policy("greedy"), make_policy("swf")


@cache
def plan_of(names: frozenset[str], slicing: str) -> Plan:
    script = "".join(f"CREATE STREAM {name} (k INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "ABC")
    for name in sorted(names):
        joined, rest = ("A, B", "A.k = B.k") if name in WINDOWS else ("A, B, C", "A.k = B.k AND B.k = C.k")
        rest += " " + {**WINDOWS, **TRIPLES}[name]
        script += f"CREATE QUERY {name} AS SELECT A.Ts AS a, B.Ts AS b FROM {joined} WHERE {rest};"
    return compile_script(script, settings={"slicing": slicing})


def rows(seconds: list[int], batch: int) -> pa.RecordBatch:
    times = pa.array([second * SECOND for second in seconds], pa.int64()).view(pa.timestamp("us", "UTC"))
    numbers = pa.array([(batch << 32) + number for number in range(len(seconds))], pa.int64())
    keys = pa.array([1] * len(seconds), pa.int32())
    return pa.RecordBatch.from_arrays([keys, times, numbers], names=["k", "Ts", SEQUENCE])


def check(joined: Joined, bounds: dict[str, Bounds]) -> None:
    first = OrderedRun.of(joined.pairs, joined.batch, joined.rows).first[:3]
    for query in joined.queries:
        assert first >= bounds[query].fresh >= bounds[query].held


arriving = st.lists(st.integers(0, 6), max_size=3)


@pytest.mark.parametrize("windows", [WINDOWS, TRIPLES])
@given(data=st.data(), slicing=st.sampled_from(["cpu", "memory"]))
def test_a_row_still_to_come_is_never_before_the_bound(
    windows: dict[str, str], data: st.DataObject, slicing: str
) -> None:
    names = st.frozensets(st.sampled_from(sorted(windows)), min_size=1)
    queries = data.draw(names)
    running = Running(plan_of(queries, slicing), strict=True)
    run = running.chain
    since, watermark = dict.fromkeys(queries, 1), 0
    for batch in range(1, data.draw(st.integers(2, 5))):
        # Everything that was promised before holds for what comes now.
        bounds = run.bounds(data.draw(st.sampled_from([EARLY, LATE])))
        given_rows = {name: rows([watermark + age for age in data.draw(arriving)], batch) for name in "ABC"}
        running.arrive(given_rows, batch)
        running.defer()
        for _ in range(data.draw(st.integers(0, 6))):
            walks = run.ledger.in_progress()
            if not walks:
                break
            walk = data.draw(st.sampled_from(walks))
            one = data.draw(st.booleans())
            units = [run.ledger.take(walk)] if one else list(run.ledger.take_task(walk).units())
            for joined in run.execute(units):
                check(joined, bounds)
        watermark += data.draw(st.integers(0, 3))
        running.settle(watermark * SECOND)
        if data.draw(st.booleans()):
            queries |= data.draw(names)
            since = {name: since.get(name, batch + 1) for name in queries}
            running.shard.change(plan_of(queries, slicing), since)
            assert running.chain is run
    bounds = run.bounds(data.draw(st.sampled_from([EARLY, LATE])))
    for joined in running.run_all():
        check(joined, bounds)


def waiting() -> Running:
    """One left tuple at 3 s, which has not yet met two right ones of before, at 1 s and at 9 s."""
    names = frozenset({"narrow", "wide"})
    running = Running(plan_of(names, "memory"), since={"narrow": 1, "wide": 2}, strict=True)
    running.arrive({"B": rows([1, 9], 1)}, 1)
    running.defer()
    running.arrive({"A": rows([3], 2)}, 2)
    running.defer()
    running.settle(4 * SECOND)
    return running


def test_without_waiting_units_only_later_tuples_hold_rows_back() -> None:
    running = waiting()
    run = running.chain
    assert [joined.queries for joined in running.run_all()] == [["wide"], ["wide"]]
    bound = (4 * SECOND, 3, 0)
    assert run.bounds(EARLY) == run.bounds(LATE) == dict.fromkeys(("narrow", "wide"), Bounds(bound, bound))


def test_a_waiting_unit_holds_back_the_queries_it_is_for() -> None:
    run = waiting().chain
    bounds = run.bounds(EARLY)
    first = 3 * SECOND
    assert bounds["narrow"].fresh == (first, 2, 0)
    for walk in run.ledger.in_progress():
        assert run.ledger.take_task(walk).near == 0
    bounds = run.bounds(EARLY)
    assert bounds["narrow"].fresh == (4 * SECOND, 3, 0), "its slice is done"
    assert bounds["wide"].fresh == (first, 2, 2 * SECOND), "a row of the next slice is of that age at least"


def test_a_policy_that_releases_late_keeps_what_it_held_until_the_whole_window_is_done() -> None:
    run = waiting().chain
    for walk in run.ledger.in_progress():
        run.ledger.take_task(walk)
    early, late = run.bounds(EARLY)["wide"], run.bounds(LATE)["wide"]
    assert early.held == early.fresh == late.fresh
    assert late.held == (*late.fresh[:2], 0)


@pytest.mark.parametrize("policy", [EARLY, LATE])
def test_units_of_before_a_query_came_do_not_hold_it_back(policy: Policy) -> None:
    names = frozenset({"narrow", "wide"})
    running = Running(plan_of(names, "cpu"), since={"narrow": 2, "wide": 1}, strict=True)
    run = running.chain
    running.arrive({"A": rows([3], 1), "B": rows([3], 1)}, 1)
    running.defer()
    running.settle(9 * SECOND)
    bounds = run.bounds(policy)
    assert bounds["narrow"].fresh == (9 * SECOND, 2, 0)
    assert bounds["wide"].fresh == (3 * SECOND, 1, 0)
    running.arrive({"A": rows([5], 2)}, 2)
    running.defer()
    bounds = run.bounds(policy)
    assert bounds["narrow"].fresh == (5 * SECOND, 2, 0), "the first unit that it may see"
    assert bounds["wide"].fresh == (3 * SECOND, 1, 0)


@pytest.mark.parametrize("policy", [EARLY, LATE])
def test_what_spilled_groups_owe_holds_all_queries_back(policy: Policy) -> None:
    run = waiting().chain
    for owed, bound in ((1 * SECOND, (1 * SECOND, 0, 0)), (3 * SECOND, (3 * SECOND, 0, 0))):
        assert run.bounds(policy, owed) == dict.fromkeys(("narrow", "wide"), Bounds(bound, bound)), (
            "of any batch and age"
        )
    assert run.bounds(policy, 9 * SECOND) == run.bounds(policy), "what comes anyway is earlier"


@settings(max_examples=40)
@given(data=st.data(), windows=st.sampled_from([WINDOWS, TRIPLES]))
def test_a_row_that_is_owed_is_never_before_the_bound(data: st.DataObject, windows: dict[str, str]) -> None:
    running = Running(plan_of(frozenset(windows), "memory"), strict=True)
    run, memory, watermark = running.chain, running.shard.memory, 0
    for batch in range(1, data.draw(st.integers(3, 6))):
        given_rows = {name: rows([watermark + age for age in data.draw(arriving)], batch) for name in "ABC"}
        running.arrive(given_rows, batch)
        memory.arrived()
        list(running.run_all())
        watermark += data.draw(st.integers(0, 2))
        running.settle(watermark * SECOND)
        bounds = run.bounds(EARLY, memory.earliest_owed())
        what = data.draw(st.sampled_from(["spill", "clean up", "nothing", "nothing"]))
        if what == "spill":
            memory.spill(memory.grouping.every, batch)
            running.shard._part_at_changes({"": batch + 1})
        elif what == "clean up":
            for _, joined in memory.clean_up(memory.grouping.every, batch, keep=data.draw(st.booleans())):
                event("owed")
                check(joined, bounds)
    bounds = run.bounds(EARLY, memory.earliest_owed())
    for _, joined in memory.clean_up(memory.grouping.every, batch, keep=False):
        event("owed")
        check(joined, bounds)
