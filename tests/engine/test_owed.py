"""What spilled groups owe: exactly the combinations of rows from different sides of a spill, each once."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, product

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.engine.segment import Segment
from millstream.engine.units import Unit
from millstream.plan import Plan
from pools import one_segment
from running import Running

LAST = 6
"""The last batch."""
QUERIES = {
    "two": "FROM A x, B y WHERE x.k = y.k",
    "self": "FROM A x, A y WHERE x.k = y.k",
    "three": "FROM A x, B y, C z WHERE x.k = y.k AND y.k = z.k",
    "selves": "FROM A x, A y, A z WHERE x.k = y.k AND y.k = z.k",
    "path": "FROM A x, B y, C z WHERE x.k = y.k AND y.j = z.j",
    "path of one": "FROM A x, A y, A z WHERE x.k = y.k AND y.j = z.j",
    "star": "FROM A x, B y, C z WHERE x.k = y.k AND x.j = z.j",
}


@cache
def plan_of(query: str) -> Plan:
    script = "".join(
        f"CREATE STREAM {name} (id INT, k INT, j INT, Ts TIMESTAMP) WITH (time = 'Ts', rate = {rate});"
        for rate, name in enumerate("ABC", start=1)
    )
    script += f"CREATE QUERY q AS SELECT x.id {QUERIES[query]} WINDOW 9 SECONDS;"
    return compile_script(script, settings={"slicing": "memory"})


@dataclass(frozen=True)
class Row:
    """A row by its number, the batch it came in, and whether it was late for the chain."""

    number: int
    batch: int
    hidden: bool


@st.composite
def streams_of_rows(draw: st.DrawFn) -> dict[str, list[Row]]:
    numbers = count()
    found = {}
    for name in "ABC":
        batches = draw(st.lists(st.integers(1, LAST), max_size=4))
        found[name] = [Row(next(numbers), batch, draw(st.sampled_from([False, False, True]))) for batch in batches]
    return found


def merged_somehow(data: st.DataObject, rows: Iterable[Row], ends: Sequence[int]) -> list[list[Row]]:
    """Rows in segments: those between two ends may be merged, whatever their batches, where both or neither is late."""
    alike: dict[tuple[int, bool], list[list[Row]]] = {}
    for row in sorted(rows, key=lambda row: row.batch):
        some = alike.setdefault((bisect_left(ends, row.batch), row.hidden), [])
        if some and data.draw(st.booleans()):
            some[-1].append(row)
        else:
            some.append([row])
    return [segment for some in alike.values() for segment in some]


def segment_of(plan: Plan, pool: str, rows: Sequence[Row], number: int) -> Segment:
    schema = arrow_schema(plan.pool(pool).stream)
    made = pa.RecordBatch.from_pylist([{"id": row.number, "k": 1, "j": 1, "Ts": 0} for row in rows], schema=schema)
    hidden_from = frozenset({plan.chains[0].signature} if rows[0].hidden else ())
    batch = max(row.batch for row in rows)
    return replace(one_segment(plan, pool, made, number), batch=batch, hidden_from=hidden_from)


def ids(some: Sequence[Segment]) -> list[int]:
    return [one for segment in some for one in segment.rows.column("id").to_pylist()]


def covered(units: Iterable[Unit[Segment]]) -> Counter[tuple[int, ...]]:
    """The combinations of rows of units, position by position."""
    found: Counter[tuple[int, ...]] = Counter()
    for unit in units:
        places = [*map(ids, unit.lookup)]
        places.insert(unit.at, ids([unit.probe]))
        found.update(product(*places))
    return found


@pytest.mark.parametrize("query", sorted(QUERIES))
@settings(max_examples=60)
@given(rows=streams_of_rows(), marks=st.sets(st.integers(1, LAST), min_size=1, max_size=3), data=st.data())
def test_each_combination_from_different_sides_of_a_spill_is_owed_once(
    query: str, rows: dict[str, list[Row]], marks: set[int], data: st.DataObject
) -> None:
    plan = plan_of(query)
    since = data.draw(st.sampled_from([1, 1, 3, 5]))
    running, numbers = Running(plan, since={"q": since}), count(1)
    chain, spills = running.chain, tuple(sorted(marks))
    seams = data.draw(st.sets(st.integers(1, LAST), max_size=2))
    ends = sorted({*marks, *seams, since - 1})
    pieces = {
        pool.name: [
            segment_of(plan, pool.name, some, next(numbers))
            for some in merged_somehow(data, rows[pool.stream.name], ends)
        ]
        for pool in plan.pools
    }
    grouped = {pool.name for pool in plan.pools if not pool.spread.everywhere}
    units = list(chain.owed(pieces, grouped, spills, seams))
    for unit in units:
        looked_up = [bisect_left(ends, one.batch) for some in unit.lookup for one in some]
        assert max(looked_up) <= bisect_left(ends, unit.probe.batch), "the youngest probes"
    seen = [[row for row in rows[stream.name] if not row.hidden] for stream in chain.chain.streams]
    wanted = set()
    for combination in product(*seen):
        eras = [bisect_left(spills, row.batch) for row in combination]
        kept = [era for era, pool in zip(eras, chain.chain.pools, strict=True) if pool in grouped]
        if min(kept) < max(eras) and max(row.batch for row in combination) >= since:
            wanted.add(tuple(row.number for row in combination))
    event(f"owed: {bool(wanted)}")
    assert covered(units) == dict.fromkeys(wanted, 1)


def test_rows_that_are_everywhere_and_several_pools_of_one_stream_are_met_by_these_plans() -> None:
    """Else the cases above would be fewer than they seem."""
    places = {"path": 0, "star": 1, "path of one": 2}
    for query, place in places.items():
        plan = plan_of(query)
        assert [plan.pool(name).spread.everywhere for name in plan.chains[0].pools] == [n == place for n in range(3)]
        assert max(Counter(pool.stream.name for pool in plan.pools).values()) > 1
    assert len(plan_of("self").pools) == len(plan_of("selves").pools) == 1
    assert all(len(plan_of(query).chains[0].slices) == 1 for query in QUERIES)


def test_nothing_is_owed_without_rows_after_the_spill() -> None:
    plan = plan_of("two")
    chain = Running(plan).chain
    before = {
        pool.name: [segment_of(plan, pool.name, [Row(n, 2, hidden=False)], n)] for n, pool in enumerate(plan.pools, 1)
    }
    assert not list(chain.owed(before, list(before), (2,), ()))
    assert not list(chain.owed(before, list(before), (3, 4), ()))
    assert not list(chain.owed(before, list(before), (1,), ())), "both came after it"
