"""Queries over two to five streams come and go between batches, and processes are started anew.

A query that is added sees results with at least one row that arrived since, joined with the state that is there. What
is there does not depend on how work is deferred, done and divided.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings

from histories import SLOW, History, Way, check, histories, on_engine, on_slots, stayed, ways
from many_streams import START
from millstream.compile import compile_script
from millstream.engine.backlog import Budget
from millstream.engine.engine import Engine
from slots import Slots, Step

EXAMPLES = max(int(os.environ.get("MILLSTREAM_EXAMPLES", "2000")) // 40, settings().max_examples - 100)


def test_deferred_units_outlive_a_change_of_the_order_of_probing() -> None:
    """The order in which streams are probed follows from the windows of all queries of a chain."""
    columns = "k INT, id INT, Ts TIMESTAMP"
    streams = "".join(f"CREATE STREAM {name} ({columns}) WITH (time = 'Ts');\n" for name in "ABC")
    select = "SELECT A.id AS a, B.id AS b, C.id AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k"
    near_b = f"CREATE QUERY near_b AS {select} AND {apart('A', 'B', 1)} AND {apart('A', 'C', 90)};\n"
    near_c = f"CREATE QUERY near_c AS {select} AND {apart('A', 'B', 900)} AND {apart('A', 'C', 1)};\n"
    before, after = compile_script(streams + near_b), compile_script(streams + near_b + near_c)
    orders = [
        [[step.position for step in walk] for chain in plan.chains for walk in chain.walks] for plan in (before, after)
    ]
    assert orders[0] != orders[1], "the added query changes the order"
    found: list[tuple[str, dict[str, int]]] = []
    engine = Engine(before, lambda name, rows: found.extend((name, row) for row in rows.to_pylist()))
    batch = {name: pa.table({"k": [1], "id": [number], "Ts": [START]}) for number, name in enumerate("ABC")}
    engine.feed(batch, Budget(units=0))
    assert engine.deferred
    engine.change(after)
    engine.close()
    assert found == [("near_b", {"a": 0, "b": 1, "c": 2})]


@pytest.mark.parametrize("count", [1, 2])
def test_a_new_query_over_older_rows_does_not_see_what_had_expired(count: int, tmp_path: Path) -> None:
    """In one slot the expired row is in a segment with one that is needed, in two slots it is not."""
    columns = "x INT, Ts TIMESTAMP"
    streams = "".join(f"CREATE STREAM {name} ({columns}) WITH (time = 'Ts');\n" for name in "ABC")
    pair = "CREATE QUERY pair AS SELECT A.x FROM A, B WHERE A.x = B.x WINDOW 5 SECONDS;\n"
    added = "CREATE QUERY added AS SELECT A.x, A.Ts AS t FROM A, C WHERE A.x = C.x WINDOW 5 SECONDS;\n"
    schema = pa.schema([("x", pa.int32()), ("Ts", pa.timestamp("us", "UTC"))])

    def rows(**seconds: Sequence[tuple[int, int]]) -> dict[str, pa.Table]:
        given = {name: seconds.get(name, ()) for name in "ABC"}
        return {
            name: pa.Table.from_pylist([{"x": x, "Ts": START + timedelta(seconds=at)} for x, at in some], schema=schema)
            for name, some in given.items()
        }

    slots = Slots(tmp_path, count=count)
    before, after = compile_script(streams + pair), compile_script(streams + pair + added)
    slots.run(Step(plan=before, rows=rows(A=[(1, 0), (2, 10)], B=[(1, 10)])))
    slots.run(Step(plan=before, rows=rows()))  # the time of the first batch counts from here on
    found = slots.run(Step(plan=after, rows=rows(C=[(1, 1), (2, 8)]), finish=True))
    assert found == {"added": [{"x": 2, "t": START + timedelta(seconds=10)}]}


def apart(one: str, other: str, seconds: int) -> str:
    return f"abs({one}.Ts - {other}.Ts) <= INTERVAL '{seconds}' SECOND"


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(history=histories(), way=ways())
def test_adds_and_drops(history: History, way: Way) -> None:
    check(history, way, on_engine(history, way))


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(history=histories(), way=ways(), other=ways())
def test_what_a_new_query_sees_does_not_depend_on_how_work_is_done(history: History, way: Way, other: Way) -> None:
    assert stayed(history, on_engine(history, way)) == stayed(history, on_engine(history, other))


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(history=histories(), way=ways())
def test_restarts(history: History, way: Way) -> None:
    check(history, way, on_slots(history, way, 1))


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(history=histories(several_keys=False), way=ways(), other=ways())
def test_what_a_new_query_sees_does_not_depend_on_slots_and_restarts(history: History, way: Way, other: Way) -> None:
    found = on_slots(history, way, way.slots)
    assert stayed(history, found) == stayed(history, on_slots(history, other, other.slots))
    check(history, way, found)
