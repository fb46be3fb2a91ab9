"""Units of two segments: a pair that some query may see lies in exactly one, also after a change of plan."""

from __future__ import annotations

from functools import cache
from itertools import count
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
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, RIGHT, Chain, Lane

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
def chain_of(names: frozenset[str], slicing: str) -> Chain:
    script = "".join(
        f"CREATE STREAM {name} (id BIGINT, v INT, k INT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB"
    )
    for name in sorted(names):
        script += f"CREATE QUERY {name} AS SELECT A.id, B.id AS b FROM A, B WHERE A.k = B.k {QUERIES[name]};"
    (chain,) = compile_script(script, settings={"slicing": slicing}).chains
    return chain


chains = st.builds(
    chain_of, st.frozensets(st.sampled_from(sorted(QUERIES)), min_size=1), st.sampled_from(["cpu", "memory"])
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


def segments(compiled: CompiledChain, side: str, rows: list[Row], number: int) -> list[Segment]:
    numbers = count(number * 10)
    return compiled.intake[side].segments(batch(rows), number, compiled.chain.lanes(side), lambda: next(numbers))


def pairs_of(left: Segment, right: Segment, rows: tuple[list[Row], list[Row]]) -> list[tuple[Row, Row]]:
    ids = [one.rows.column("id").to_pylist() for one in (left, right)]
    return [(rows[0][a], rows[1][b]) for a in ids[0] for b in ids[1]]


def inside(units: list[Unit], difference: int) -> int:
    """In how many of the units such a pair would be looked for."""
    return sum(unit.within.lo <= difference < unit.within.hi for unit in units)


@given(
    chain=chains,
    since=sinces,
    left=rows_of,
    right=rows_of,
    ages=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_a_pair_that_some_query_may_see_lies_in_exactly_one_unit(
    chain: Chain, since: dict[str, int], left: list[Row], right: list[Row], ages: tuple[int, int]
) -> None:
    compiled = CompiledChain(chain, {}, since)
    for a in segments(compiled, LEFT, left, ages[0]):
        for b in segments(compiled, RIGHT, right, ages[1]):
            probe, state = (a, b) if a.batch > b.batch else (b, a)
            units = list(compiled.units(probe, [state]))
            assert [unit for piece in chain.slices for unit in compiled.units(probe, [state], piece)] == units
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


@given(before=chains, after=chains, since=sinces, left=rows_of, right=rows_of, right_probes=st.booleans())
def test_what_another_plan_leaves_of_a_unit_is_what_both_share(
    before: Chain, after: Chain, since: dict[str, int], left: list[Row], right: list[Row], right_probes: bool
) -> None:
    old, new = CompiledChain(before, {}, dict.fromkeys(since, 1)), CompiledChain(after, {}, since)
    borders = {border for one in (*before.slices, *after.slices) for border in (one.interval.lo, one.interval.hi)}
    for a in segments(old, LEFT, left, 2):
        for b in segments(old, RIGHT, right, 2):
            probe, state = (b, a) if right_probes else (a, b)
            wanted = list(new.units(probe, [state]))
            points = {(t - s) * SECOND for _, s in left for _, t in right} | borders | {one - 1 for one in borders}
            for unit in old.units(probe, [state]):
                found = list(new.cut(unit))
                assert all(new.slice_of(one.interval).interval.covers(one.interval) for one in found)
                for point in points:
                    assert inside(found, point) == (inside([unit], point) and inside(wanted, point))


def test_a_plan_that_has_not_changed_leaves_units_as_they_are() -> None:
    compiled = CompiledChain(chain_of(frozenset(QUERIES), "memory"), {}, {})
    (probe,), (state,) = segments(compiled, LEFT, [(1, 5)], 2), segments(compiled, RIGHT, [(1, 0), (1, 9)], 1)
    units = list(compiled.units(probe, [state]))
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


@pytest.mark.parametrize(("slicing", "spans"), [("cpu", 4), ("memory", 1)])
def test_segments_are_kept_short_where_pairs_are_routed(slicing: str, spans: int) -> None:
    chain = chain_of(frozenset({"narrow", "wide"}), slicing)
    assert CompiledChain(chain, {}, {}).spans == spans


def keyed(kind: str, keys: list[object], side: str, compiled: CompiledChain) -> Segment:
    type_ = {"STRING": pa.string(), "DOUBLE": pa.float64(), "INT": pa.int32()}[kind]
    rows = pa.RecordBatch.from_pydict(
        {
            "k": pa.array(keys, type_),
            "id": pa.array(range(len(keys)), pa.int64()),
            "Ts": pa.array([0] * len(keys), pa.int64()).view(pa.timestamp("us", "UTC")),
        }
    )
    (one,) = compiled.intake[side].segments(rows, 1, (Lane(1, frozenset()),), lambda: 1)
    return one


@pytest.mark.parametrize(
    ("kind", "keys"),
    [("STRING", ["a", "b", "", "aa"]), ("DOUBLE", [0.0, -0.0, nan, 1.5]), ("INT", [1, 2, 3, -1])],
)
@pytest.mark.parametrize("probing", [LEFT, RIGHT])
def test_where_codes_collide_the_keys_decide(kind: str, keys: list[object], probing: str) -> None:
    script = "".join(f"CREATE STREAM {name} (k {kind}, id BIGINT, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB")
    (chain,) = compile_script(script + "CREATE QUERY q AS SELECT A.id FROM A, B WHERE A.k = B.k WINDOW 1 HOUR;").chains
    compiled = CompiledChain(chain, {}, {}, hash_bits=1)
    sides = {side: keyed(kind, keys, side, compiled) for side in (LEFT, RIGHT)}
    probe, state = sides[probing], sides[RIGHT if probing == LEFT else LEFT]
    equal = probe.row_keys()[:, None] == state.row_keys()[None, :]
    met = compiled.pairs(probe, state, *np.nonzero(equal))
    assert (met.left, met.right) == (sides[LEFT], sides[RIGHT])
    names = [one.rows.column("id").to_pylist() for one in (met.left, met.right)]
    found = {(names[0][a], names[1][b]) for a, b in zip(met.left_rows.tolist(), met.right_rows.tolist(), strict=True)}
    assert len(found) == len(met)
    assert found == {
        (a, b)
        for a, one in enumerate(keys)
        for b, other in enumerate(keys)
        if one == other or (one != one and other != other)
    }
    if kind == "STRING":
        assert equal.sum() > len(met), "some did collide"
