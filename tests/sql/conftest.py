"""Reading one query over three streams, and showing its parts as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

from millstream import sql
from millstream.errors import Errors
from millstream.model import Expr, Function, Query, Script
from millstream.model.expr import text

STREAMS = """
CREATE STREAM T (Id INT, Zone STRING, Value DOUBLE, Ok BOOLEAN, Price DECIMAL(10, 2), Day DATE, At TIMESTAMP,
                 Place STRUCT<city: STRING, spot: STRUCT<x: DOUBLE, `y z`: INT>>, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM H (Id BIGINT, Zone STRING, Value DOUBLE, Note STRING, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM P (Id INT, Zone STRING, Level FLOAT, Ts TIMESTAMP) WITH (time = 'Ts');
"""

ReadScript = Callable[[str], Script]
ReadQuery = Callable[..., Query]
Shown = Callable[[Query, Iterable[Expr]], list[str]]


@pytest.fixture
def script() -> ReadScript:
    """The script of a text that has nothing wrong with it."""

    def read(text: str) -> Script:
        errors = Errors()
        found = sql.read(text, errors)
        errors.raise_if_any()
        return found

    return read


@pytest.fixture
def query() -> ReadQuery:
    """The query that a SELECT over the streams above declares."""

    def read(select: str, functions: Mapping[str, Function] | None = None) -> Query:
        errors = Errors()
        found = sql.read(f"{STREAMS} CREATE QUERY q AS {select};", errors, functions)
        errors.raise_if_any()
        return found.queries[0]

    return read


@pytest.fixture
def shown() -> Shown:
    """Expressions as SQL, with the aliases of the query."""

    def show(query: Query, exprs: Iterable[Expr]) -> list[str]:
        return [text(expr, lambda column: f"{query.sources[column.source].alias}.{column.name}") for expr in exprs]

    return show
