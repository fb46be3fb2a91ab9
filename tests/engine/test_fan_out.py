"""Who gets which pairs: as a sort by the cuts, and for every query as if it were alone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine import fan_out
from millstream.engine.arrow import arrow_schema
from millstream.engine.compiled_chain import CompiledChain
from millstream.engine.fan_out import FanOut, PairRouter, Served, routed
from millstream.engine.segment import Segment
from millstream.engine.shared_bounds import find_shared_bounds
from millstream.errors import QueryFailed
from millstream.model.interval import Interval
from millstream.plan import Plan
from millstream.plan.nodes import LEFT, RIGHT
from millstream.testing import naive
from pools import one_segment

Rows = list[dict[str, Any]]
SECOND = 1_000_000
START = datetime(1970, 1, 1, tzinfo=UTC)


@given(
    differences=st.lists(st.integers(-60, 60), max_size=40),
    cuts=st.one_of(*(st.sets(st.integers(-50, 50), min_size=a, max_size=b) for a, b in ((1, 5), (6, 32), (33, 60)))),
)
def test_routed_is_a_stable_sort_by_class(differences: list[int], cuts: set[int]) -> None:
    values, borders = np.array(differences, dtype=np.int64), sorted(cuts)
    classes = np.searchsorted(borders, values, side="right")
    order, ends = routed(values, borders)
    assert order.tolist() == np.argsort(classes, kind="stable").tolist()
    assert ends == [0, *np.cumsum(np.bincount(classes, minlength=len(borders) + 1)).tolist()]


def plan_of(*queries: str, select: str = "A.id AS a, B.id AS b") -> Plan:
    script = "".join(
        f"CREATE STREAM {n} (id BIGINT, k INT, v INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts');" for n in "AB"
    )
    for number, query in enumerate(queries):
        script += f"CREATE QUERY q{number} AS SELECT {select} FROM A, B WHERE A.k = B.k {query};"
    return compile_script(script)


PLAN = plan_of(
    "WINDOW 2 SECONDS",
    "WINDOW 5 SECONDS",
    "AND B.Ts BETWEEN A.Ts - INTERVAL '8' SECOND AND A.Ts - INTERVAL '3' SECOND",
    "AND A.v > 0 WINDOW 6 SECONDS",
    "AND A.v > 0 WINDOW 3 SECONDS",
    "AND A.v > 0 AND B.v > 0 WINDOW 3 SECONDS",
    "AND A.v + B.v > 1 WINDOW 4 SECONDS",
    "AND A.v + B.v > 1 WINDOW 8 SECONDS",
    "AND A.v + B.v > 2 WINDOW 9 SECONDS",
    "AND A.v + B.v > 2 AND B.v < 2 WINDOW 3 SECONDS",
)
(CHAIN,) = PLAN.chains
rows_of = st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 12)), min_size=1, max_size=8)


def rows(given_rows: list[tuple[int, int]]) -> Rows:
    return [
        {"id": number, "k": 1, "v": value, "s": str(value), "Ts": START + timedelta(seconds=time)}
        for number, (value, time) in enumerate(given_rows)
    ]


def segment(plan: Plan, position: int, some: Rows) -> Segment:
    (chain,) = plan.chains
    schema = arrow_schema(chain.streams[position])
    return one_segment(plan, chain.pools[position], pa.RecordBatch.from_pylist(some, schema=schema), 1)


def all_pairs(left: Segment, right: Segment, within: Interval) -> tuple[np.ndarray, np.ndarray]:
    a, b = (index.ravel() for index in np.indices((len(left), len(right))))
    apart = right.times[b] - left.times[a]
    chosen = np.flatnonzero((apart >= within.lo) & (apart < within.hi))
    return a[chosen], b[chosen]


def answers(found: list[Served]) -> dict[str, Counter[tuple[int, ...]]]:
    got: dict[str, Counter[tuple[int, ...]]] = {}
    for queries, pairs, made in found:
        assert len(pairs) == made.num_rows > 0
        for query in queries:
            got.setdefault(query, Counter()).update(tuple(row.values()) for row in made.to_pylist())
    return got


@given(
    left=rows_of,
    right=rows_of,
    lo=st.integers(-9, 8),
    width=st.integers(1, 18),
    chunk=st.integers(1, 30),
    enough=st.sampled_from([0, 3, 1000]),
)
def test_every_query_gets_what_it_would_alone(
    left: list[tuple[int, int]], right: list[tuple[int, int]], lo: int, width: int, chunk: int, enough: int
) -> None:
    compiled, given_rows = CompiledChain(CHAIN, {}, {}), {"A": rows(left), "B": rows(right)}
    a, b = (segment(PLAN, side, some) for side, some in ((LEFT, given_rows["A"]), (RIGHT, given_rows["B"])))
    within = Interval(lo * SECOND, (lo + width) * SECOND)
    cuts = sorted(
        {cut for one in CHAIN.members for cut in (one.interval.lo, one.interval.hi) if within.lo < cut < within.hi}
    )
    fan_out = FanOut(within, cuts, list(compiled.members.values()), find_shared_bounds(CHAIN.members, {}))
    router = PairRouter(fan_out, within, compiled.conditions, enough)
    a_rows, b_rows = all_pairs(a, b, within)
    found: list[Served] = []
    for start in range(0, len(a_rows), chunk):
        some = slice(start, start + chunk)
        found += router.serve(compiled.pairs(b, RIGHT, a, b_rows[some], a_rows[some]))
    found += router.finish()
    got = answers(found)
    for query in PLAN.script.queries:
        wanted = Counter(
            (row["a"], row["b"])
            for row in naive(query, given_rows)
            if within.lo <= (right[row["b"]][1] - left[row["a"]][1]) * SECOND < within.hi
        )
        assert got.get(query.name, Counter()) == wanted


def test_queries_of_a_family_share_the_rows_that_are_theirs_together() -> None:
    plan = plan_of("WINDOW 2 SECONDS", "WINDOW 5 SECONDS", "WINDOW 9 SECONDS")
    compiled = CompiledChain(plan.chains[0], {}, {})
    a, b = (
        segment(plan, LEFT, rows([(0, 10)])),
        segment(plan, RIGHT, rows([(0, time) for time in range(2, 19)])),
    )
    (piece,) = compiled.chain.slices
    router = PairRouter(compiled.fan_out(piece, piece.interval, 1), piece.interval, compiled.conditions)
    found = list(router.serve(compiled.pairs(b, RIGHT, a, *all_pairs(a, b, piece.interval)[::-1])))
    assert [(queries, made.num_rows) for queries, _, made in found] == [
        (["q2"], 4),
        (["q1", "q2"], 3),
        (["q0", "q1", "q2"], 3),
        (["q1", "q2"], 3),
        (["q2"], 4),
    ], "every row is made once, for all that get it"


def test_only_queries_that_meet_what_fails_are_to_blame() -> None:
    plan = plan_of("WINDOW 2 SECONDS", "WINDOW 5 SECONDS", "WINDOW 9 SECONDS", select="CAST(B.s AS INT) AS n")
    compiled = CompiledChain(plan.chains[0], {}, {})
    good, bad = rows([(0, 1), (0, 4)])
    a, b = segment(plan, LEFT, rows([(0, 0)])), segment(plan, RIGHT, [good, {**bad, "s": "x"}])
    (piece,) = compiled.chain.slices
    router = PairRouter(compiled.fan_out(piece, piece.interval, 1), piece.interval, compiled.conditions)
    with pytest.raises(QueryFailed, match="CAST") as failure:
        list(router.serve(compiled.pairs(b, RIGHT, a, np.array([0, 1]), np.array([0, 0]))))
    assert failure.value.queries == ("q1", "q2")


@pytest.mark.parametrize("fails_over", [1, 2, 5])
def test_rows_that_no_column_can_hold_together_are_made_in_halves(
    fails_over: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of("WINDOW 2 SECONDS", "WINDOW 5 SECONDS")
    compiled = CompiledChain(plan.chains[0], {}, {})
    a, b = segment(plan, LEFT, rows([(0, 6)])), segment(plan, RIGHT, rows([(0, time) for time in range(2, 11)]))
    (piece,) = compiled.chain.slices
    make = fan_out.MemberRun.rows

    def limited(member: fan_out.MemberRun, pairs: fan_out.Pairs) -> pa.RecordBatch:
        with fan_out.blaming([member.name]):
            if len(pairs) > fails_over:
                raise pa.ArrowCapacityError("too much for a column")
        return make(member, pairs)

    monkeypatch.setattr(fan_out.MemberRun, "rows", limited)
    router = PairRouter(compiled.fan_out(piece, piece.interval, 1), piece.interval, compiled.conditions)
    got = answers(list(router.serve(compiled.pairs(b, RIGHT, a, *all_pairs(a, b, piece.interval)[::-1]))))
    assert {query: sorted(some) for query, some in got.items()} == {
        "q0": [(0, time - 2) for time in (5, 6, 7)],
        "q1": [(0, time - 2) for time in range(2, 11)],
    }
