"""Guards: one evaluation for all queries that bound the same expression, with every query's own rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from millstream.compile import compile_script
from millstream.engine.shared_bounds import find_shared_bounds
from millstream.errors import QueryFailed
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


def test_fifty_bounds_are_evaluated_about_once() -> None:
    pairs = len(naive(compile_script(STREAMS + query("q", "A.k >= 0", "60 SECONDS")).script.queries[0], ROWS))
    counting = Counting()
    script = STREAMS + "".join(
        query(f"q{n}", f"total(A.v, B.v) > {188 + n / 10}", f"{n} SECONDS") for n in range(1, 51)
    )
    found = run(script, ROWS, functions={"total": counting.function()})
    assert pairs > 10_000
    assert counting.rows < 1.5 * pairs
    assert 0 < found["q50"].num_rows < pairs / 100
    plain = script.replace("total(A.v, B.v)", "A.v + B.v")
    for one in compile_script(plain).script.queries:
        expected = sorted((row["a"], row["b"]) for row in naive(one, ROWS))
        assert sorted(zip(*found[one.name].to_pydict().values(), strict=True)) == expected


@pytest.mark.parametrize(
    ("conditions", "weakest"),
    [
        (["A.v + B.v > 7", "A.v + B.v >= 9", "8 < A.v + B.v"], 7),
        (["A.v + B.v < 7", "A.v + B.v <= 9.5", "8 > A.v + B.v"], 9.5),
        (["A.v + B.v > 7", "A.v + B.v < 9"], None),
        (["A.v + B.v > 7", "A.v - B.v > 7"], None),
        (["A.v + B.v > 7", "A.v + B.v > 7"], None),
        (["A.v > B.v", "A.v > B.v + 1"], None),
    ],
)
def test_a_guard_is_the_weakest_of_bounds_on_the_same_expression(conditions: list[str], weakest: float | None) -> None:
    script = STREAMS + "".join(query(f"q{n}", one, "9 SECONDS") for n, one in enumerate(conditions))
    plan = compile_script(script)
    shared = find_shared_bounds(plan.chains[0].members, {})
    if weakest is None:
        assert not shared
        return
    assert len(set(shared.values())) == 1
    assert len(shared) == len(conditions)
    values = naive(plan.script.queries[0], ROWS)
    assert values
    # Nothing that a query wants is stopped, even at the bound itself.
    for one in plan.script.queries:
        rows = run(script, ROWS)[one.name].to_pydict().values()
        assert sorted(zip(*rows, strict=True)) == sorted((row["a"], row["b"]) for row in naive(one, ROWS))


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
