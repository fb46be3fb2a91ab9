"""The spine: shared = alone = naive = DuckDB, for random streams, queries, plans, policies, budgets and batchings.

Most queries share a join predicate; some have another, some none but an inequality, and some join a stream with itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.backlog import Budget
from millstream.model.settings import POLICY_NAMES
from millstream.testing import naive, run

PARTS = 4
"""So that several processes share the work."""
Rows = list[dict[str, Any]]
START = datetime(2024, 1, 1, tzinfo=UTC)
KEYS = {
    "INT": st.sampled_from([1, 1, 1, 2, 0, None]),
    "BIGINT": st.sampled_from([1, 1, 1, 2**62, -(2**62), None]),
    "STRING": st.sampled_from(["a", "a", "a", "aa", "", None]),
    "DOUBLE": st.sampled_from([0.0, 0.0, -0.0, 1.5, None]),
    "DECIMAL(9, 2)": st.sampled_from([Decimal("1.00"), Decimal("1.00"), Decimal("2.50"), None]),
    "DATE": st.sampled_from([date(2024, 1, 1), date(2024, 1, 1), date(1969, 12, 31), None]),
    "BOOLEAN": st.sampled_from([True, True, False, None]),
}
"""Hot keys, with now and then another one or a null."""
PAYLOADS = {
    "STRUCT<x: INT, y: STRING>": st.sampled_from([None, {"x": 1, "y": None}, {"x": None, "y": "b"}]),
    "ARRAY<INT>": st.sampled_from([None, [], [1, None, 3]]),
    "STRING": st.sampled_from([None, "", "some text", "wide " * 2000]),
    "BOOLEAN": st.sampled_from([None, True, False]),
    "DECIMAL(9, 2)": st.sampled_from([None, Decimal("3.14")]),
}
SELECTIONS = (
    "{}.v > 0",
    "{}.v IS NULL",
    "NOT {}.v >= 1.5",
    "{}.v IN (0.0, 1.5)",
    "({}.v < 1 OR {}.n = 1)",
    "{}.n % 2 = 1",
)
RESIDUALS = (
    "A.v + B.v > 1",
    "A.v + B.v >= 1.5",
    "A.v + B.v > 0",
    "A.v + B.v < 2.5",
    "A.v + B.v <= 1",
    "A.n <> B.n",
    "(A.v IS NULL OR B.v < 2)",
    "CASE WHEN A.n > B.n THEN A.v ELSE B.v END > 0.5",
    "coalesce(A.v, B.v, 0) = 0",
    "A.m + B.m > 3",
    "A.m * B.m <= A.n",
    "abs(A.n - B.n) <= 1",
)


DECIMALS = "A.m * B.m AS p, A.m - B.n AS d, A.m AS m, B.Ts AS u"


def maybe(options: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    """One of them a third of the time."""
    return st.sampled_from([False, False, True]).flatmap(
        lambda yes: st.tuples(st.sampled_from(options)).map(list) if yes else st.just([])
    )


@dataclass(frozen=True)
class Case:
    script: str
    rows: dict[str, list[Rows]]
    settings: dict[str, str]
    budget: Budget | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    key_types = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=draw(st.sampled_from([1, 1, 2]))))
    payload = draw(st.sampled_from(sorted(PAYLOADS)))
    disorder = draw(st.sampled_from([0, 0, 2, 7]))
    columns = ", ".join(
        [*(f"k{i} {kind}" for i, kind in enumerate(key_types)), "v DOUBLE", "n INT", "m DECIMAL(4, 2)", f"p {payload}"]
    )
    script, rows = [], {}
    for name in "AB":
        # By the paper's costs, a stream with one key is scanned and one with a thousand keys is not.
        hints = f"rate = {draw(st.sampled_from([1, 80]))}, keys = {draw(st.sampled_from([1, 2, 1000]))}"
        delay = f"delay = '{disorder} seconds'"
        script.append(f"CREATE STREAM {name} ({columns}, Ts TIMESTAMP) WITH (time = 'Ts', {delay}, {hints});")
        rows[name] = draw(batches(key_types, payload, disorder))
    join = " AND ".join(f"A.k{i} = B.k{i}" for i in range(len(key_types)))
    joins = [join, join, join, "A.k0 = B.k0", "A.n = B.n", "A.n < B.n", "A.n + 1 = B.n", "abs(A.n) = B.n", "A.m = B.n"]
    for number in range(draw(st.integers(1, 4))):
        select = draw(selects(draw(st.sampled_from(joins))))
        if draw(st.sampled_from([False, False, False, True])):
            select = select.replace("FROM A, B", "FROM A, A B").replace("FROM B, A", "FROM A B, A")
        script.append(f"CREATE QUERY q{number} AS {select};")
    chosen = {
        "slicing": draw(st.sampled_from(["cpu", "memory"])),
        "costs": draw(st.sampled_from(["calibrated", "paper"])),
        "system_overhead": draw(st.sampled_from(["0", "100"])),
        "policy": draw(st.sampled_from(POLICY_NAMES)),
        "fairness": draw(st.sampled_from(["none", "oldest", "dynamic"])),
        "queue_memory": draw(st.sampled_from(["256", "0.0005"])),
        "order": draw(st.sampled_from(["eager", "strict"])),
        "budget": draw(st.sampled_from(["0 seconds", "1 second"])),
    }
    budget = draw(st.sampled_from([None, Budget(units=1), Budget(units=3), Budget(seconds=0), Budget(seconds=60)]))
    return Case("\n".join(script), rows, chosen, budget)


@st.composite
def batches(draw: st.DrawFn, key_types: list[str], payload: str, disorder: int) -> list[Rows]:
    """Batches whose event times fall back no further than the stream's delay; some are empty, some streams silent."""
    found, clock, greatest = [], 0, 0
    for _ in range(draw(st.sampled_from([3, 4, 2, 1, 0]))):
        floor = greatest - disorder
        batch = []
        for _ in range(draw(st.sampled_from([5, 8, 3, 1, 0]))):
            clock += draw(st.sampled_from([0, 0, 1, 3]))
            second = max(floor, clock - draw(st.integers(0, disorder)), 0)
            greatest = max(greatest, second)
            row: dict[str, Any] = {f"k{i}": draw(KEYS[kind]) for i, kind in enumerate(key_types)}
            row |= {"v": draw(st.sampled_from([None, -1.0, 0.0, 0.5, 1.5])), "n": draw(st.integers(-2, 2))}
            row["m"] = draw(st.sampled_from([None, Decimal("1.05"), Decimal("1.00"), Decimal("-99.99")]))
            row |= {"p": draw(PAYLOADS[payload]), "Ts": START + timedelta(seconds=second)}
            batch.append(row)
        found.append(batch)
    return found


@st.composite
def selects(draw: st.DrawFn, join: str) -> str:
    conditions = [join]
    for side in "AB":
        conditions += [one.format(side, side) for one in draw(maybe(SELECTIONS))]
    conditions += draw(maybe(RESIDUALS))
    window = f" WINDOW {draw(st.integers(1, 12))} SECONDS"
    if draw(st.booleans()):
        first = draw(st.integers(-9, 8))
        last = first + draw(st.integers(0, 9))
        closed = first == last
        low = ">=" if closed else draw(st.sampled_from([">", ">="]))
        high = "<=" if closed else draw(st.sampled_from(["<", "<="]))
        conditions.append(
            f"B.Ts {low} A.Ts + INTERVAL '{first}' SECOND AND B.Ts {high} A.Ts + INTERVAL '{last}' SECOND"
        )
        window = ""
    columns = draw(
        st.sampled_from(["*", "A.v AS a, B.v AS b, A.Ts AS t", "B.p, A.p AS q, A.n + B.n AS s, B.Ts AS u", DECIMALS])
    )
    sources = draw(st.sampled_from(["A, B", "B, A"]))
    return f"SELECT {columns} FROM {sources} WHERE {' AND '.join(conditions)}{window}"


@pytest.mark.parametrize("_part", range(PARTS))
@settings(
    max_examples=max(int(os.environ.get("MILLSTREAM_EXAMPLES", "2000")) // PARTS, settings().max_examples - 100),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(case=cases())
def test_shared_equals_alone_equals_naive_equals_duckdb(
    case: Case, _part: int, duck: Callable[..., Rows], same_rows: Callable[[Rows, Rows], None]
) -> None:
    everything = {name: [row for batch in parts for row in batch] for name, parts in case.rows.items()}
    plan = compile_script(case.script)
    shared = run(case.script, case.rows, settings=case.settings, budget=case.budget)
    statements = case.script.split("\n")
    for chain in compile_script(case.script, settings=case.settings).chains:
        event(f"{chain.access.left} and {chain.access.right}")
    for query in plan.script.queries:
        found = shared[query.name].to_pylist()
        event("rows" if found else "no rows")
        same_rows(found, naive(query, everything))
        same_rows(found, duck(query, everything))
        alone = "\n".join([*statements[:2], *(s for s in statements if s.startswith(f"CREATE QUERY {query.name} "))])
        isolated = run(alone, case.rows, settings=case.settings)[query.name].to_pylist()
        if case.settings["order"] == "strict":
            assert found == isolated
        else:
            same_rows(found, isolated)


@settings(
    max_examples=int(os.environ.get("MILLSTREAM_SPARK_EXAMPLES", "5")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink a case would take Spark many minutes
)
@given(case=cases(), slots=st.sampled_from(["1", "2", "3"]), results=st.sampled_from(["own", "shared"]))
def test_the_same_on_spark(
    case: Case, slots: str, results: str, duck: Callable[..., Rows], same_rows: Callable[[Rows, Rows], None]
) -> None:
    everything = {name: [row for batch in parts for row in batch] for name, parts in case.rows.items()}
    # A budget of a microsecond is spent after one unit, so that every batch leaves the others for later.
    budget = "0 seconds" if case.budget is None else "1 microsecond"
    chosen = {**case.settings, "slots": slots, "results": results, "budget": budget}
    found = run(case.script, case.rows, runner="spark", settings=chosen)
    for query in compile_script(case.script).script.queries:
        rows = found[query.name].to_pylist()
        same_rows(rows, naive(query, everything))
        same_rows(rows, duck(query, everything))
