"""Units of two segments: a pair that some query may see lies in exactly one, also after a change of plan."""

from __future__ import annotations

from functools import cache
from itertools import count, permutations, product
from math import nan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.compiled_chain import CompiledChain
from millstream.engine.fan_out import FanOut
from millstream.engine.segment import Segment
from millstream.engine.units import Unit
from millstream.model.expr import Column
from millstream.model.interval import Interval
from millstream.model.types import BIGINT
from millstream.plan import Plan
from millstream.plan.nodes import LEFT, RIGHT, Chain
from pools import one_segment, taken_in

SECOND = 1_000_000
QUERIES = {
    "narrow": "WINDOW 2 SECONDS",
    "wide": "WINDOW 9 SECONDS",
    "selects": "AND A.v > 0 WINDOW 6 SECONDS",
    "both": "AND A.v > 0 AND B.v > 0 WINDOW 12 SECONDS",
    "ahead": "AND B.Ts BETWEEN A.Ts + INTERVAL '3' SECOND AND A.Ts + INTERVAL '5' SECOND",
    "behind": "AND B.Ts BETWEEN A.Ts - INTERVAL '8' SECOND AND A.Ts - INTERVAL '4' SECOND",
}


@cache
def plan_of(names: frozenset[str], slicing: str) -> Plan:
    script = "".join(
        f"CREATE STREAM {name} (id BIGINT, v INT, k INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB"
    )
    for name in sorted(names):
        script += f"CREATE QUERY {name} AS SELECT A.id, B.id AS b FROM A, B WHERE A.k = B.k {QUERIES[name]};"
    return compile_script(script, settings={"slicing": slicing})


def chain_of(names: frozenset[str], slicing: str) -> Chain:
    (chain,) = plan_of(names, slicing).chains
    return chain


plans = st.builds(
    plan_of, st.frozensets(st.sampled_from(sorted(QUERIES)), min_size=1), st.sampled_from(["cpu", "memory"])
)
sinces = st.fixed_dictionaries({name: st.integers(1, 3) for name in QUERIES})
rows_of = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 14)), min_size=1, max_size=5)
Row = tuple[int, int]
"""A value, and a time in seconds."""


def batch(rows: list[Row]) -> pa.RecordBatch:
    values, times = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(range(len(rows)), pa.int64()),
            "v": pa.array(values, pa.int32()),
            "k": pa.array([1] * len(rows), pa.int32()),
            "Ts": pa.array([time * SECOND for time in times], pa.int64()).view(pa.timestamp("us", "UTC")),
        }
    )


def segments(plan: Plan, position: int, rows: list[Row], number: int) -> list[Segment]:
    numbers = count(number * 10)
    return taken_in(plan, plan.chains[0].pools[position], batch(rows), number, lambda: next(numbers))


def pairs_of(left: Segment, right: Segment, rows: tuple[list[Row], list[Row]]) -> list[tuple[Row, Row]]:
    ids = [one.rows.column("id").to_pylist() for one in (left, right)]
    return [(rows[0][a], rows[1][b]) for a in ids[0] for b in ids[1]]


def inside(units: list[Unit], difference: int) -> int:
    """In how many of the units such a pair would be looked for."""
    return sum(unit.within.lo <= difference < unit.within.hi for unit in units)


@given(
    plan=plans,
    since=sinces,
    left=rows_of,
    right=rows_of,
    ages=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_a_pair_that_some_query_may_see_lies_in_exactly_one_unit(
    plan: Plan, since: dict[str, int], left: list[Row], right: list[Row], ages: tuple[int, int]
) -> None:
    (chain,) = plan.chains
    compiled = CompiledChain(chain, {}, since)
    for a in segments(plan, LEFT, left, ages[0]):
        for b in segments(plan, RIGHT, right, ages[1]):
            probe, at, state = (a, LEFT, b) if a.batch > b.batch else (b, RIGHT, a)
            units = list(compiled.units(probe, at, [[state]]))
            assert [unit for piece in chain.slices for unit in compiled.units(probe, at, [[state]], piece)] == units
            assert all((unit.probe, unit.at, unit.state) == (probe, at, state) for unit in units)
            for unit in units:
                piece = compiled.slice_of(unit.interval)
                assert piece.interval == unit.interval
                assert any(since[name] <= probe.batch for name in piece.queries), "else nobody may see it"
            for (left_value, left_time), (right_value, right_time) in pairs_of(a, b, (left, right)):
                difference = (right_time - left_time) * SECOND
                seen = any(
                    one.interval.lo <= difference < one.interval.hi
                    and since[one.name] <= probe.batch
                    and (not one.left or left_value > 0)
                    and (not one.right or right_value > 0)
                    for one in chain.members
                )
                assert inside(units, difference) == 1 if seen else inside(units, difference) <= 1


@given(before=plans, after=plans, since=sinces, left=rows_of, right=rows_of, right_probes=st.booleans())
def test_what_another_plan_leaves_of_a_unit_is_what_both_share(
    before: Plan, after: Plan, since: dict[str, int], left: list[Row], right: list[Row], right_probes: bool
) -> None:
    old, new = CompiledChain(before.chains[0], {}, dict.fromkeys(since, 1)), CompiledChain(after.chains[0], {}, since)
    slices = (*before.chains[0].slices, *after.chains[0].slices)
    borders = {border for one in slices for border in (one.interval.lo, one.interval.hi)}
    for a in segments(before, LEFT, left, 2):
        for b in segments(before, RIGHT, right, 2):
            probe, at, state = (b, RIGHT, a) if right_probes else (a, LEFT, b)
            wanted = list(new.units(probe, at, [[state]]))
            points = {(t - s) * SECOND for _, s in left for _, t in right} | borders | {one - 1 for one in borders}
            for unit in old.units(probe, at, [[state]]):
                found = list(new.cut(unit))
                assert all(new.slice_of(one.interval).interval.covers(one.interval) for one in found)
                for point in points:
                    assert inside(found, point) == (inside([unit], point) and inside(wanted, point))


def test_a_plan_that_has_not_changed_leaves_units_as_they_are() -> None:
    plan = plan_of(frozenset(QUERIES), "memory")
    compiled = CompiledChain(plan.chains[0], {}, {})
    (probe,), (state,) = segments(plan, LEFT, [(1, 5)], 2), segments(plan, RIGHT, [(1, 0), (1, 9)], 1)
    units = list(compiled.units(probe, LEFT, [[state]]))
    assert len(units) > 3
    assert [new for unit in units for new in compiled.cut(unit)] == units


def test_a_layout_is_kept_once_every_query_may_see_the_pairs() -> None:
    chain = chain_of(frozenset({"narrow", "wide"}), "cpu")
    compiled = CompiledChain(chain, {}, {"narrow": 3, "wide": 1})
    (piece,) = chain.slices
    assert compiled.youngest == 3
    assert compiled.since() == {"narrow": 3, "wide": 1}
    early = compiled.fan_out(piece, piece.interval, 2)
    assert _served(early) == {"wide"}
    late = compiled.fan_out(piece, piece.interval, 3)
    assert _served(late) == {"narrow", "wide"}
    assert compiled.fan_out(piece, piece.interval, 4) is late
    assert compiled.fan_out(piece, Interval(piece.interval.lo + 1, piece.interval.hi - 1), 4) is late
    assert _served(compiled.fan_out(piece, piece.interval, 2)) == {"wide"}, "what waited from before"
    assert late.cuts == piece.cuts
    inner = compiled.fan_out(piece, Interval(-SECOND, SECOND), 4)
    assert (inner.cuts, _served(inner)) == ((), {"narrow", "wide"})
    outer = compiled.fan_out(piece, Interval(3 * SECOND, 4 * SECOND), 4)
    assert _served(outer) == {"wide"}


def _served(fan_out: FanOut) -> set[str]:
    groups = [group for some in fan_out.behind.values() for group in some]
    return {name for group in groups for names in group._served for name in names}


@pytest.mark.parametrize(("slicing", "routes"), [("cpu", True), ("memory", False)])
def test_pairs_are_routed_where_queries_end_inside_a_slice(slicing: str, routes: bool) -> None:
    chain = chain_of(frozenset({"narrow", "wide"}), slicing)
    assert chain.is_routing == routes


def keyed(kind: str, keys: list[object], position: int, plan: Plan) -> Segment:
    type_ = {"STRING": pa.string(), "DOUBLE": pa.float64(), "INT": pa.int32()}[kind]
    rows = pa.RecordBatch.from_pydict(
        {
            "k": pa.array(keys, type_),
            "id": pa.array(range(len(keys)), pa.int64()),
            "Ts": pa.array([0] * len(keys), pa.int64()).view(pa.timestamp("us", "UTC")),
        }
    )
    return one_segment(plan, plan.chains[0].pools[position], rows, 1, hash_bits=1)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [("STRING", ["a", "b", "", "aa"]), ("DOUBLE", [0.0, -0.0, nan, 1.5]), ("INT", [1, 2, 3, -1])],
)
@pytest.mark.parametrize("probing", [LEFT, RIGHT])
def test_where_codes_collide_the_keys_decide(kind: str, keys: list[object], probing: int) -> None:
    script = "".join(f"CREATE STREAM {name} (k {kind}, id BIGINT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB")
    plan = compile_script(script + "CREATE QUERY q AS SELECT A.id FROM A, B WHERE A.k = B.k WINDOW 1 HOUR;")
    compiled = CompiledChain(plan.chains[0], {}, {})
    sides = [keyed(kind, keys, position, plan) for position in (LEFT, RIGHT)]
    probe, state = sides[probing], sides[1 - probing]
    equal = probe.row_keys()[:, None] == state.row_keys()[None, :]
    met = compiled.pairs(probe, probing, state, *np.nonzero(equal))
    assert met.sources == tuple(sides)
    names = [met.column(Column(position, "id", BIGINT)).to_pylist() for position in (LEFT, RIGHT)]
    found = set(zip(*names, strict=True))
    assert len(found) == len(met)
    assert found == {
        (a, b)
        for a, one in enumerate(keys)
        for b, other in enumerate(keys)
        if one == other or (one != one and other != other)
    }
    if kind == "STRING":
        assert equal.sum() > len(met), "some did collide"


THREE = "".join(f"CREATE STREAM {name} (id BIGINT, v INT, k INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "ABC")
TRIPLES = {
    "near": "WINDOW 2 SECONDS",
    "far": "WINDOW 6 SECONDS",
    "odd": "AND B.Ts BETWEEN A.Ts AND A.Ts + INTERVAL '4' SECOND AND C.Ts BETWEEN B.Ts AND B.Ts + INTERVAL '3' SECOND",
}


@cache
def three(slicing: str, *names: str) -> Plan:
    script = THREE
    for name in names:
        script += f"CREATE QUERY {name} AS SELECT A.id FROM A, B, C WHERE A.k = B.k AND B.k = C.k {TRIPLES[name]};"
    return compile_script(script, settings={"slicing": slicing})


@given(
    slicing=st.sampled_from(["cpu", "memory"]),
    names=st.sets(st.sampled_from(sorted(TRIPLES)), min_size=1),
    at=st.integers(0, 2),
    probe=rows_of,
    seen=st.tuples(*[st.lists(rows_of, max_size=3)] * 2),
)
def test_a_result_of_three_streams_lies_in_one_unit_with_all_its_segments(
    slicing: str, names: set[str], at: int, probe: list[Row], seen: tuple[list[list[Row]], list[list[Row]]]
) -> None:
    plan = three(slicing, *sorted(names))
    (chain,) = plan.chains
    compiled = CompiledChain(chain, {}, {})
    numbers = count(1)
    walk = sorted(chain.walks[at], key=lambda step: step.position)
    states = [
        [one for rows in some for one in taken_in(plan, step.pool, batch(rows), 1, lambda: next(numbers))]
        for step, some in zip(walk, seen, strict=True)
    ]
    (prober,) = taken_in(plan, chain.pools[at], batch(probe), 2, lambda: next(numbers))
    units = list(compiled.units(prober, at, states))
    assert len({unit.interval for unit in units}) == len(units), "one for each slice"
    assert all(len(unit.lookup) == 2 and all(unit.lookup) for unit in units)
    for first, second in product(*states):
        for a, b, c in product(*(one.times.tolist() for one in (prober, first, second))):
            times = dict(zip([at, *(step.position for step in walk)], (a, b, c), strict=True))
            span = max(times.values()) - min(times.values())
            wanted = [
                member
                for member in chain.members
                if all(one.interval.lo <= times[one.right] - times[one.left] < one.interval.hi for one in member.bounds)
            ]
            met = [unit for unit in units if unit.interval.lo <= span < unit.interval.hi]
            assert len(met) <= 1
            if wanted:
                assert len(met) == 1
                assert first in met[0].lookup[0]
                assert second in met[0].lookup[1]
                hulls = compiled.hulls(met[0].interval)
                assert all(hulls[i, j].lo <= times[j] - times[i] < hulls[i, j].hi for i, j in permutations(times, 2))


def test_segments_that_no_result_can_reach_are_not_looked_up() -> None:
    plan = three("memory", "near", "far")
    (chain,) = plan.chains
    compiled = CompiledChain(chain, {}, {})
    walk = sorted(chain.walks[0], key=lambda step: step.position)
    near, middle, gone = (one_segment(plan, walk[0].pool, batch([(0, time)]), 1) for time in (11, 14, 30))
    other = one_segment(plan, walk[1].pool, batch([(0, 10)]), 1)
    probe = one_segment(plan, chain.pools[0], batch([(0, 10)]), 2)
    units = list(compiled.units(probe, 0, [[near, middle, gone], [other]]))
    assert [(unit.interval.hi, unit.lookup) for unit in units] == [
        (2 * SECOND, ((near,), (other,))),
        (6 * SECOND, ((near, middle), (other,))),
    ]
    assert not list(compiled.units(probe, 0, [[near], []])), "without a row of some stream there is no result"
    assert [new for unit in units for new in compiled.cut(unit)] == units
    (left,) = CompiledChain(three("memory", "near").chains[0], {}, {}).cut(units[0])
    assert left == units[0]
    assert not list(CompiledChain(three("memory", "near").chains[0], {}, {}).cut(units[1]))
