"""Rows with values of every kind and nulls, and what an expression over them gives by way of a whole query."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from millstream.testing import run

Rows = list[dict[str, Any]]
MOMENT = datetime(2024, 2, 29, 23, 59, 58, 123456, tzinfo=UTC)
COLUMNS = "k INT, i INT, d DOUBLE, s STRING, b BOOLEAN, m DECIMAL(9, 2), p STRUCT<x: INT, y: STRING>, Ts TIMESTAMP"
VALUES: Rows = [
    {"i": 7, "d": 2.5, "s": " Mill ", "b": True, "m": Decimal("3.25"), "p": {"x": 4, "y": "a"}},
    {"i": -3, "d": -0.5, "s": "stream", "b": False, "m": Decimal("-1.00"), "p": {"x": None, "y": None}},
    {"i": 0, "d": 0.0, "s": "", "b": None, "m": Decimal("0.00"), "p": None},
    dict.fromkeys(("i", "d", "s", "b", "m", "p")),
]
ROWS = {
    "A": [{"k": n, **row, "Ts": MOMENT} for n, row in enumerate(VALUES)],
    "B": [{"k": n, **VALUES[-n], "Ts": MOMENT} for n in range(len(VALUES))],
}


class Example:
    """Two streams of these rows, joined row by row; an expression is the column x of the result."""

    rows = ROWS
    moment = MOMENT

    def script(self, expression: str) -> str:
        streams = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts');" for name in "AB")
        select = f"SELECT A.k AS k, {expression} AS x FROM A, B WHERE A.k = B.k"
        return f"{streams} CREATE QUERY q AS {select} WINDOW 1 SECOND;"

    def values(self, expression: str, **functions: Any) -> list[Any]:
        rows = run(self.script(expression), ROWS, functions=functions)["q"].to_pylist()
        return [row["x"] for row in sorted(rows, key=lambda row: row["k"])]


@pytest.fixture(scope="session")
def example() -> Example:
    return Example()
