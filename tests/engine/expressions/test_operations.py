"""Every operator and function of the language, on values and nulls, against DuckDB or the value it must have."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from millstream.compile import compile_script
from millstream.errors import QueryFailed
from millstream.model.functions import BUILTINS
from millstream.testing import run

Rows = list[dict[str, Any]]
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
    ("power(1, CAST('NaN' AS DOUBLE))", [math.nan] * 4),
    ("power(A.i + 4, CAST('Infinity' AS DOUBLE))", [math.inf, math.nan, math.inf, None]),
    ("round(A.d)", [3.0, -1.0, 0.0, None]),
    ("CAST(A.d AS INT)", [2, 0, 0, None]),
    ("A.Ts - INTERVAL '1' DAY = B.Ts - INTERVAL '24' HOUR", [True] * 4),
    ("1 + 1", [2] * 4),
    ("A.m * A.m", [Decimal("10.5625"), Decimal("1.0000"), Decimal("0.0000"), None]),
    ("1 + A.m + 1", [Decimal("5.25"), Decimal("1.00"), Decimal("2.00"), None]),
    ("A.m * CAST(3 AS BIGINT)", [Decimal("9.75"), Decimal("-3.00"), Decimal("0.00"), None]),
    ("sign(A.m)", [1.0, -1.0, 0.0, None]),
    ("round(A.m, 1)", [Decimal("3.3"), Decimal("-1.0"), Decimal("0.0"), None]),
    ("CAST(A.i AS DECIMAL(10, 2))", [Decimal("7.00"), Decimal("-3.00"), Decimal("0.00"), None]),
    ("CAST(A.m AS INT)", [3, -1, 0, None]),
    ("A.m % 2", [Decimal("1.25"), Decimal("-1.00"), Decimal("0.00"), None]),
    ("A.m / 2", [1.625, -0.5, 0.0, None]),
    ("TRY_CAST(3.7 AS INT)", [3] * 4),
    ("replace(A.s, '', 'X')", [" Mill ", "stream", "", None]),
    ("substring(A.s, -2)", ["l ", "am", "", None]),
    ("greatest(A.Ts, B.Ts) = A.Ts", [True] * 4),
    ("CASE WHEN A.s LIKE 'str%' THEN 1 WHEN A.i > 0 THEN CAST('7' AS INT) + A.i END", [14, 1, None, None]),
    ("CASE WHEN A.i = 0 THEN CAST(concat(A.s, '5') AS INT) END", [None, None, 5, None]),
    ("coalesce(TRY_CAST(A.s AS INT), length(A.s))", [6, 6, 0, None]),
    ("'text'", ["text"] * 4),
]


def plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return round(value, 9) if isinstance(value, float) and math.isfinite(value) else value


@pytest.mark.parametrize("expression", AGAINST_DUCKDB)
def test_the_same_as_duckdb(example: Any, expression: str, duck: Callable[..., Rows]) -> None:
    (query,) = compile_script(example.script(expression)).script.queries
    wanted = [row["x"] for row in sorted(duck(query, example.rows), key=lambda row: row["k"])]
    assert [plain(value) for value in example.values(expression)] == [plain(value) for value in wanted]


@pytest.mark.parametrize(("expression", "wanted"), EXACT)
def test_the_value_it_must_have(example: Any, expression: str, wanted: list[Any]) -> None:
    assert example.values(expression) == pytest.approx(wanted, nan_ok=True)


FAILING = [
    ("A.i + 2147483647", "overflow"),
    ("CAST(A.i AS TINYINT) * CAST(100 AS TINYINT)", "overflow"),
    ("CAST(A.d + 300 AS TINYINT)", "cannot be CAST to TINYINT"),
    ("CAST(A.s AS INT)", "' cannot be CAST to INT; TRY_CAST gives NULL"),
    ("CAST(A.s AS TIMESTAMP)", "cannot be CAST to TIMESTAMP"),
    ("CAST(A.m * 1000000 AS DECIMAL(4, 2))", "cannot be CAST to DECIMAL"),
    ("CAST(A.m AS DECIMAL(38, 0)) * CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))", "more digits"),
    ("floor(A.d * 1e300)", "does not fit in BIGINT"),
    ("round(CAST(A.i * 17 AS TINYINT), -1) + CAST(A.i * 18 AS TINYINT)", "overflow"),
]


@pytest.mark.parametrize(("expression", "why"), FAILING)
def test_what_does_not_fit_stops_the_query(example: Any, expression: str, why: str) -> None:
    with pytest.raises(QueryFailed, match=re.escape(why)):
        example.values(expression)


HOSTILE = [
    ("replace(A.s, '', 'X')", "a" * 20_000),
    ("replace(A.s, 'a', 'bb')", "a" * 20_000),
    ("A.s LIKE '%a%a%a%a%a%a%a%a%a%b'", "a" * 20_000),
    ("TRY_CAST(A.s AS INT)", "9" * 20_000),
    ("TRY_CAST(A.s AS DOUBLE)", "9" * 20_000),
    ("TRY_CAST(A.s AS DECIMAL(10, 2))", "9" * 20_000),
    ("TRY_CAST(A.s AS DECIMAL(10, 2))", "1e999999999"),
    ("TRY_CAST(A.s AS DECIMAL(10, 2))", "1e-999999999"),
    ("TRY_CAST(A.s AS TIMESTAMP)", "2024-01-05 10:00:00." + "1" * 20_000),
    ("substring(A.s, -2147483648, 2147483647)", "a" * 20_000),
    ("round(A.d, 2147483647) + round(A.d, -2147483648)", ""),
    ("round(A.m, 2147483647)", ""),
    ("upper(A.s)", "ß" * 20_000),
]


@pytest.mark.parametrize(("expression", "text"), HOSTILE)
def test_hostile_arguments_take_little_time(example: Any, expression: str, text: str) -> None:
    rows = {"A": [{**row, "s": text} for row in example.rows["A"] * 50], "B": example.rows["B"]}
    began = time.thread_time()
    found = run(example.script(expression), rows)["q"]
    assert found.num_rows == 200
    assert found.nbytes < 50_000_000
    assert time.thread_time() - began < 3


def test_every_function_is_tried_here() -> None:
    tried = " ".join([*AGAINST_DUCKDB, *(expression for expression, _ in EXACT)])
    assert [name for name in BUILTINS if f"{name}(" not in tried] == []
