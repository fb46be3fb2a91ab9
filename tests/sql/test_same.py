"""When two statements say the same."""

from __future__ import annotations

import pytest

from millstream.sql import same

QUERY = "CREATE QUERY q WITH (path = 'out') AS SELECT A.k AS key FROM A, B WHERE A.k = B.k AND A.s = 'a b' WINDOW 1 DAY"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" FROM ", "\n\tfrom\n"),
        (" WHERE ", " -- of both\n WHERE /* yes */ "),
        ("A.k = B.k", "a.K=b.`k`"),
        ("1 DAY", "1 day"),
        ("path", "PATH"),
    ],
)
def test_it_is_said_otherwise(old: str, new: str) -> None:
    assert same(QUERY, QUERY.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'a b'", "'a  b'"),
        ("'a b'", "'A b'"),
        ("'a b'", "'a b /* */'"),
        ("'out'", "'Out'"),
        ("AS key", "AS Key"),
        ("'a b'", '"a b"'),
        ("1 DAY", "1.5 DAY"),
        ("A.k = B.k", "B.k = A.k"),
        ("QUERY q", "QUERY Q"),
    ],
)
def test_something_else_is_said(old: str, new: str) -> None:
    assert not same(QUERY, QUERY.replace(old, new))


def test_what_does_not_parse_is_the_same_only_as_itself() -> None:
    assert same("CREATE QUERY (", "CREATE QUERY (")
    assert not same("CREATE QUERY (", "CREATE QUERY [")
