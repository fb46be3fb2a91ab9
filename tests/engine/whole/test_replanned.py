"""Plans chosen again at random batch boundaries, by wild statistics: shared = naive = DuckDB, with rows in time and
with late ones, and in strict order row by row what the declared plan gives.

Queries that come and go, restarts, spilling and moving with such plans are in test_many_streams_live and test_spilling,
whose ways of running a history have them too.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from late_rows import LateRows
from many_streams import ManyCase, Rows, cases
from measured import DECLARED, KINDS, measured, tell
from millstream.compile import compile_script
from millstream.engine.engine import Engine
from millstream.plan import Plan
from millstream.testing import naive
from sharing import sharing

PARTS = 4
"""So that several processes share the work."""
EXAMPLES = max(int(os.environ.get("MILLSTREAM_EXAMPLES", "2000")) // 4 // PARTS, settings().max_examples - 100)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
LONGEST = 6
CASES = st.one_of(cases(batches=(2, LONGEST)), sharing(batches=(2, LONGEST)), sharing(batches=(2, LONGEST)))
LATE = st.one_of(cases(batches=(3, LONGEST), late=True), sharing(batches=(3, LONGEST), late=True))
Same = Callable[[Rows, Rows], None]
SEEDS = st.tuples(*[st.one_of(st.integers(1, 2**20), st.just(DECLARED))] * LONGEST)
"""For each batch by which statistics its plan is chosen."""


def declared(case: ManyCase) -> Plan:
    budget = "0 seconds" if case.budget is None else "1 second"
    return compile_script(case.script(), settings={**case.settings, "budget": budget})


def plans(case: ManyCase, seeds: Sequence[int]) -> list[Plan]:
    plan = declared(case)
    return [measured(plan, seed) for seed, _ in zip(seeds, case.batches, strict=False)]


def by(case: ManyCase, chosen: Sequence[Plan]) -> tuple[dict[str, Rows], Engine]:
    """What the queries get where every batch is run by its own plan."""
    found: dict[str, Rows] = {query.name: [] for query in case.queries}

    def sink(name: str, rows: pa.RecordBatch) -> None:
        found[name] += rows.to_pylist()

    engine = Engine(chosen[0], sink)
    has_deferred = False
    for number, (batch, plan) in enumerate(zip(case.batches, chosen, strict=True)):
        if number:
            has_deferred |= engine.deferred > 0
            engine.change(plan)
        engine.feed({stream.name: stream.table(batch[stream.name]) for stream in case.streams}, case.budget)
    event(f"a change of plans with deferred units: {has_deferred}")
    engine.close()
    return found, engine


@pytest.mark.parametrize("_part", range(PARTS))
@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(case=CASES, seeds=SEEDS)
def test_another_plan_for_every_batch_equals_naive_equals_duckdb(
    case: ManyCase, seeds: tuple[int, ...], _part: int, same_rows: Same
) -> None:
    chosen = plans(case, seeds)
    tell(chosen)
    shared, _ = by(case, chosen)
    everything = case.rows()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
        for stream in case.streams:
            connection.register(stream.name, stream.table(everything[stream.name]))
        for query in case.queries:
            event("rows" if shared[query.name] else "no rows")
            same_rows(shared[query.name], connection.sql(query.duck_sql()).to_arrow_table().to_pylist())
    for one in declared(case).script.queries:
        same_rows(shared[one.name], naive(one, everything))
    if case.settings["order"] == "strict":
        alike, _ = by(case, [declared(case)] * len(chosen))
        assert repr(shared) == repr(alike), "strict order is the same, whatever plan"


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(case=LATE, seeds=SEEDS)
def test_late_rows(case: ManyCase, seeds: tuple[int, ...], same_rows: Same) -> None:
    chosen = plans(case, seeds)
    tell(chosen)
    found, engine = by(case, chosen)
    late = LateRows(case, engine.plan)
    event("late rows" if late.any_late else "no late rows")
    assert late.told(engine.late) == late.expected
    for one in engine.plan.script.queries:
        same_rows(found[one.name], naive(one, late.in_time(one.name)))


def test_the_plans_truly_differ() -> None:
    """Otherwise the tests above, and those of histories, would show nothing."""
    count: Counter[str] = Counter()

    @settings(max_examples=200, derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=SLOW)
    @given(case=CASES, seeds=SEEDS)
    def look(case: ManyCase, seeds: tuple[int, ...]) -> None:
        count.update({*tell(plans(case, seeds)), "cases"})

    look()
    assert all(count[kind] > 0.15 * count["cases"] for kind in KINDS), count
