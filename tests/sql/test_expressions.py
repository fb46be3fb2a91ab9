"""Expressions: what they mean and of what type they are, shown as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

import millstream
from millstream.errors import ScriptErrors
from millstream.model import Expr, Literal, Query, Script
from millstream.model.types import BOOLEAN, TIMESTAMP

ReadQuery = Callable[..., Query]
Shown = Callable[[Query, Iterable[Expr]], list[str]]


def output(query: ReadQuery, expression: str) -> Expr:
    return query(f"SELECT {expression} AS x FROM T, H WHERE T.Id = H.Id WINDOW 1 MINUTE").outputs[0].expr


@pytest.mark.parametrize(
    ("expression", "text", "kind"),
    [
        ("T.Value", "T.Value", "DOUBLE"),
        ("Note", "H.Note", "STRING"),
        ("1", "1", "INT"),
        ("2147483648", "2147483648", "BIGINT"),
        ("1.5", "1.5", "DOUBLE"),
        (".5", "0.5", "DOUBLE"),
        ("1e3", "1000.0", "DOUBLE"),
        ("-3", "-3", "INT"),
        ("+3", "3", "INT"),
        ("- -3", "3", "INT"),
        ("'it''s'", "'it''s'", "STRING"),
        ("TRUE", "TRUE", "BOOLEAN"),
        ("CAST(NULL AS INT)", "NULL", "INT"),
        ("-2147483648", "-2147483648", "INT"),
        ("-9223372036854775808", "-9223372036854775808", "BIGINT"),
        ("INTERVAL '90' SECOND", "INTERVAL '90 s'", "INTERVAL"),
        ("INTERVAL '1 minute 30 seconds'", "INTERVAL '90 s'", "INTERVAL"),
        ("INTERVAL -2 HOURS", "INTERVAL '-2 h'", "INTERVAL"),
        ("DATE '2024-05-31'", "DATE '2024-05-31'", "DATE"),
        ("TIMESTAMP '2024-05-31 12:30:00.5'", "TIMESTAMP '2024-05-31 12:30:00.500000'", "TIMESTAMP"),
        ("TIMESTAMP '2024-05-31T12:30:00+02:00'", "TIMESTAMP '2024-05-31 10:30:00'", "TIMESTAMP"),
        ("CAST('2024-05-31' AS TIMESTAMP)", "TIMESTAMP '2024-05-31 00:00:00'", "TIMESTAMP"),
    ],
)
def test_columns_and_constants(query: ReadQuery, shown: Shown, expression: str, text: str, kind: str) -> None:
    found = query(f"SELECT {expression} AS x FROM T, H WHERE T.Id = H.Id WINDOW 1 MINUTE")
    assert shown(found, [found.outputs[0].expr]) == [text]
    assert str(found.outputs[0].expr.type) == kind


@pytest.mark.parametrize(
    ("expression", "text", "kind"),
    [
        ("T.Id + 1", "T.Id + 1", "INT"),
        ("T.Id + H.Id", "T.Id + H.Id", "BIGINT"),
        ("T.Id * T.Value", "T.Id * T.Value", "DOUBLE"),
        ("T.Id / 2", "T.Id / 2", "DOUBLE"),
        ("T.Id % 2", "T.Id % 2", "INT"),
        ("T.Price + 1", "T.Price + 1", "DECIMAL(11, 2)"),
        ("T.Price * 100", "T.Price * 100", "DECIMAL(14, 2)"),
        ("T.Price * T.Price", "T.Price * T.Price", "DECIMAL(21, 4)"),
        ("T.Price * H.Id", "T.Price * H.Id", "DECIMAL(31, 2)"),
        ("T.Price % 3", "T.Price % 3", "DECIMAL(3, 2)"),
        ("T.Price / 3", "T.Price / 3", "DOUBLE"),
        ("T.Price + T.Value", "T.Price + T.Value", "DOUBLE"),
        ("1 + 2 * T.Id", "1 + (2 * T.Id)", "INT"),
        ("(1 + 2) * T.Id", "(1 + 2) * T.Id", "INT"),
        ("1 - 2 - T.Id", "(1 - 2) - T.Id", "INT"),
        ("-(T.Id + 1)", "-(T.Id + 1)", "INT"),
        ("T.Value + NULL", "T.Value + NULL", "DOUBLE"),
        ("T.Ts - T.At", "T.Ts - T.At", "INTERVAL"),
        ("T.Ts + INTERVAL '1' DAY", "T.Ts + INTERVAL '1 d'", "TIMESTAMP"),
        ("INTERVAL '1' DAY + T.Ts", "INTERVAL '1 d' + T.Ts", "TIMESTAMP"),
        ("T.Zone || '-' || H.Zone", "concat(concat(T.Zone, '-'), H.Zone)", "STRING"),
        ("CASE WHEN T.Ok THEN 1 ELSE 2.5 END", "CASE WHEN T.Ok THEN 1 ELSE 2.5 END", "DOUBLE"),
        ("CASE WHEN T.Ok THEN 1 END", "CASE WHEN T.Ok THEN 1 ELSE NULL END", "INT"),
        (
            "CASE T.Id WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE 'c' END",
            "CASE WHEN T.Id = 1 THEN 'a' WHEN T.Id = 2 THEN 'b' ELSE 'c' END",
            "STRING",
        ),
        ("IF(T.Ok, T.Id, H.Id)", "CASE WHEN T.Ok THEN T.Id ELSE H.Id END", "BIGINT"),
        ("CAST(T.Id AS STRING)", "CAST(T.Id AS STRING)", "STRING"),
        ("T.Id::DECIMAL(5, 1)", "CAST(T.Id AS DECIMAL(5, 1))", "DECIMAL(5, 1)"),
        ("TRY_CAST(T.Zone AS INT)", "TRY_CAST(T.Zone AS INT)", "INT"),
        ("EXTRACT(hour FROM T.Ts)", "hour(T.Ts)", "INT"),
        ("T.Place", "T.Place", "STRUCT<city: STRING, spot: STRUCT<x: DOUBLE, `y z`: INT>>"),
        ("T.Place.city", "T.Place.city", "STRING"),
        ("place.SPOT.x", "T.Place.spot.x", "DOUBLE"),
        ("T.Place.spot.`y z`", 'T.Place.spot."y z"', "INT"),
    ],
)
def test_operators(query: ReadQuery, shown: Shown, expression: str, text: str, kind: str) -> None:
    found = query(f"SELECT {expression} AS x FROM T, H WHERE T.Id = H.Id WINDOW 1 MINUTE")
    assert shown(found, [found.outputs[0].expr]) == [text]
    assert str(found.outputs[0].expr.type) == kind


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        ("T.Id <> 3", "T.Id <> 3"),
        ("T.Id != 3", "T.Id <> 3"),
        ("T.Id == 3", "T.Id = 3"),
        ("T.Value BETWEEN 1 AND 2", ["T.Value <= 2", "T.Value >= 1"]),
        ("T.Value NOT BETWEEN 1 AND 2", "NOT ((T.Value <= 2) AND (T.Value >= 1))"),
        ("T.Zone IN ('b', 'a', 'b')", "T.Zone IN ('a', 'b')"),
        ("T.Id NOT IN (1, -2)", "NOT (T.Id IN (-2, 1))"),
        ("T.Id IN (2, T.Id + 1, 0.5)", "T.Id IN (CAST(T.Id + 1 AS DOUBLE), 0.5, 2.0)"),
        ("T.Value IN (2, T.Id + 1, 0.5)", "T.Value IN ((T.Id + 1), 0.5, 2)"),
        ("T.Zone LIKE 'a%'", "T.Zone LIKE 'a%'"),
        ("T.Zone NOT LIKE '_b'", "NOT (T.Zone LIKE '_b')"),
        ("T.Zone IS NULL", "T.Zone IS NULL"),
        ("T.Zone IS NOT NULL", "NOT (T.Zone IS NULL)"),
        ("NOT NOT T.Ok", "T.Ok"),
        ("(T.Ok OR T.Id = 1 OR 2 = T.Id)", "(T.Id = 1) OR (T.Id = 2) OR T.Ok"),
        ("NOT T.Id = 1 AND T.Ok", ["T.Ok", "NOT (T.Id = 1)"]),
        ("T.Day > '2024-05-31'", "T.Day > DATE '2024-05-31'"),
        ("'2024-05-31' <= T.At", "T.At >= TIMESTAMP '2024-05-31 00:00:00'"),
        ("T.Day IN ('2024-06-01', '2024-05-31')", "T.Day IN (DATE '2024-05-31', DATE '2024-06-01')"),
        ("startswith(T.Zone, 'a')", "startswith(T.Zone, 'a')"),
        ("T.Price > 1", "T.Price > 1"),
        ("T.Ok = TRUE", "T.Ok = TRUE"),
        ("T.Id = NULL", "T.Id = NULL"),
    ],
)
def test_predicates_in_their_canonical_form(
    query: ReadQuery, shown: Shown, predicate: str, text: str | list[str]
) -> None:
    found = query(f"SELECT T.Id FROM T, H WHERE T.Id = H.Id AND {predicate} WINDOW 1 MINUTE")
    assert shown(found, found.selections[0]) == ([text] if isinstance(text, str) else text)


def test_null_as_a_condition_is_a_boolean(query: ReadQuery) -> None:
    found = query("SELECT T.Id FROM T, H WHERE T.Id = H.Id AND NULL WINDOW 1 MINUTE")
    assert found.residual == (Literal(None, BOOLEAN),)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("abs(T.Id)", "INT"),
        ("ABS(T.Value)", "DOUBLE"),
        ("abs(T.Ts - T.At)", "INTERVAL"),
        ("round(T.Value, 2)", "DOUBLE"),
        ("round(T.Value)", "DOUBLE"),
        ("floor(T.Value)", "BIGINT"),
        ("ceil(T.Price)", "DECIMAL(9, 0)"),
        ("round(T.Price, 1)", "DECIMAL(10, 1)"),
        ("round(T.Price, -1)", "DECIMAL(9, 0)"),
        ("sign(T.Price)", "DOUBLE"),
        ("floor(T.Id)", "BIGINT"),
        ("greatest(T.Price, 1)", "DECIMAL(12, 2)"),
        ("sqrt(T.Id)", "DOUBLE"),
        ("power(T.Id, 2)", "DOUBLE"),
        ("greatest(T.Id, H.Id, 3.5)", "DOUBLE"),
        ("least(T.Zone, H.Zone)", "STRING"),
        ("coalesce(NULL, T.Id, H.Id)", "BIGINT"),
        ("nullif(T.Zone, '')", "STRING"),
        ("length(T.Zone)", "INT"),
        ("upper(trim(T.Zone))", "STRING"),
        ("substring(T.Zone, 1, 2)", "STRING"),
        ("replace(T.Zone, 'a', 'b')", "STRING"),
        ("concat(T.Zone, H.Zone, 'x')", "STRING"),
        ("contains(T.Zone, 'a')", "BOOLEAN"),
        ("year(T.Ts)", "INT"),
    ],
)
def test_functions(query: ReadQuery, call: str, kind: str) -> None:
    assert str(output(query, call).type) == kind


@millstream.function("BOOLEAN", "DOUBLE", "DOUBLE")
def correlated(a: object, b: object) -> object:
    return a == b


def test_a_registered_function_gets_the_types_it_declares(query: ReadQuery, shown: Shown) -> None:
    functions = {"correlated": correlated}
    select = "SELECT T.Id FROM T, H WHERE T.Id = H.Id AND {} WINDOW 1 MINUTE"
    same = query(select.format("Correlated(T.Value, H.Value)"), functions)
    assert shown(same, same.residual) == ["correlated(T.Value, H.Value)"]
    wider = query(select.format("correlated(H.Id, 3)"), functions)
    assert shown(wider, wider.selections[1]) == ["correlated(CAST(H.Id AS DOUBLE), 3.0)"]
    missing = query(select.format("correlated(T.Value, NULL)"), functions)
    assert shown(missing, missing.selections[0]) == ["correlated(T.Value, NULL)"]


def test_a_registered_function_refuses_types_it_does_not_declare(query: ReadQuery) -> None:
    @millstream.function("BOOLEAN", "INT")
    def even(a: object) -> object:
        return a

    with pytest.raises(ScriptErrors, match=r"even got DOUBLE as argument 1; it is even\(INT\)"):
        query("SELECT T.Id FROM T, H WHERE T.Id = H.Id AND even(T.Value) WINDOW 1 MINUTE", {"even": even})


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01 00:00:00.000001", 1),
        ("1969-12-31T23:59:59", -1_000_000),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_times_are_microseconds_since_1970_in_utc(query: ReadQuery, text: str, microseconds: int) -> None:
    assert output(query, f"TIMESTAMP '{text}'") == Literal(microseconds, TIMESTAMP)


WORDS = [
    "date",
    "timestamp",
    "text",
    "interval",
    "key",
    "value",
    "left",
    "rows",
    "offset",
    "partition",
    "topic",
    "order",
]


@pytest.mark.parametrize("name", WORDS)
def test_words_of_sql_may_name_columns(script: Callable[[str], Script], name: str) -> None:
    found = script(
        f"CREATE STREAM S ({name} INT, Ts TIMESTAMP) WITH (time = 'Ts');"
        f"CREATE QUERY q AS SELECT a.{name}, a.{name} + 1 AS x FROM S a, S b WHERE a.{name} = b.{name} WINDOW 1 MINUTE"
    )
    assert found.queries[0].outputs[0].name == name


@pytest.mark.parametrize(
    ("plain", "grouped"),
    [
        ("T.Id = 1 OR T.Id = 2 AND T.Ok", "(T.Id = 1) OR ((T.Id = 2) AND T.Ok)"),
        ("NOT T.Ok AND T.Id = 1 OR T.Ok", "((NOT T.Ok) AND (T.Id = 1)) OR T.Ok"),
        ("NOT T.Id = 1", "NOT (T.Id = 1)"),
        ("T.Id + 1 > 2 * 3 - 4", "(T.Id + 1) > ((2 * 3) - 4)"),
        ("-T.Id * 2 = 4 / 2 % 3", "((-T.Id) * 2) = ((4 / 2) % 3)"),
        ("T.Value - 1 BETWEEN 2 + 3 AND 4 * 5 OR T.Ok", "((T.Value - 1) BETWEEN (2 + 3) AND (4 * 5)) OR T.Ok"),
        ("T.Zone || 'a' LIKE '%a' AND T.Id + 1 IN (2, 3)", "((T.Zone || 'a') LIKE '%a') AND ((T.Id + 1) IN (2, 3))"),
        ("T.Value + 1 IS NOT NULL AND T.Ok", "((T.Value + 1) IS NOT NULL) AND T.Ok"),
        ("T.Id + 1::BIGINT > 2", "(T.Id + (1::BIGINT)) > 2"),
    ],
)
def test_precedence(query: ReadQuery, plain: str, grouped: str) -> None:
    select = "SELECT T.Id FROM T, H WHERE T.Id = H.Id AND ({}) WINDOW 1 MINUTE"
    assert query(select.format(plain)) == query(select.format(grouped))
