"""Joins of two to five streams: shared = alone = naive = DuckDB, with rows in time and with late ones."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

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


class Watermarks:
    """Which rows are late, in plain Python: those older than the greatest time of earlier batches minus the delay, of
    the stream of the chain that lies furthest behind.
    """

    def __init__(self, case: ManyCase) -> None:
        self._delays = {stream.name: timedelta(seconds=stream.delay) for stream in case.streams}
        self._before: list[dict[str, datetime]] = []
        greatest: dict[str, datetime] = {}
        for batch in case.batches:
            self._before.append(dict(greatest))
            for name, rows in batch.items():
                for row in rows:
                    if row["Ts"] is not None:
                        greatest[name] = max(row["Ts"], greatest.get(name, row["Ts"]))

    def of(self, streams: tuple[str, ...], batch: int) -> datetime | None:
        """The watermark of a chain of these streams; None as long as one of them has had no row."""
        known = self._before[batch]
        if not known.keys() >= set(streams):
            return None
        return min(known[name] - self._delays[name] for name in streams)

    def is_late(self, row: Mapping[str, Any], streams: tuple[str, ...], batch: int) -> bool:
        watermark = self.of(streams, batch)
        return watermark is not None and row["Ts"] < watermark


@settings(max_examples=max(EXAMPLES // 4, settings().max_examples - 100), suppress_health_check=SLOW)
@given(case=cases(batches=(3, 6), late=True))
def test_late_rows(case: ManyCase, same_rows: Same) -> None:
    session = Session(case.script(), settings=case.settings)
    for batch in case.batches:
        session.feed(batch, case.budget)
    session.close()
    watermarks = Watermarks(case)
    chains = {chain.title: tuple(stream.name for stream in chain.streams) for chain in session.plan.chains}
    expected: dict[tuple[str, int], tuple[str, frozenset[str]]] = {}
    seen: dict[str, dict[str, Rows]] = {query.name: defaultdict(list) for query in case.queries}
    for number, batch in enumerate(case.batches):
        for name, rows in batch.items():
            for row in rows:
                if row["Ts"] is None:
                    expected[name, row["id"]] = "null time", frozenset()
                    continue
                late = {
                    title
                    for title, streams in chains.items()
                    if name in streams and watermarks.is_late(row, streams, number)
                }
                if late:
                    expected[name, row["id"]] = "older than the watermark", frozenset(late)
                for query in case.queries:
                    if not watermarks.is_late(row, query.streams, number):
                        seen[query.name][name].append(row)
    event("late rows" if any(chains for _, chains in expected.values()) else "no late rows")
    told = [
        ((late.stream, number), (late.reason, frozenset(late.chains)))
        for late in session.late
        for number in late.rows.column("id").to_pylist()
    ]
    assert len(told) == len(dict(told)), "a row is told twice"
    assert dict(told) == expected
    for query, read_query in zip(case.queries, read(case).values(), strict=True):
        found = session.results(query.name).to_pylist()
        same_rows(found, naive(read_query, seen[query.name]))
        if case.settings["order"] == "strict":
            check_order(query, found, case.times())
