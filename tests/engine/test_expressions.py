"""Every operator and function of the language, on values and nulls, against DuckDB or the value it must have."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import millstream
from millstream.compile import compile_script
from millstream.errors import QueryFailed, ScriptError
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
def test_the_same_as_duckdb(expression: str, duck: Callable[..., Rows]) -> None:
    (query,) = compile_script(script_of(expression)).script.queries
    wanted = [row["x"] for row in sorted(duck(query, ROWS), key=lambda row: row["k"])]
    assert [plain(value) for value in values(expression)] == [plain(value) for value in wanted]


@pytest.mark.parametrize(("expression", "wanted"), EXACT)
def test_the_value_it_must_have(expression: str, wanted: list[Any]) -> None:
    assert values(expression) == pytest.approx(wanted, nan_ok=True)


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
def test_what_does_not_fit_stops_the_query(expression: str, why: str) -> None:
    with pytest.raises(QueryFailed, match=re.escape(why)):
        values(expression)


def test_a_predicate_that_may_raise_sees_only_rows_that_the_others_let_pass() -> None:
    script = script_of("A.i").replace("WHERE A.k", "WHERE CAST(A.s AS INT) = 0 AND A.s LIKE '0%' AND A.k")
    rows = {
        "A": [{**row, "s": text} for row, text in zip(ROWS["A"], ("0", "x", "00", "1"), strict=True)],
        "B": ROWS["B"],
    }
    assert sorted(run(script, rows)["q"]["k"].to_pylist()) == [0, 2]


@pytest.mark.parametrize(
    ("column", "options"),
    [
        ("A.i", [*map(str, range(-20, 20)), "NULL"]),
        ("A.d", [*(f"{n}.5" for n in range(-20, 20)), "-0.0"]),
        ("A.m", [str(n) for n in range(-20, 20)]),
        ("A.s", [*(f"'{letter}'" for letter in "abcdefghijklmnopqrstuvw"), "'stream'"]),
        ("A.Ts", [f"'2024-02-{day:02}'" for day in range(1, 30)]),
        ("A.b", ["TRUE"] * 20),
    ],
)
def test_many_options_are_looked_up_as_few_are_compared(column: str, options: list[str]) -> None:
    alike = " OR ".join(f"{column} = {option}" for option in options)
    assert values(f"{column} IN ({', '.join(options)})") == values(alike)


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
def test_hostile_arguments_take_little_time(expression: str, text: str) -> None:
    rows = {"A": [{**row, "s": text} for row in ROWS["A"] * 50], "B": ROWS["B"]}
    began = time.thread_time()
    found = run(script_of(expression), rows)["q"]
    assert found.num_rows == 200
    assert found.nbytes < 50_000_000
    assert time.thread_time() - began < 3


@pytest.mark.parametrize(
    "condition",
    ["nullif(A.i, B.i) > CAST(A.s AS INT)", "CAST(A.s AS INT) = nullif(A.i, B.i)", "NOT (A.i = CAST(A.s AS INT))"],
)
def test_a_condition_that_is_null_fails_for_no_row(condition: str) -> None:
    """However its sides are put in order."""
    row = {"k": 1, "i": None, "d": None, "s": "x", "b": None, "m": None, "p": None, "Ts": MOMENT}
    rows = {"A": [row], "B": [row]}
    assert run(script_of("A.i").replace("WINDOW", f"AND {condition} WINDOW"), rows)["q"].num_rows == 0
    with pytest.raises(QueryFailed, match="'x' cannot be CAST"):
        run(script_of("CAST(A.s AS INT) + A.i"), rows)


def test_what_fails_after_many_nulls_takes_little_time() -> None:
    """Each level is tried on all rows once, not once for each try of the level above."""
    started = time.perf_counter()
    with pytest.raises(QueryFailed):
        values(f"{'A.i + (' * 45}CAST(A.s AS INT){')' * 45}")
    assert time.perf_counter() - started < 5


def test_every_function_is_tried_here() -> None:
    tried = " ".join([*AGAINST_DUCKDB, *(expression for expression, _ in EXACT)])
    assert [name for name in BUILTINS if f"{name}(" not in tried] == []


def test_a_registered_function_gets_whole_columns() -> None:
    calls: list[tuple[int, int]] = []

    @millstream.function("DOUBLE", "DOUBLE", "DOUBLE")
    def mean(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        calls.append((len(left), len(right)))
        return (left + right) / 2

    found = values("mean(coalesce(A.d, 0), A.i * 1.0 - A.i + 2)", mean=mean)
    assert found[:3] == [2.25, 0.75, 1.0]
    assert found[3] is None
    assert values("mean(A.d, 1)", mean=mean) == [1.75, 0.25, 0.5, None]
    assert values("mean(3, 4)", mean=mean) == [3.5] * 4
    assert calls == [(4, 4), (4, 4), (1, 1)]


@pytest.mark.parametrize(
    ("give", "why"),
    [
        (lambda column: column[:1], "odd was given 4 rows and gave 1 values"),
        (lambda column: np.concatenate([column, column]), "odd was given 4 rows and gave 8 values"),
        (lambda _: 5, "odd was given 4 rows and gave no column but int"),
        (lambda _: np.array(5), "odd was given 4 rows and gave no column but ndarray of shape ()"),
        (lambda column: column.reshape(2, 2), "no column but ndarray of shape (2, 2)"),
        (lambda _: "abcd", "no column but str"),
        (lambda _: dict.fromkeys(range(4)), "no column but dict"),
        (lambda _: None, "no column but NoneType"),
        (lambda column: ["x"] * len(column), "odd gave values that cannot be INT"),
        (lambda column: column + 0.5, "odd gave values that cannot be INT"),
        (lambda column: [2**40] * len(column), "odd gave values that cannot be INT"),
    ],
)
def test_a_registered_function_gives_one_value_for_every_row(give: Callable[[Any], Any], why: str) -> None:
    odd = millstream.function("INT", "INT", name="odd")(give)
    with pytest.raises(QueryFailed, match=re.escape(why)):
        values("odd(coalesce(A.i, 0))", odd=odd)


@pytest.mark.parametrize("give", [list, tuple, pa.array, lambda column: pa.chunked_array([column, []], pa.int32())])
def test_a_registered_function_may_give_any_kind_of_column(give: Callable[[Any], Any]) -> None:
    same = millstream.function("INT", "INT", name="same")(give)
    assert values("same(coalesce(A.i, 0))", same=same) == [7, -3, 0, 0]


def test_a_registered_function_of_constants_is_refused_a_wrong_length_too() -> None:
    many = millstream.function("INT", "INT", name="many")(lambda _: [1, 2, 3])
    with pytest.raises(QueryFailed, match="many was given 1 rows and gave 3 values"):
        values("many(5)", many=many)


def test_what_a_registered_function_masks_is_null() -> None:
    odd = millstream.function("INT", "INT", name="odd")(lambda column: np.ma.masked_greater(column, 0))
    assert values("odd(coalesce(A.i, 0))", odd=odd) == [None, -3, 0, 0]


def test_a_registered_function_is_never_given_rounded_integers() -> None:
    """With a missing value among them NumPy has integers as floats, which cannot hold all of them."""
    same = millstream.function("BIGINT", "BIGINT", name="same")(lambda column: column)
    large = f"CASE WHEN A.i > 0 THEN {2**53 + 1} ELSE CAST(A.i AS BIGINT) END"
    assert values(f"same(coalesce({large}, 0))", same=same) == [2**53 + 1, -3, 0, 0]
    with pytest.raises(QueryFailed, match="same was given a missing value beside integers beyond"):
        values(f"same({large})", same=same)
    assert values("same(CAST(A.i AS BIGINT))", same=same) == [7, -3, 0, None]


@pytest.mark.parametrize("kind", ["DECIMAL(10, 2)", "ARRAY<INT>"])
def test_a_registered_function_has_plain_types(kind: str) -> None:
    with pytest.raises(ScriptError, match=r"functions take and give TINYINT, .*TIMESTAMP_NTZ. Use one of these, and"):
        millstream.function("INT", kind, name="f")
