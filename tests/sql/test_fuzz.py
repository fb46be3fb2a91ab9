"""Whatever the text, a script compiles or is refused in words: no other exception ever comes out."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.errors import ScriptErrors

STREAMS = """\
CREATE STREAM A (Id INT, Name STRING, V DECIMAL(10, 2), Ok BOOLEAN, P STRUCT<x: DOUBLE, y: ARRAY<INT>>, Ts TIMESTAMP,
  D DATE) WITH (time = 'Ts', delay = '5 seconds', rate = 10.5, keys = 3, format = 'mine', 'kafka.x' = true, a.b = -1);
CREATE STREAM B (Id BIGINT, Name STRING, Ts TIMESTAMP) WITH (time = Ts, idle = '1 minute');
"""
QUERIES = [
    "CREATE QUERY q AS SELECT *, A.Name || 'x' AS n, CASE WHEN A.Ok THEN 1 ELSE 2.5 END c FROM A JOIN B USING (Id)"
    " WHERE A.Ts - B.Ts BETWEEN INTERVAL '-5' MINUTE AND INTERVAL 30 SECONDS AND A.D > '2024-01-01';",
    "CREATE QUERY r AS SELECT x.Id, upper(y.Name), -x.V / 3 % 2 m FROM A x, B AS y WHERE x.Id = y.Id AND x.P.x > .5"
    " AND coalesce(x.Name, y.Name) <> 'it''s' /* c */ WINDOW x 5 MINUTES, y '90 seconds'; -- end",
    "CREATE QUERY s WITH (path = 'o') AS SELECT `a`.\"Id\" FROM A a CROSS JOIN B b WHERE a.Id::BIGINT = b.Id AND NOT"
    " (a.Name LIKE 'x%' OR a.Id IN (1, 2) OR b.Name IS NOT NULL) WINDOW 100 ROWS; SET slicing = 'memory';",
]
TOKENS = re.compile(r"'[^']*'|\w+|\s+|.", re.DOTALL)
WORDS_TEXT = r"""
( ) , ; . * + - / % = < > <> || :: : [ ] { } ' " ` -- /* */ /*+ @ ? $1 # \ ~ ^ & | ! := -> => << <=> "" '' {{ {% {#
SELECT FROM WHERE WINDOW JOIN ON USING AS AND OR NOT IN LIKE BETWEEN IS NULL CASE WHEN THEN ELSE END CREATE STREAM
QUERY SET WITH CAST INTERVAL EXTRACT DATE TIMESTAMP ARRAY MAP STRUCT DECIMAL INT TRUE DISTINCT GROUP BY ORDER LIMIT
UNION OVER LEFT OUTER CROSS NATURAL LATERAL EXISTS VALUES PIVOT ESCAPE A B Id Name Ts count abs if MINUTE ROWS 1 1.5
1e5 1e999 0x1 99999999999999999999 'x' N'x' é 😀
"""
WORDS = [*WORDS_TEXT.split(), "'5 minutes'", "\0", "\t", "\r", "\n", "\u2028"]
STARTS = [
    "",
    "CREATE ",
    f"{STREAMS} CREATE QUERY q AS SELECT ",
    f"{STREAMS} CREATE QUERY q AS SELECT A.Id FROM A, B WHERE ",
]


def check(script: str) -> None:
    try:
        compile_script(script)
    except ScriptErrors as found:
        lines = script.split("\n")
        for error in found.errors:
            assert all((error.found, error.valid, error.todo))
            assert 1 <= error.where.line <= len(lines)
            assert 1 <= error.where.column <= len(lines[error.where.line - 1]) + 1


Edit = tuple[str, int, int, str]
KINDS = st.sampled_from(["drop", "double", "swap", "insert"])
EDITS = st.lists(
    st.tuples(KINDS, st.integers(0), st.integers(0), st.sampled_from(WORDS)),
    min_size=1,
    max_size=6,
)


def edited(pieces: list[str], edits: list[Edit]) -> str:
    for edit, first, second, word in edits:
        i, j = first % len(pieces), second % len(pieces)
        if edit == "drop":
            pieces[i] = ""
        elif edit == "double":
            pieces[i] += pieces[j]
        elif edit == "swap":
            pieces[i], pieces[j] = pieces[j], pieces[i]
        else:
            pieces[i] += f" {word} "
    return "".join(pieces)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(QUERIES), EDITS)
def test_queries_with_tokens_out_of_place(query: str, edits: list[Edit]) -> None:
    check(STREAMS + edited(TOKENS.findall(query), edits))


@settings(max_examples=100, deadline=None)
@given(EDITS)
def test_streams_with_tokens_out_of_place(edits: list[Edit]) -> None:
    check(edited(TOKENS.findall(STREAMS), edits) + QUERIES[0])


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(QUERIES), EDITS)
def test_queries_with_letters_out_of_place(query: str, edits: list[Edit]) -> None:
    check(STREAMS + edited(list(query), edits))


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(STARTS), st.lists(st.sampled_from(WORDS), max_size=20))
def test_soups_of_words(start: str, words: list[str]) -> None:
    check(start + " ".join(words))


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text(text: str) -> None:
    check(text)


def test_the_scripts_are_right_before_they_are_broken() -> None:
    assert len(compile_script(STREAMS + "".join(QUERIES[:2])).members) == 2
