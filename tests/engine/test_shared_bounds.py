"""Guards: one evaluation for all queries that bound the same expression, with every query's own rows."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.shared_bounds import SharedBound, find_shared_bounds
from millstream.errors import QueryFailed
from millstream.model.expr import Column
from millstream.model.functions import Function, function
from millstream.testing import naive, run

START = datetime(2024, 1, 1, tzinfo=UTC)
STREAMS = """
CREATE STREAM A (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM B (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
"""


def query(name: str, condition: str, window: str) -> str:
    return (
        f"CREATE QUERY {name} AS SELECT A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k AND {condition} WINDOW {window};"
    )


def some_rows(seed: int, count: int) -> list[dict[str, Any]]:
    chance = np.random.default_rng(seed)
    values = [None if value > 98 else float(value) for value in chance.integers(0, 100, count)]
    return [
        {"k": int(chance.integers(0, 4)), "v": value, "Ts": START + timedelta(seconds=int(chance.integers(0, 60)))}
        for value in values
    ]


ROWS = {"A": some_rows(1, 300), "B": some_rows(2, 300)}


class Counting:
    """The sum of two columns, and of how many rows it was asked for."""

    def __init__(self, most: float = float("inf")) -> None:
        self.rows, self.most = 0, most

    def function(self) -> Function:
        @function("DOUBLE", "DOUBLE", "DOUBLE")
        def total(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            self.rows += len(a)
            found = a + b
            if np.any(found > self.most):
                raise ValueError("too much")
            return found

        return total


def all_pairs(window: int) -> list[tuple[float | None, float | None, float]]:
    """Both values and the seconds between them, of all pairs of a key that lie less than a window apart."""
    script = STREAMS + query("q", "A.k >= 0", f"{window} SECONDS").replace("B.v AS b", "B.v AS b, A.Ts AS t, B.Ts AS u")
    found = naive(compile_script(script).script.queries[0], ROWS)
    return [(row["a"], row["b"], abs((row["t"] - row["u"]).total_seconds())) for row in found]


def test_fifty_bounds_are_evaluated_about_once() -> None:
    pairs = all_pairs(60)
    counting = Counting()
    script = STREAMS + "".join(
        query(f"q{n}", f"total(A.v, B.v) > {188 + n / 10}", f"{n} SECONDS") for n in range(1, 51)
    )
    found = run(script, ROWS, functions={"total": counting.function()})
    assert len(pairs) > 10_000
    assert counting.rows < 1.5 * len(pairs)
    assert 0 < found["q50"].num_rows < len(pairs) / 100
    for n in range(1, 51):
        near = [(a, b) for a, b, apart in pairs if apart < n and a is not None and b is not None]
        expected = sorted((a, b) for a, b in near if a + b > 188 + n / 10)
        assert sorted(zip(*found[f"q{n}"].to_pydict().values(), strict=True)) == expected


MIXED = "".join(
    f"CREATE STREAM {name} (k INT, v DOUBLE, n INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB"
)
VALUES: list[tuple[float | None, int | None, str | None]] = [
    *((value, None, "a") for value in (math.nan, math.inf, -math.inf, None)),
    *((float(n), n, chr(ord("a") + n)) for n in range(6)),
    (2.5, -3, ""),
    (-0.0, 2, None),
]
PAIRS = list(product(VALUES, VALUES))
COLUMNS = {
    (source, name): pa.array([pair[source][place] for pair in PAIRS], kind)
    for source in (0, 1)
    for place, (name, kind) in enumerate((("v", pa.float64()), ("n", pa.int32()), ("s", pa.string())))
}
OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def look(column: Column) -> pa.Array:
    return COLUMNS[column.source, column.name]


def placed(value: Any) -> Any:
    """Among all of its type: NaN is the greatest number."""
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def sums(place: int) -> list[Any]:
    """What `A.x + B.x` or `concat(A.s, B.s)` is for every pair."""
    both = [(a[place], b[place]) for a, b in PAIRS]
    return [None if a is None or b is None else a + b for a, b in both]


EXPRESSIONS = {"A.v + B.v": sums(0), "A.n + B.n": sums(1), "concat(A.s, B.s)": sums(2)}
whole, real, text = st.integers(-2, 8), st.sampled_from([-1.5, 2.5, 4.0, 7.25]), st.sampled_from(["", "b", "bb", "dz"])
bounds = st.one_of(
    st.tuples(st.just("A.v + B.v"), st.sampled_from([*OPERATORS]), whole | real),
    st.tuples(st.just("A.n + B.n"), st.sampled_from([*OPERATORS]), whole | real),
    st.tuples(st.just("concat(A.s, B.s)"), st.sampled_from([*OPERATORS]), text),
)
Bound = tuple[str, str, Any]


def passing(bound: Bound) -> set[int]:
    expression, op, constant = bound
    values = enumerate(EXPRESSIONS[expression])
    return {row for row, value in values if value is not None and OPERATORS[op](placed(value), placed(constant))}


def guarded(conditions: Sequence[str]) -> dict[str, SharedBound]:
    streams = MIXED + "".join(query(f"q{n}", one, "9 SECONDS") for n, one in enumerate(conditions))
    (chain,) = compile_script(streams).chains
    return find_shared_bounds(chain.members, {})


@given(st.lists(st.lists(bounds, min_size=1, max_size=2, unique=True), min_size=2, max_size=6))
def test_a_guard_is_the_weakest_bound_of_its_queries(queries: list[list[Bound]]) -> None:
    """It stops nothing that one of them wants, be there NaN, nulls or other types, and all that none can want."""
    shared = guarded([" AND ".join(f"{x} {op} {c!r}" for x, op, c in some) for some in queries])
    behind: dict[SharedBound, list[int]] = {}
    for name, bound in shared.items():
        behind.setdefault(bound, []).append(int(name[1:]))
    for bound, members in behind.items():
        passed = set(bound.passing(look, len(PAIRS)).tolist())
        for number in members:
            assert set.intersection(*map(passing, queries[number])) <= passed
        # One bound of each query, on one expression and side, and the weakest of them.
        weakest = [
            set.union(*(passing((x, f"{side}=", constant)) for _, constant in chosen))
            for x, side in product(EXPRESSIONS, "<>")
            for chosen in product(*(_of(queries[number], x, side) for number in members))
        ]
        assert passed in weakest


def _of(query: list[Bound], expression: str, side: str) -> list[tuple[str, Any]]:
    return [(op, constant) for x, op, constant in query if x == expression and op[0] == side]


@pytest.mark.parametrize(
    ("conditions", "weakest"),
    [
        (["A.v + B.v > 7", "A.v + B.v >= 9", "8 < A.v + B.v"], ("A.v + B.v", ">=", 7)),
        (["A.v + B.v < 7", "A.v + B.v <= 9.5", "8 > A.v + B.v"], ("A.v + B.v", "<=", 9.5)),
        (["A.n + B.n > 2", "A.n + B.n > 1"], ("A.n + B.n", ">=", 1)),
        (["concat(A.s, B.s) < 'b'", "concat(A.s, B.s) <= 'dz'"], ("concat(A.s, B.s)", "<=", "dz")),
        (["A.v + B.v > 7", "A.v + B.v < 9"], None),
        (["A.v + B.v > 7", "A.v - B.v > 7"], None),
        (["A.v + B.v > 7", "A.v + B.v > 7"], None),
        (["A.v > B.v", "A.v > B.v + 1"], None),
        (["A.n + B.n > 7", "A.n + B.n > 7.5"], None),
        (["A.v + B.v > CAST('NaN' AS DOUBLE)", "A.v + B.v > 7"], None),
    ],
)
def test_bounds_that_have_a_guard_and_others(conditions: list[str], weakest: Bound | None) -> None:
    shared = guarded(conditions)
    if weakest is None:
        assert not shared
        return
    assert len(shared) == len(conditions)
    (bound,) = set(shared.values())
    assert set(bound.passing(look, len(PAIRS)).tolist()) == passing(weakest)


def test_the_hull_of_a_guard_covers_the_windows_of_its_queries() -> None:
    streams = STREAMS + query("near", "A.v + B.v > 7", "2 SECONDS") + query("far", "A.v + B.v > 8", "9 SECONDS")
    streams += query("other", "A.v <> B.v", "60 SECONDS")
    (chain,) = compile_script(streams).chains
    shared = find_shared_bounds(chain.members, {})
    (far,) = (member for member in chain.members if member.name == "far")
    assert set(shared) == {"near", "far"}
    assert shared["near"].hull == far.interval


def test_queries_behind_a_guard_get_their_own_rows_at_the_bound_too() -> None:
    conditions = ["A.v + B.v > 7", "A.v + B.v >= 9", "8 < A.v + B.v"]
    script = STREAMS + "".join(query(f"q{n}", one, "9 SECONDS") for n, one in enumerate(conditions))
    small = [row | {"v": row["v"] and row["v"] % 10} for row in ROWS["A"]]
    rows = {"A": small, "B": [row | {"Ts": row["Ts"] + timedelta(seconds=1)} for row in small[:100]]}
    found = run(script, rows)
    for one in compile_script(script).script.queries:
        expected = sorted((row["a"], row["b"]) for row in naive(one, rows))
        assert expected
        assert sorted(zip(*found[one.name].to_pydict().values(), strict=True)) == expected


def test_a_guard_that_fails_blames_the_query_whose_pairs_fail() -> None:
    counting = Counting(most=190)
    script = STREAMS + query("wide", "total(A.v, B.v) > 150", "30 SECONDS")
    script += query("narrow", "total(A.v, B.v) > 160", "1 SECOND")
    near = [{"k": 1, "v": 80.0, "Ts": START}, {"k": 1, "v": 99.0, "Ts": START + timedelta(seconds=20)}]
    with pytest.raises(QueryFailed) as failure:
        run(script, {"A": near[:1], "B": [near[0], near[1] | {"v": 119.0}]}, functions={"total": counting.function()})
    assert failure.value.queries == ("wide",)


def test_rows_outside_the_windows_of_guarded_queries_are_not_looked_at() -> None:
    counting = Counting()
    script = STREAMS + "".join(query(f"q{n}", f"total(A.v, B.v) > {190 + n}", "2 SECONDS") for n in range(4))
    script += query("wide", "A.k = 3", "60 SECONDS")
    near = compile_script(STREAMS + query("q", "A.k >= 0", "2 SECONDS"))
    pairs = len(naive(near.script.queries[0], ROWS))
    run(script, ROWS, functions={"total": counting.function()})
    assert pairs <= counting.rows < 1.2 * pairs
