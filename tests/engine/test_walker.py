"""Walks over three and four streams find the rows of nested loops, whatever the keys, the chunk and the collisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine import walker
from millstream.engine.arrow import arrow_schema
from millstream.engine.compiled_chain import CompiledChain
from millstream.engine.intake import CODE
from millstream.engine.keys import codes
from millstream.engine.pairs import Pairs
from millstream.engine.segment import Segment
from millstream.engine.statistics import ChainStatistics
from millstream.engine.units import Unit
from millstream.engine.walker import Walker
from millstream.errors import QueryFailed
from millstream.plan import Plan
from millstream.plan.nodes import Lane
from millstream.testing import naive
from pools import taken_in

Rows = list[dict[str, Any]]
SECOND = 1_000_000
START = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = "id BIGINT, k INT, j INT, s STRING, d DOUBLE, v INT, Ts TIMESTAMP"
GRAPHS = {
    "one key": "A.k = B.k AND B.k = C.k",
    "star": "A.k = B.k AND A.j = C.j",
    "path": "A.k = B.j AND B.k = C.k",
    "cycle": "A.k = B.k AND B.j = C.j AND C.s = A.s",
    "texts": "A.s = B.s AND B.s = C.s",
    "numbers": "A.d = B.d AND B.s = C.s",
    "two parts": "A.k = B.k AND A.s = B.s AND B.k = C.k AND B.s = C.s",
    "parts of two streams": "A.k = C.k AND B.j = C.j AND A.v < B.v",
    "computed": "A.k + 1 = B.k AND B.k % 2 = C.j",
    "widths": "A.k = B.id AND B.id = C.k",
    "theta": "A.k = B.k AND B.v < C.v",
    "no key": "A.v <= B.v AND B.v < C.v",
}
FOUR = {
    "one key for four": "A.k = B.k AND B.k = C.k AND C.k = D.k",
    "path of four": "A.k = B.k AND B.j = C.j AND C.s = D.s",
    "square": "A.k = B.k AND B.j = C.j AND C.k = D.k AND D.j = A.j",
}
WINDOWS = {
    "near": "WINDOW 2 SECONDS",
    "far": "WINDOW 5 SECONDS",
    "odd": "AND B.Ts BETWEEN A.Ts AND A.Ts + INTERVAL '3' SECOND"
    " AND C.Ts BETWEEN B.Ts - INTERVAL '4' SECOND AND B.Ts{rest}",
    "selects": "AND A.v > 0 AND C.v > 0 WINDOW 4 SECONDS",
    "residual": "AND A.v + C.v > B.v WINDOW 4 SECONDS",
}


@cache
def plan_of(graph: str, queries: tuple[str, ...] = tuple(WINDOWS), slicing: str = "memory") -> Plan:
    where, names = (GRAPHS[graph], "ABC") if graph in GRAPHS else (FOUR[graph], "ABCD")
    script = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts');" for name in names)
    ids = ", ".join(f"{name}.id AS {name.lower()}" for name in names)
    rest = " AND D.Ts BETWEEN C.Ts AND C.Ts + INTERVAL '2' SECOND" if "D" in names else ""
    for query in queries:
        window = WINDOWS[query].format(rest=rest)
        script += f"CREATE QUERY {query} AS SELECT {ids}, B.s FROM {', '.join(names)} WHERE {where} {window};"
    return compile_script(script, settings={"slicing": slicing})


small = st.sampled_from([1, 1, 1, 0, None])
row_of = st.tuples(
    small,
    small,
    st.sampled_from(["a", "a", "", None]),
    st.sampled_from([0.0, -0.0, float("nan"), None]),
    small,
    st.integers(0, 6),
)
Given = tuple[int | None, int | None, str | None, float | None, int | None, int]
segments_of = st.lists(st.lists(row_of, min_size=1, max_size=5), min_size=1, max_size=2)


def rows_of(given_rows: Sequence[Given], first: int = 0) -> Rows:
    return [
        {"id": first + n, "k": k, "j": j, "s": s, "d": d, "v": v, "Ts": START + timedelta(seconds=second)}
        for n, (k, j, s, d, v, second) in enumerate(given_rows)
    ]


class Walking:
    """A chain whose tuples at one position arrive and look up segments at the others."""

    def __init__(self, plan: Plan, *, chunk: int = 1 << 16, hash_bits: int = 64) -> None:
        self._plan, self._hash_bits, self._numbers = plan, hash_bits, count(1)
        (self.chain,) = plan.chains
        self.compiled = CompiledChain(self.chain, {}, {})
        self.statistics = ChainStatistics()
        pools = {pool.name: pool for pool in plan.pools}
        self.walker = Walker(self.compiled, self.statistics, {}, pools=pools, chunk=chunk, hash_bits=hash_bits)

    def segments(
        self, pool: str, parts: Sequence[Rows], batch: int, lanes: Sequence[Lane] | None = None
    ) -> list[Segment]:
        schema = arrow_schema(self._plan.pool(pool).stream)
        return [
            one
            for some in parts
            for one in taken_in(
                self._plan,
                pool,
                pa.RecordBatch.from_pylist(some, schema=schema),
                batch,
                lambda: next(self._numbers),
                lanes=lanes,
                hash_bits=self._hash_bits,
            )
        ]

    def units(self, at: int, rows: Sequence[Sequence[Rows]], lanes: Sequence[Lane] | None = None) -> Iterator[Unit]:
        """The units of what arrives at a position; `rows` are the segments' rows at every position."""
        seen = self.seen(at, rows, lanes)
        for probe in self.segments(self.chain.pools[at], rows[at], 2):
            yield from self.compiled.units(probe, at, seen)

    def seen(self, at: int, rows: Sequence[Sequence[Rows]], lanes: Sequence[Lane] | None) -> list[list[Segment]]:
        steps = sorted(self.chain.walks[at], key=lambda step: step.position)
        return [self.segments(step.pool, rows[step.position], 1, lanes) for step in steps]

    def found(self, units: Iterator[Unit]) -> dict[str, Counter[str]]:
        got: dict[str, Counter[str]] = {}
        for joined in self.walker.join(list(units)):
            assert joined.batch == 2
            assert joined.rows.num_rows == len(joined.pairs) > 0
            for query in joined.queries:
                got.setdefault(query, Counter()).update(map(repr, joined.rows.to_pylist()))
        return got


def check(plan: Plan, at: int, parts: Sequence[Sequence[Sequence[Given]]], chunk: int, hash_bits: int) -> None:
    walking = Walking(plan, chunk=chunk, hash_bits=hash_bits)
    rows = [
        [rows_of(some, 1_000 * position + 100 * number) for number, some in enumerate(segments)]
        for position, segments in enumerate(parts)
    ]
    names = [stream.name for stream in walking.chain.streams]
    everything = {name: [row for some in own for row in some] for name, own in zip(names, rows, strict=True)}
    got = walking.found(walking.units(at, rows))
    for query in plan.script.queries:
        assert got.get(query.name, Counter()) == Counter(map(repr, naive(query, everything))), query.name


@settings(max_examples=30)
@pytest.mark.parametrize("graph", GRAPHS)
@given(
    slicing=st.sampled_from(["cpu", "memory"]),
    at=st.integers(0, 2),
    parts=st.tuples(*[segments_of] * 3),
    chunk=st.sampled_from([1, 2, 3, 4, 5, 1 << 16]),
    hash_bits=st.sampled_from([1, 2, 64]),
)
def test_a_unit_finds_the_rows_of_nested_loops(
    graph: str, slicing: str, at: int, parts: tuple[list[list[Given]], ...], chunk: int, hash_bits: int
) -> None:
    check(plan_of(graph, slicing=slicing), at, parts, chunk, hash_bits)


@settings(max_examples=20)
@pytest.mark.parametrize("graph", FOUR)
@given(
    at=st.integers(0, 3),
    parts=st.tuples(*[segments_of] * 4),
    chunk=st.sampled_from([1, 3, 1 << 16]),
    hash_bits=st.sampled_from([1, 64]),
)
def test_four_streams_are_walked_too(
    graph: str, at: int, parts: tuple[list[list[Given]], ...], chunk: int, hash_bits: int
) -> None:
    check(plan_of(graph), at, parts, chunk, hash_bits)


def hot(rows: int, second: int = 0) -> list[Given]:
    return [(1, 1, "a", 0.0, 1, second)] * rows


@pytest.mark.parametrize("graph", ["one key", "star", "path", "cycle", "texts", "no key"])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5])
def test_a_hot_key_is_walked_a_chunk_at_a_time(
    graph: str, at: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve, sizes = walker.PairRouter.serve, []

    def noting(router: walker.PairRouter, pairs: Pairs) -> Any:
        sizes.append(len(pairs))
        return serve(router, pairs)

    monkeypatch.setattr(walker.PairRouter, "serve", noting)
    walking = Walking(plan_of(graph, ("far",)), chunk=chunk)
    values = {"no key": [(1, 1, "a", 0.0, v, 0) for v in (0, 0, 1)]}.get(graph, hot(7))
    parts = [[values], [hot(4), hot(3)], [[(1, 1, "a", 0.0, 2, 0)] * 4, hot(2, 1) if graph != "no key" else hot(1)]]
    rows = [[rows_of(some, 100 * n) for n, some in enumerate(segments)] for segments in parts]
    got = walking.found(walking.units(at, rows))
    assert got["far"].total() == sum(sizes) == {"no key": 3 * 7 * 4}.get(graph, 7 * 7 * 6)
    assert max(sizes) <= chunk
    (measured,) = walking.statistics.slices.values()
    assert measured.pairs == sum(sizes)


def test_partial_results_are_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a step no more than a chunk is at hand before the next step goes on with it."""
    walking, alive = Walking(plan_of("one key", ("far",)), chunk=5), list[int]()
    step = walker.Walker._step

    def counted(self: Walker, unit: Unit, hulls: Any, number: int, partial: Any) -> Any:
        for found in step(self, unit, hulls, number, partial):
            alive.append(len(found.pairs))
            yield found

    monkeypatch.setattr(walker.Walker, "_step", counted)
    rows = [[rows_of(hot(8), 100 * position)] for position in range(3)]
    first = next(iter(walking.walker.join(list(walking.units(0, rows)))))
    assert first.rows.num_rows <= 5
    assert len(alive) == 2, "one chunk of each step, until more is asked for"
    assert max(alive) <= 5


equal_keys = st.lists(st.integers(0, 6).map(lambda second: hot(1, second)[0]), min_size=1, max_size=5)
segments_of_equal_keys = st.lists(equal_keys, min_size=1, max_size=2)


@given(at=st.integers(0, 2), parts=st.tuples(*[segments_of_equal_keys] * 3), reach=st.integers(1, 4))
def test_rows_that_were_not_kept_for_so_long_are_not_found_by_chance(
    at: int, parts: tuple[list[list[Given]], ...], reach: int
) -> None:
    """State of a time when no query needed it for as long as one does now."""
    plan = plan_of("one key", ("far", "near"))
    walking = Walking(plan)
    rows = [
        [rows_of(some, 1_000 * position + 100 * number) for number, some in enumerate(segments)]
        for position, segments in enumerate(parts)
    ]
    got = walking.found(walking.units(at, rows, [Lane(reach * SECOND, frozenset())]))
    times = {row["id"]: row["Ts"] for own in rows for some in own for row in some}
    everything = {name: [row for some in own for row in some] for name, own in zip("ABC", rows, strict=True)}
    for query in plan.script.queries:
        wanted: Counter[str] = Counter()
        for row in naive(query, everything):
            arrived, *others = sorted((row["a"], row["b"], row["c"]), key=lambda one: one // 1_000 != at)
            if all(times[arrived] - times[one] < timedelta(seconds=reach) for one in others):
                wanted[repr(row)] += 1
        assert got.get(query.name, Counter()) == wanted


def failing(*, completes: bool, where: str = "CAST(A.s AS INT) + B.v > 0") -> Iterator[dict[str, Counter[str]]]:
    """A predicate of all queries that raises on a row of A that is no number, from every position."""
    script = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts');" for name in "ABC")
    for name, window in (("one", 2), ("other", 5)):
        script += f"CREATE QUERY {name} AS SELECT A.id AS a, B.id AS b, C.id AS c FROM A, B, C"
        script += f" WHERE A.k = B.k AND B.k = C.k AND {where} WINDOW {window} SECONDS;"
    plan = compile_script(script)
    good: list[Given] = [(1, 0, "3", 0.0, 1, 0)]
    bad: list[Given] = [(2, 0, "x", 0.0, 1, 0)]
    for at in range(3):
        walking = Walking(plan)
        rows = [[rows_of([*good, *bad])], [rows_of([*good, *bad])], [rows_of([*good, *(bad if completes else [])])]]
        yield walking.found(walking.units(at, rows))


def test_a_predicate_that_fails_where_nothing_comes_of_it_is_nobodys_failure() -> None:
    wanted = Counter([repr({"a": 0, "b": 0, "c": 0})])
    assert list(failing(completes=False)) == [{"one": wanted, "other": wanted}] * 3


def test_a_predicate_that_fails_on_a_result_is_the_failure_of_its_queries() -> None:
    with pytest.raises(QueryFailed, match="CAST") as failure:
        list(failing(completes=True))
    assert failure.value.queries == ("one", "other")


def test_a_predicate_of_all_queries_is_evaluated_as_soon_as_its_columns_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts');" for name in "ABC")
    script += "CREATE QUERY q AS SELECT A.id AS a, B.id AS b, C.id AS c FROM A, B, C"
    script += " WHERE A.k = B.k AND B.k = C.k AND A.v + B.v > 3 WINDOW 2 SECONDS;"
    walking, looked = Walking(compile_script(script)), list[int]()
    step = walker.Walker._step

    def counted(self: Walker, unit: Unit, hulls: Any, number: int, partial: Any) -> Any:
        looked.append(number)
        return step(self, unit, hulls, number, partial)

    monkeypatch.setattr(walker.Walker, "_step", counted)
    rows = [[rows_of(hot(4), 100 * position)] for position in range(3)]
    assert [one.position for one in walking.chain.walks[0]] == [1, 2]
    assert not walking.found(walking.units(0, rows))
    assert looked == [0], "no partial result has come to the second step"


def test_rows_that_no_query_selects_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "".join(f"CREATE STREAM {name} ({COLUMNS}) WITH (time = 'Ts');" for name in "ABC")
    for name, least in (("one", 5), ("other", 7)):
        script += f"CREATE QUERY {name} AS SELECT A.id AS a, B.id AS b, C.id AS c FROM A, B, C"
        script += f" WHERE A.k = B.k AND B.k = C.k AND B.v > {least} AND C.v > 0 WINDOW 2 SECONDS;"
    plan = compile_script(script)
    step, looked = walker.Walker._step, list[tuple[int, int]]()

    def counted(self: Walker, unit: Unit, hulls: Any, number: int, partial: Any) -> Any:
        looked.append((number, len(partial.pairs)))
        return step(self, unit, hulls, number, partial)

    monkeypatch.setattr(walker.Walker, "_step", counted)
    everything = [Lane(10**15, frozenset())]
    for at, wanted in ((2, [(0, 4), (1, 4)]), (1, [(0, 1), (1, 4)])):
        walking, looked[:] = Walking(plan), []
        assert walking.chain.walks[2][0].position == 1
        rows = [[rows_of(hot(4), 100 * position)] for position in range(3)]
        rows[1][0][0]["v"] = 6
        (probe,) = walking.segments(walking.chain.pools[at], rows[at], 2, everything)
        got = walking.found(walking.compiled.units(probe, at, walking.seen(at, rows, everything)))
        assert {query: some.total() for query, some in got.items()} == {"one": 16}
        assert looked == wanted


CODE_OF_NOTHING = 7_046_029_254_386_353_131
"""The number whose code is zero."""


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_null_is_not_taken_for_the_key_whose_code_is_zero(at: int) -> None:
    assert codes([pa.array([CODE_OF_NOTHING])], 1).tolist() == [0]
    columns = "id BIGINT, k INT, j BIGINT, Ts TIMESTAMP"
    script = "".join(f"CREATE STREAM {name} ({columns}) WITH (time = 'Ts');" for name in "ABC")
    script += "CREATE QUERY q AS SELECT A.j AS a, C.j AS c FROM A, B, C WHERE A.k = B.k AND A.j = C.j WINDOW 2 SECONDS;"
    given_rows = [
        [{"id": n, "k": 1, "j": j, "Ts": START} for n, j in enumerate(some)]
        for some in ([None, CODE_OF_NOTHING, 5], [7], [CODE_OF_NOTHING, 5, None])
    ]
    walking = Walking(compile_script(script))
    got = walking.found(walking.units(at, [[some] for some in given_rows]))
    assert got == {"q": Counter(repr({"a": j, "c": j}) for j in (CODE_OF_NOTHING, 5))}


@pytest.mark.parametrize("at", [0, 1, 2])
def test_rows_without_a_key_meet_by_the_code_that_routes_them(at: int) -> None:
    """On Spark it is their chain's, the same for all."""
    plan = plan_of("no key", ("far",))
    walking = Walking(plan)
    schema = arrow_schema(plan.script.streams[0])
    values = [rows_of([(1, 1, "a", 0.0, v, 0)], 100 * v) for v in range(3)]
    batches = [pa.RecordBatch.from_pylist(some, schema=schema).append_column(CODE, pa.array([77])) for some in values]
    numbers = count(1)
    steps = sorted(walking.chain.walks[at], key=lambda step: step.position)
    seen = [taken_in(plan, one.pool, batches[one.position], 1, lambda: next(numbers)) for one in steps]
    (probe,) = taken_in(plan, walking.chain.pools[at], batches[at], 2, lambda: next(numbers))
    assert walking.found(walking.compiled.units(probe, at, seen))["far"].total() == 1


def test_a_query_sees_no_results_of_batches_before_it() -> None:
    plan = plan_of("one key", ("near", "far"))
    walking = Walking(plan)
    (chain,) = plan.chains
    compiled = CompiledChain(chain, {}, {"near": 3, "far": 1})
    pools = {pool.name: pool for pool in plan.pools}
    walking.walker = Walker(compiled, walking.statistics, {}, pools=pools, chunk=9, hash_bits=64)
    walking.compiled = compiled
    rows = [[rows_of(hot(1), 100 * position)] for position in range(3)]
    assert set(walking.found(walking.units(0, rows))) == {"far"}
