"""Oracles for the engine: DuckDB on the whole input, and multisets of rows to compare with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from millstream.engine.arrow import arrow_schema
from millstream.model.expr import Column, text
from millstream.model.query import Query, TimeWindow

Rows = list[dict[str, Any]]


def multiset(rows: Rows) -> Counter[str]:
    """Rows as a bag; order does not count, how often a row stands does."""
    return Counter(repr([(name, _plain(value)) for name, value in row.items()]) for row in rows)


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


@pytest.fixture(scope="session")
def duck() -> Callable[[Query, Mapping[str, Rows]], Rows]:
    """What DuckDB gives for a query over all rows at once."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")

    def answer(query: Query, rows: Mapping[str, Rows]) -> Rows:
        for number, source in enumerate(query.sources):
            schema = arrow_schema(source.stream)
            connection.register(f"s{number}", pa.Table.from_pylist(rows.get(source.stream.name, []), schema=schema))
        return connection.sql(duck_sql(query)).to_arrow_table().to_pylist()

    return answer


def duck_sql(query: Query) -> str:
    """The query as plain SQL, from its meaning and not from its text."""

    def name(column: Column) -> str:
        return f's{column.source}."{column.name}"'

    if not isinstance(query.window, TimeWindow):
        raise TypeError("windows in time only")
    times = [f's{i}."{source.stream.time}"' for i, source in enumerate(query.sources)]
    conditions = [f"{text(key.left, name)} = {text(key.right, name)}" for key in query.keys]
    conditions += [f"({text(p, name)})" for selection in query.selections for p in selection]
    conditions += [f"({text(p, name)})" for p in query.residual]
    for bound in query.window.bounds:
        difference = f"epoch_us({times[bound.right]}) - epoch_us({times[bound.left]})"
        conditions.append(f"{difference} BETWEEN {bound.interval.lo} AND {bound.interval.hi - 1}")
    outputs = ", ".join(f'{text(output.expr, name)} AS "{output.name}"' for output in query.outputs)
    sources = ", ".join(f"s{i}" for i in range(len(query.sources)))
    return f"SELECT {outputs} FROM {sources} WHERE {' AND '.join(conditions)}"


@pytest.fixture(scope="session")
def same_rows() -> Callable[[Rows, Rows], None]:
    def check(found: Rows, wanted: Rows) -> None:
        have, want = multiset(found), multiset(wanted)
        assert have == want, f"missing {want - have}, too many {have - want}"

    return check
