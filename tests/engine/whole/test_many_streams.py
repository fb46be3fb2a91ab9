"""Joins of two to five streams: shared = alone = naive = DuckDB, with rows in time and with late ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from late_rows import LateRows
from many_streams import ManyCase, ManyQuery, Rows, cases
from millstream import sql
from millstream.errors import Errors
from millstream.model.query import Query
from millstream.testing import Session, naive, run

PARTS = 4
"""So that several processes share the work."""
EXAMPLES = max(int(os.environ.get("MILLSTREAM_EXAMPLES", "2000")) // PARTS, settings().max_examples - 100)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
Same = Callable[[Rows, Rows], None]
Answers = Callable[[ManyCase], dict[str, Rows]]


@pytest.fixture(scope="module")
def answers() -> Answers:
    """What DuckDB gives for every query of a case over all its rows at once."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")

    def all_of(case: ManyCase) -> dict[str, Rows]:
        rows = case.rows()
        for stream in case.streams:
            connection.register(stream.name, stream.table(rows[stream.name]))
        return {query.name: connection.sql(query.duck_sql()).to_arrow_table().to_pylist() for query in case.queries}

    return all_of


def read(case: ManyCase) -> dict[str, Query]:
    """The queries as our parser reads them."""
    errors = Errors()
    script = sql.read(case.script(), errors)
    errors.raise_if_any()
    return {query.name: query for query in script.queries}


def check_order(query: ManyQuery, rows: Rows, times: Mapping[str, Mapping[int, datetime]]) -> None:
    """The rows come in order of the greatest of their times."""
    found = [max(times[s][i] for s, i in zip(query.streams, query.ids(row), strict=True)) for row in rows]
    assert found == sorted(found)


@pytest.mark.parametrize("_part", range(PARTS))
@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(case=cases())
def test_shared_equals_alone_equals_naive_equals_duckdb(
    case: ManyCase, _part: int, answers: Answers, same_rows: Same
) -> None:
    queries, everything, times, wanted = read(case), case.rows(), case.times(), answers(case)
    shared = run(case.script(), case.by_stream(), settings=case.settings, budget=case.budget)
    for query in case.queries:
        found = shared[query.name].to_pylist()
        event(f"{len(query.streams)} streams, {'rows' if found else 'no rows'}")
        same_rows(found, wanted[query.name])
        same_rows(found, naive(queries[query.name], everything))
        alone = run(case.script(query.name), case.by_stream(), settings=case.settings)[query.name].to_pylist()
        if case.settings["order"] == "strict":
            check_order(query, found, times)
            assert repr(found) == repr(alone)
        else:
            same_rows(found, alone)


@settings(
    max_examples=int(os.environ.get("MILLSTREAM_SPARK_EXAMPLES", "5")),
    suppress_health_check=SLOW,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink a case would take Spark many minutes
)
@given(
    case=cases(),
    slots=st.sampled_from(["1", "2", "3"]),
    results=st.sampled_from(["own", "shared"]),
    memory=st.sampled_from(["0", "1 kB"]),
)
def test_the_same_on_spark(
    case: ManyCase, slots: str, results: str, memory: str, answers: Answers, same_rows: Same
) -> None:
    # A budget of a microsecond is spent after one unit, so that every batch leaves the others for later.
    budget = "0 seconds" if case.budget is None else "1 microsecond"
    chosen = {**case.settings, "slots": slots, "results": results, "budget": budget, "memory": memory}
    found, wanted = run(case.script(), case.by_stream(), runner="spark", settings=chosen), answers(case)
    for query in case.queries:
        same_rows(found[query.name].to_pylist(), wanted[query.name])


@settings(max_examples=max(EXAMPLES // 4, settings().max_examples - 100), suppress_health_check=SLOW)
@given(case=cases(batches=(3, 6), late=True))
def test_late_rows(case: ManyCase, same_rows: Same) -> None:
    session = Session(case.script(), settings=case.settings)
    for batch in case.batches:
        session.feed(batch, case.budget)
    session.close()
    late = LateRows(case, session.plan)
    event("late rows" if late.any_late else "no late rows")
    assert late.told(session.late) == late.expected
    for query, read_query in zip(case.queries, read(case).values(), strict=True):
        found = session.results(query.name).to_pylist()
        same_rows(found, naive(read_query, late.in_time(query.name)))
        if case.settings["order"] == "strict":
            check_order(query, found, case.times())
