"""What a row does not need is not computed for it, and however many options there are, membership means the same."""

from __future__ import annotations

import time
from typing import Any

import pytest

import millstream
from millstream.errors import QueryFailed
from millstream.testing import run


def test_a_predicate_that_may_raise_sees_only_rows_that_the_others_let_pass(example: Any) -> None:
    script = example.script("A.i").replace("WHERE A.k", "WHERE CAST(A.s AS INT) = 0 AND A.s LIKE '0%' AND A.k")
    rows = {
        "A": [{**row, "s": text} for row, text in zip(example.rows["A"], ("0", "x", "00", "1"), strict=True)],
        "B": example.rows["B"],
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
def test_many_options_are_looked_up_as_few_are_compared(example: Any, column: str, options: list[str]) -> None:
    alike = " OR ".join(f"{column} = {option}" for option in options)
    assert example.values(f"{column} IN ({', '.join(options)})") == example.values(alike)


@pytest.mark.parametrize(
    "condition",
    ["nullif(A.i, B.i) > CAST(A.s AS INT)", "CAST(A.s AS INT) = nullif(A.i, B.i)", "NOT (A.i = CAST(A.s AS INT))"],
)
def test_a_condition_that_is_null_fails_for_no_row(example: Any, condition: str) -> None:
    """However its sides are put in order."""
    row = {"k": 1, "i": None, "d": None, "s": "x", "b": None, "m": None, "p": None, "Ts": example.moment}
    rows = {"A": [row], "B": [row]}
    assert run(example.script("A.i").replace("WINDOW", f"AND {condition} WINDOW"), rows)["q"].num_rows == 0
    with pytest.raises(QueryFailed, match="'x' cannot be CAST"):
        run(example.script("CAST(A.s AS INT) + A.i"), rows)


def test_what_fails_after_many_nulls_takes_little_time(example: Any) -> None:
    """Each level is tried on all rows once, not once for each try of the level above."""
    started = time.perf_counter()
    with pytest.raises(QueryFailed):
        example.values(f"{'A.i + (' * 45}CAST(A.s AS INT){')' * 45}")
    assert time.perf_counter() - started < 5


WAYS = [
    "A.i IN (7, 0)",
    "A.i IN (7, B.i, NULL)",
    "CASE WHEN A.i > 0 THEN A.i + 1 WHEN A.b THEN 5 END",
    "coalesce(A.i + 1, B.i, 9)",
    "nullif(A.i + 0, 7)",
    "A.b AND A.i + 1 > 0",
    "A.b OR A.i + 1 > 0",
]


@pytest.mark.parametrize("expression", WAYS)
def test_at_once_and_in_turn_give_the_same(example: Any, expression: str) -> None:
    """A user's function makes each branch see only the rows that take it."""
    same = millstream.function("INT", "INT", name="same")(lambda column: column)
    in_turn = expression.replace("A.i", "same(A.i)")
    assert example.values(in_turn, same=same) == example.values(expression)


def test_a_branch_is_called_for_the_rows_that_take_it(example: Any) -> None:
    seen: list[list[Any]] = []

    def note(column: Any) -> Any:
        seen.append(sorted(column.tolist()))
        return column

    noted = millstream.function("INT", "INT", name="noted")(note)
    example.values(
        "CASE WHEN A.i > 0 THEN noted(A.i) WHEN A.i < 0 THEN 0 ELSE noted(coalesce(A.i, 5)) END", noted=noted
    )
    assert seen == [[7], [0, 5]]
    seen.clear()
    example.values("coalesce(A.i, noted(A.k))", noted=noted)
    assert seen == [[3]]
    seen.clear()
    example.values("A.b AND noted(A.k) >= 0", noted=noted)
    assert seen == [[0, 2, 3]], "false is false, whatever the other says"


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("CAST(A.s AS INT) > 0 AND A.s = '7'", [False, False, False, None]),
        ("CAST(A.s AS INT) > 0 OR A.s <> '7'", [True, True, True, None]),
    ],
)
def test_what_may_raise_comes_last_wherever_it_is_written(example: Any, expression: str, wanted: list[Any]) -> None:
    assert example.values(expression) == wanted
