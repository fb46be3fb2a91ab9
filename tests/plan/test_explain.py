"""Plans as people and machines read them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.lab.workloads.windows import TABLE_4, window_script
from millstream.plan import Plan
from millstream.plan.explain import as_dot, as_json, as_text

EXAMPLE = resources.files("millstream").joinpath("examples/datacentre.sql").read_text(encoding="utf-8")
JOIN = "SELECT A.k FROM A, B WHERE A.k = B.k"


@pytest.mark.parametrize("slicing", ["cpu", "memory"])
def test_the_example(slicing: str, golden: Callable[[str, str], None]) -> None:
    golden(f"explain_datacentre_{slicing}.txt", as_text(compile_script(EXAMPLE, settings={"slicing": slicing})))


def test_the_example_with_a_budget(golden: Callable[[str, str], None]) -> None:
    plan = compile_script(EXAMPLE, settings={"budget": "100 milliseconds"})
    golden("explain_datacentre_budget.txt", as_text(plan))


def test_the_example_as_a_graph(golden: Callable[[str, str], None]) -> None:
    golden("explain_datacentre.dot", as_dot(compile_script(EXAMPLE)))


def test_gaps_self_joins_several_chains_and_one_way_windows(
    planned: Callable[..., Plan], golden: Callable[[str, str], None]
) -> None:
    plan = planned(
        f"{JOIN} AND B.Ts BETWEEN A.Ts + INTERVAL '5' MINUTE AND A.Ts + INTERVAL '10' MINUTE",
        f"{JOIN} AND A.v > 1 AND A.Ts > B.Ts AND A.Ts <= B.Ts + INTERVAL '90' SECOND AND A.v * 2 < B.v",
        "SELECT x.k FROM A x, A y WHERE x.k = y.k AND x.j LIKE 'a%' WINDOW 2.5 SECONDS",
        "SELECT A.k FROM A, B WHERE A.k = B.k AND upper(A.j) = B.j WINDOW A 1 HOUR, B 1 MILLISECOND",
    )
    golden("explain.txt", as_text(plan))


def test_pools_and_walks_of_several_streams(golden: Callable[[str, str], None]) -> None:
    streams = "".join(
        f"CREATE STREAM {name} (k INT, j STRING, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts', rate = 80, keys = 40);\n"
        for name in "ABC"
    )
    selects = (
        f"{JOIN} WINDOW 1 MINUTE",
        "SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.k = C.k AND C.v > 1 WINDOW 1 MINUTE",
        "SELECT A.k FROM A, B, C WHERE A.k = C.k AND A.k = B.k AND A.v + B.v > C.v WINDOW 10 SECONDS",
        "SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.j = C.j WINDOW A 1 MINUTE, B 5 SECONDS, C 2 MINUTES",
        "SELECT x.k FROM A x, A y, B WHERE x.k = y.k AND y.k = B.k AND x.Ts <= y.Ts AND y.Ts <= B.Ts"
        " AND B.Ts <= x.Ts + INTERVAL '1' MINUTE",
        "SELECT A.k FROM A, B, C WHERE A.v < B.v AND B.v < C.v WINDOW 1 SECOND",
    )
    queries = "".join(f"CREATE QUERY q{number} AS {select};\n" for number, select in enumerate(selects, 1))
    plan = compile_script(streams + queries)
    golden("explain_pools.txt", as_text(plan))
    golden("explain_pools.json", as_json(plan))
    golden("explain_pools.dot", as_dot(plan))


def test_a_script_without_queries(planned: Callable[..., Plan]) -> None:
    assert "No queries." in as_text(planned())
    nothing = {"chains": [], "pools": [], "memory_rows": 0, "memory_rows_per_chain": 0}
    assert json.loads(as_json(planned())) == nothing


def test_json_has_the_documented_shape() -> None:
    (chain,) = json.loads(as_json(compile_script(EXAMPLE)))["chains"]
    assert set(chain) == {"streams", "key", "slices", "walks", "memory_rows", "cpu_cost"}
    assert chain["streams"] == ["Humidity", "Temperature"]
    assert chain["key"] == ["Humidity.LocationId = Temperature.LocationId"]
    for piece in chain["slices"]:
        assert set(piece) == {"lo_us", "hi_us", "cuts_us", "queries", "access"}
        assert piece["lo_us"] < piece["hi_us"]
        assert set(piece["access"]) == {"left", "right"}


def test_names_cannot_break_the_graph(planned: Callable[..., Plan]) -> None:
    graph = as_dot(planned("""SELECT A.k FROM A, B WHERE A.j = 'say "hi" \\\\' || B.j WINDOW 1 SECOND"""))
    unescaped = re.sub(r"\\.", "", graph)
    assert unescaped.count('"') % 2 == 0
    assert 'say "hi"' not in graph


def test_a_thousand_queries_stay_readable() -> None:
    text = as_text(compile_script(window_script(range(1, 1001))))
    assert max(map(len, text.splitlines())) < 140
    assert "and 980 more" in text


@settings(max_examples=50, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(TABLE_4)), st.sampled_from(["cpu", "memory"]))
def test_any_order_of_writing_gives_the_same_plan(order: random.Random, windows: str, slicing: str) -> None:
    """Statements shuffled, FROM and equalities turned round."""
    between = "B.Ts BETWEEN A.Ts - INTERVAL '3' SECOND AND A.Ts + INTERVAL '8' SECOND"
    selected = f"SELECT A.Id FROM A, B WHERE A.Id = B.Id AND A.Value > 1 AND B.Value < 9 AND {between}"
    script = f"{window_script(TABLE_4[windows])} CREATE QUERY s AS {selected};"
    statements = [part.strip() for part in script.split(";") if part.strip()]
    order.shuffle(statements)
    turned = [
        part.replace("FROM A, B", "FROM B, A").replace("A.Id = B.Id", "B.Id = A.Id") if order.random() < 0.5 else part
        for part in statements
    ]
    shuffled = compile_script(";\n".join(turned), settings={"slicing": slicing})
    straight = compile_script(script, settings={"slicing": slicing})
    assert as_json(shuffled) == as_json(straight)
    assert as_text(shuffled) == as_text(straight)
