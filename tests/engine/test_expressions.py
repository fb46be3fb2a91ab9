"""Every operator and function of the language, on values and nulls, against DuckDB or the value it must have."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import millstream
from millstream.compile import compile_script
from millstream.model.functions import BUILTINS
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


def script_of(expression: str) -> str:
    streams = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts');" for name in "AB")
    return f"{streams} CREATE QUERY q AS SELECT A.k AS k, {expression} AS x FROM A, B WHERE A.k = B.k WINDOW 1 SECOND;"


def values(expression: str, **functions: Any) -> list[Any]:
    rows = run(script_of(expression), ROWS, functions=functions)["q"].to_pylist()
    return [row["x"] for row in sorted(rows, key=lambda row: row["k"])]


AGAINST_DUCKDB = [
    *("A.i + B.i", "A.i - B.d", "A.i * B.i", "A.d * 2", "-A.i", "A.m + B.m", "A.i + A.m"),
    *("A.i = B.i", "A.d <> B.d", "A.s < B.s", "A.i <= 0", "A.m > 0", "A.d >= A.i", "A.b = B.b"),
    *("A.b AND B.b", "A.b OR B.b", "NOT A.b", "A.b IS NULL", "A.s IS NOT NULL", "A.i BETWEEN -5 AND 0"),
    *("A.i IN (7, 0)", "A.i IN (7, B.i)", "A.i NOT IN (7)", "A.s IN ('stream', NULL)", "A.s LIKE '%ill%'"),
    *("A.s LIKE 'str__m'", "A.s NOT LIKE 's%'", "CASE WHEN A.i > 0 THEN A.d WHEN A.b THEN 9 ELSE -1 END"),
    *("CASE A.i WHEN 7 THEN 'seven' END", "if(A.i > 0, A.i, B.d)", "CAST(A.i AS DOUBLE)", "CAST(A.i AS STRING)"),
    *("TRY_CAST(A.s AS INT)", "abs(A.i)", "abs(A.d)", "sign(A.i)", "floor(A.d)", "ceil(A.d)", "round(A.d)"),
    *("round(A.d, 1)", "power(A.i, 2)", "sqrt(abs(A.d))", "exp(A.d)", "ln(abs(A.d) + 1)", "log10(abs(A.d) + 1)"),
    *("sin(A.d)", "cos(A.d)", "tan(A.d)", "greatest(A.i, B.i, 1)", "least(A.i, B.d)", "coalesce(A.i, B.i, 5)"),
    *("nullif(A.i, 7)", "length(A.s)", "upper(A.s)", "lower(A.s)", "trim(A.s)", "ltrim(A.s)", "rtrim(A.s)"),
    *("substring(A.s, 2)", "substring(A.s, 2, 3)", "replace(A.s, 'm', 'w')"),
    *("A.i % 4", "A.d % 2", "A.p.x", "A.p.y", "A.Ts > '2024-01-01'", "A.Ts = TIMESTAMP '2024-02-29 23:59:58.123456'"),
]
EXACT = [
    ("A.i / 2", [3.5, -1.5, 0.0, None]),
    ("7 / A.i", [1.0, -7 / 3, None, None]),
    ("A.i % 0", [None, None, None, None]),
    ("year(A.Ts)", [2024] * 4),
    ("month(A.Ts)", [2] * 4),
    ("day(A.Ts)", [29] * 4),
    ("hour(A.Ts)", [23] * 4),
    ("minute(A.Ts)", [59] * 4),
    ("second(A.Ts)", [58] * 4),
    ("extract(hour FROM A.Ts)", [23] * 4),
    ("concat(A.s, '-', 'x')", [" Mill -x", "stream-x", "-x", None]),
    ("A.s || B.s", [" Mill  Mill ", None, "", None]),
    ("A.s || '!'", [" Mill !", "stream!", "!", None]),
    ("startswith(A.s, 'st')", [False, True, False, None]),
    ("endswith(A.s, 'am')", [False, True, False, None]),
    ("contains(A.s, 'ill')", [True, False, False, None]),
    ("round(A.d)", [3.0, -1.0, 0.0, None]),
    ("CAST(A.d AS INT)", [2, 0, 0, None]),
    ("A.Ts - INTERVAL '1' DAY = B.Ts - INTERVAL '24' HOUR", [True] * 4),
    ("1 + 1", [2] * 4),
    ("'text'", ["text"] * 4),
]


def plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return round(value, 9) if isinstance(value, float) and math.isfinite(value) else value


@pytest.mark.parametrize("expression", AGAINST_DUCKDB)
def test_the_same_as_duckdb(expression: str, duck: Callable[..., Rows]) -> None:
    (query,) = compile_script(script_of(expression)).script.queries
    wanted = [row["x"] for row in sorted(duck(query, ROWS), key=lambda row: row["k"])]
    assert [plain(value) for value in values(expression)] == [plain(value) for value in wanted]


@pytest.mark.parametrize(("expression", "wanted"), EXACT)
def test_the_value_it_must_have(expression: str, wanted: list[Any]) -> None:
    assert values(expression) == pytest.approx(wanted, nan_ok=True)


def test_every_function_is_tried_here() -> None:
    tried = " ".join([*AGAINST_DUCKDB, *(expression for expression, _ in EXACT)])
    assert [name for name in BUILTINS if f"{name}(" not in tried] == []


def test_a_registered_function_gets_whole_columns() -> None:
    calls: list[int] = []

    @millstream.function("DOUBLE", "DOUBLE", "DOUBLE")
    def mean(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        calls.append(len(left))
        return (left + right) / 2

    found = values("mean(coalesce(A.d, 0), A.i * 1.0 - A.i + 2)", mean=mean)
    assert found[:3] == [2.25, 0.75, 1.0]
    assert len(calls) == 1
