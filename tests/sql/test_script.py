"""A whole script: its statements in any order, SET, comments and ends of lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream import sql
from millstream.errors import Errors
from millstream.model import Script

ReadScript = Callable[[str], Script]

STREAM = "CREATE STREAM S (Id INT, Ts TIMESTAMP) WITH (time = 'Ts')"
QUERY = "CREATE QUERY q AS SELECT a.Id FROM S a, S b WHERE a.Id = b.Id WINDOW 1 MINUTE"
SET = "SET slicing = 'memory'"


@pytest.mark.parametrize("order", [(STREAM, QUERY, SET), (SET, QUERY, STREAM), (QUERY, SET, STREAM)])
def test_statements_may_stand_in_any_order(script: ReadScript, order: tuple[str, ...]) -> None:
    assert script(";\n".join(order)) == script(f"{STREAM}; {QUERY}; {SET}")


@pytest.mark.parametrize("text", [f"{STREAM};{QUERY};", f";;{STREAM};;{QUERY}", f"{STREAM};\r\n{QUERY};\r\n"])
def test_semicolons_and_ends_of_lines(script: ReadScript, text: str) -> None:
    assert len(script(text).queries) == 1


def test_comments_may_stand_anywhere(script: ReadScript) -> None:
    found = script(f"-- ; one\n/* ; two\n */ {STREAM} -- 'three\n; /* \" */ {QUERY} -- four")
    assert found == script(f"{STREAM};{QUERY}")


@pytest.mark.parametrize(
    ("statement", "name", "value"),
    [
        ("SET slicing = 'memory'", "slicing", "memory"),
        ("SET slicing = Memory", "slicing", "memory"),
        ("set SLICING = 'CPU'", "slicing", "cpu"),
        ("SET costs = paper", "costs", "paper"),
        ("SET system_overhead = 2.5", "system_overhead", 2.5),
        ("SET system_overhead = '0'", "system_overhead", 0.0),
    ],
)
def test_set(script: ReadScript, statement: str, name: str, value: object) -> None:
    assert getattr(script(statement).settings, name) == value


def test_queries_and_streams_keep_the_order_of_the_text(script: ReadScript) -> None:
    names = ["c", "a", "b"]
    streams = ";".join(
        STREAM.replace("S", name.upper(), 2).replace("CREATE " + name.upper(), "CREATE S") for name in ["S"]
    )
    queries = ";".join(QUERY.replace("QUERY q", f"QUERY {name}") for name in names)
    assert [query.name for query in script(f"{streams};{queries}").queries] == names


def test_what_is_right_is_read_beside_what_is_wrong() -> None:
    errors = Errors()
    found = sql.read(
        f"{STREAM}; CREATE NONSENSE; {QUERY}; SET slicing = 'slow'; {SET.replace('slicing', 'costs')}", errors
    )
    assert [query.name for query in found.queries] == ["q"]
    assert len(list(errors)) == 3


def test_a_query_over_a_broken_stream_is_left_out_without_a_word() -> None:
    errors = Errors()
    found = sql.read(f"CREATE STREAM S (Id INTT, Ts TIMESTAMP) WITH (time = 'Ts'); {QUERY}", errors)
    assert found.queries == ()
    assert [error.found for error in errors] == ['no type "INTT"']
