"""Small probes together, units one by one and nested loops find the same rows, whatever the chunk and the access."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine import joiner
from millstream.engine.arrow import arrow_schema
from millstream.engine.compiled_chain import CompiledChain
from millstream.engine.joiner import Joiner
from millstream.engine.segment import Segment
from millstream.engine.statistics import ChainStatistics
from millstream.plan import Plan
from millstream.plan.gather_pools import gather_pools
from millstream.plan.nodes import LEFT, RIGHT, Access
from millstream.testing import naive
from pools import taken_in

Rows = list[dict[str, Any]]
START = datetime(1970, 1, 1, tzinfo=UTC)


def plan_of(slicing: str) -> Plan:
    columns = "id BIGINT, k INT, v INT, s STRING, Ts TIMESTAMP"
    script = "".join(f"CREATE STREAM {name} ({columns}) WITH (time = 'Ts');" for name in "AB")
    for number, rest in enumerate(
        (
            "WINDOW 2 SECONDS",
            "WINDOW 7 SECONDS",
            "AND A.v > 0 WINDOW 5 SECONDS",
            "AND A.v + B.v > 1 WINDOW 6 SECONDS",
            "AND A.v + B.v > 0 AND A.s <> B.s WINDOW 4 SECONDS",
        )
    ):
        script += f"CREATE QUERY q{number} AS SELECT A.id AS a, B.id AS b, B.s FROM A, B WHERE A.k = B.k {rest};"
    return compile_script(script, settings={"slicing": slicing})


PLANS = {slicing: plan_of(slicing) for slicing in ("cpu", "memory")}
WAYS = ("together", "one by one", "scan", "index once scanned", "scan once indexed")
"""With what was kept for the one and is probed by the other, after the path has changed."""
rows_of = st.tuples(
    st.integers(0, 9),
    st.lists(
        st.tuples(st.integers(1, 2), st.integers(-1, 2), st.sampled_from(["", "long " * 9, None]), st.integers(0, 4)),
        min_size=1,
        max_size=8,
    ),
).map(lambda drawn: [(*row[:3], drawn[0] + row[3]) for row in drawn[1]])
"""Segments of a few seconds each, so that not all reach through a slice."""
Given = list[tuple[int, int, str | None, int]]


def rows(given_rows: Given, first: int = 0) -> Rows:
    return [
        {"id": first + number, "k": key, "v": value, "s": text, "Ts": START + timedelta(seconds=time)}
        for number, (key, value, text, time) in enumerate(given_rows)
    ]


class Way:
    """One way to join a probe with some states."""

    def __init__(self, way: str, plan: Plan, chunk: int) -> None:
        self._way = way
        (chain,) = plan.chains
        access, before = ("index", "scan") if way == "index once scanned" else ("scan", "index")
        if "once" not in way:
            access = before = "scan" if way == "scan" else "index"
        self._plan = gather_pools(replace(plan, chains=(replace(chain, access=Access(before, before)),)))
        self._compiled = CompiledChain(replace(chain, access=Access(access, access)), {}, {})
        self._numbers = count(1)
        self.statistics = ChainStatistics()
        self._joiner = Joiner(self._compiled, self.statistics, chunk)

    def _segments(self, position: int, some: Rows, batch: int) -> list[Segment]:
        chain = self._compiled.chain
        made = pa.RecordBatch.from_pylist(some, schema=arrow_schema(chain.streams[position]))
        return taken_in(self._plan, chain.pools[position], made, batch, lambda: next(self._numbers))

    def join(self, probing: int, probe: Rows, states: list[Rows]) -> dict[str, Counter[str]]:
        waiting = 1 - probing
        others = [one for n, some in enumerate(states) for one in self._segments(waiting, some, n)]
        found: dict[str, Counter[str]] = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joiner, "SMALL", 0 if self._way == "one by one" else 1 << 13)
            for one in self._segments(probing, probe, 99):
                for piece in self._compiled.chain.slices:
                    for joined in self._joiner.join(list(self._compiled.units(one, probing, [others], piece))):
                        assert joined.batch == 99
                        assert joined.rows.num_rows == len(joined.pairs)
                        for query in joined.queries:
                            found.setdefault(query, Counter()).update(map(repr, joined.rows.to_pylist()))
        return found

    def counted(self) -> dict[str, tuple[int, int, int, int]]:
        return {
            str(interval): (one.units, one.probes, one.compared, one.pairs)
            for interval, one in self.statistics.slices.items()
        }


@settings(max_examples=40)
@given(
    slicing=st.sampled_from(sorted(PLANS)),
    probing=st.sampled_from([LEFT, RIGHT]),
    probe=rows_of,
    states=st.lists(rows_of, min_size=1, max_size=3),
    chunk=st.sampled_from([1, 2, 5, 1 << 16]),
)
def test_every_way_finds_the_rows_of_nested_loops(
    slicing: str, probing: int, probe: Given, states: list[Given], chunk: int
) -> None:
    plan = PLANS[slicing]
    probes, waiting = rows(probe), [rows(some, 100 * n) for n, some in enumerate(states, start=1)]
    everything = {"A": probes, "B": [row for some in waiting for row in some]}
    if probing == RIGHT:
        everything = {"A": everything["B"], "B": everything["A"]}
    counts = []
    for name in WAYS:
        way = Way(name, plan, chunk)
        found = way.join(probing, probes, waiting)
        for query in plan.script.queries:
            assert found.get(query.name, Counter()) == Counter(map(repr, naive(query, everything))), name
        counts.append(way.counted())
    assert all(one == counts[0] for one in counts), "what is measured does not depend on the way"


@pytest.mark.parametrize("way", WAYS)
def test_no_more_pairs_are_at_hand_than_a_chunk_has(way: str) -> None:
    hot: Given = [(1, 1, "", n % 5) for n in range(12)]
    one = Way(way, PLANS["cpu"], 7)
    serve, sizes = joiner.PairRouter.serve, []

    def noting(server: joiner.PairRouter, pairs: joiner.Pairs) -> Any:
        sizes.append(len(pairs))
        return serve(server, pairs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joiner.PairRouter, "serve", noting)
        one.join(LEFT, rows(hot), [rows(hot, 100)])
    assert sum(sizes) == 144
    assert max(sizes) <= 7


def test_nothing_is_done_for_no_units() -> None:
    one = Way("together", PLANS["cpu"], 7)
    assert one.join(LEFT, rows([(1, 1, "", 0)]), []) == {}
    assert one.counted() == {}
