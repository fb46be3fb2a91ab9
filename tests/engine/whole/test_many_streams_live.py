"""Queries over two to five streams come and go between batches, and processes are started anew.

A query that is added sees results with at least one row that arrived since, joined with the state that is there. What
is there does not depend on how work is deferred, done and divided.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from many_streams import BUDGETS, MANY_CHOICES, SETTINGS, START, ManyCase, ManyQuery, Rows, cases
from millstream.compile import compile_script
from millstream.engine.backlog import UNBOUNDED, Budget
from millstream.engine.engine import Engine
from millstream.engine.probe import CHUNK
from millstream.plan import Plan
from millstream.testing import naive
from slots import Slots, Step

EXAMPLES = max(int(os.environ.get("MILLSTREAM_EXAMPLES", "2000")) // 40, settings().max_examples - 100)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
LONGEST = 6
"""The most batches of a history."""
Found = dict[tuple[str, int], Rows]
"""The rows of each query by the batch it was added at."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a history is run: none of this may change what a query gets that stays to the end."""

    policy: str
    order: str
    budget: Budget | None
    chunk: int
    slots: int
    restarts: tuple[bool, ...]


@dataclass(frozen=True, kw_only=True)
class History:
    """A case with the queries that run in each of its batches; the first query always does."""

    case: ManyCase
    running: tuple[frozenset[str], ...]

    def plan(self, number: int, way: Way) -> Plan:
        chosen = {**self.case.settings, "policy": way.policy, "order": way.order}
        names = sorted(self.running[number])
        return compile_script(self.case.script(*names), settings=chosen)

    def tables(self, number: int) -> dict[str, pa.Table]:
        return {stream.name: stream.table(self.case.batches[number][stream.name]) for stream in self.case.streams}

    def spans(self, name: str) -> Iterator[tuple[int, int]]:
        """From which batch to which a query ran."""
        first = None
        for number, names in enumerate((*self.running, frozenset[str]())):
            if name in names and first is None:
                first = number
            elif name not in names and first is not None:
                yield first, number
                first = None

    def began(self, name: str, number: int) -> int:
        return next(first for first, stop in self.spans(name) if first <= number < stop)


@st.composite
def histories(draw: st.DrawFn, most: int = 5, *, several_keys: bool = True) -> History:
    several_keys = several_keys and draw(st.sampled_from([False, False, True]))  # one key is what queries share most
    case = draw(cases(most, several_keys=several_keys, batches=(3, LONGEST)))
    names = [query.name for query in case.queries]
    running = []
    for _ in case.batches:
        choices = draw(MANY_CHOICES)
        running.append(frozenset([names[0], *(name for name in names[1:] if choices.of((True, False, True)))]))
    return History(case=case, running=tuple(running))


@st.composite
def ways(draw: st.DrawFn) -> Way:
    choices = draw(MANY_CHOICES)
    return Way(
        policy=choices.of(SETTINGS["policy"]),
        order=choices.of(SETTINGS["order"]),
        budget=choices.of(BUDGETS),
        chunk=choices.of((CHUNK, 1, 7)),
        slots=choices.of((1, 2, 3)),
        restarts=tuple(choices.of((True, False)) for _ in range(LONGEST)),
    )


def on_engine(history: History, way: Way) -> Found:
    found: Found = {}
    number = 0

    def sink(name: str, rows: pa.RecordBatch) -> None:
        found.setdefault((name, history.began(name, number)), []).extend(rows.to_pylist())

    engine = Engine(history.plan(0, way), sink, chunk=way.chunk)
    for number in range(len(history.running)):
        if number:
            engine.change(history.plan(number, way))
        engine.feed(history.tables(number), way.budget)
    engine.close()
    return found


def on_slots(history: History, way: Way, count: int) -> Found:
    found: Found = {}
    last = len(history.running) - 1
    with tempfile.TemporaryDirectory(prefix="millstream-") as place:
        slots = Slots(Path(place), count=count, chunk=way.chunk)
        for number in range(last + 1):
            step = Step(
                plan=history.plan(number, way),
                rows=history.tables(number),
                restarts=way.restarts[number],
                budget=way.budget or UNBOUNDED,
                finish=number == last,
            )
            deferred = slots.deferred
            event(f"restart with deferred units: {bool(deferred and step.restarts)}")
            for name, rows in slots.run(step).items():
                found.setdefault((name, history.began(name, number)), []).extend(rows)
    return found


def batches_of(query: ManyQuery, ids: Sequence[int], arrival: dict[str, dict[int, int]]) -> list[int]:
    return [arrival[stream][number] for stream, number in zip(query.streams, ids, strict=True)]


def check(history: History, way: Way, found: Found) -> None:
    """Nothing that a query may not see, nothing twice, and all that arrived while it ran."""
    case, arrival, end = history.case, history.case.arrival(), len(history.running)
    script = compile_script(case.script()).script
    at_once = way.order == "eager" and way.budget is None
    for query, declared in zip(case.queries, script.queries, strict=True):
        everything = [query.ids(row) for row in naive(declared, case.rows())]
        for first, stop in history.spans(query.name):
            rows = found.pop((query.name, first), [])
            event(f"added {'at first' if first == 0 else 'later'}, {'rows' if rows else 'no rows'}")
            got = Counter(query.ids(row) for row in rows)
            arrived = {ids: batches_of(query, ids, arrival) for ids in everything}
            may = {ids for ids, batches in arrived.items() if first <= max(batches) < stop}
            must = {ids for ids in may if min(arrived[ids]) >= first}
            assert got.keys() <= may, "a row that no arrival since its addition makes"
            assert not got or max(got.values()) == 1, "a row twice"
            if stop == end or at_once:
                assert got.keys() >= must, "a row between arrivals since its addition is missing"
    assert not found, "rows of a query that does not run"


def stayed(history: History, found: Found) -> dict[tuple[str, int], Counter[str]]:
    """What the queries got that run to the end."""
    names = history.running[-1]
    return {
        (name, first): Counter(map(repr, rows))
        for (name, first), rows in found.items()
        if name in names and rows
        if first == history.began(name, len(history.running) - 1)
    }


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
