"""window-cost 4.3: the reaches that fit, against equations 12 and 13, and against all choices of small cases."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.plan.allot import PoolSlice, allot, pool_slices, shrink
from millstream.plan.load import Load, QueryDemand, StreamRate


def two(memory: float, *, spans: tuple[float, float] = (1_000, 1_000), sizes: tuple[float, float] = (1, 1)) -> Load:
    streams = (StreamRate("A", 10, row_bytes=sizes[0]), StreamRate("B", 50, row_bytes=sizes[1]))
    query = QueryDemand("q", ("A", "B"), ((0, spans[0]), (0, spans[1])), 0.005)
    return Load(streams=streams, queries=(query,), memory=memory)


def test_figure_9_all_memory_to_the_slower_stream() -> None:
    load = two(1_000)
    reaches = shrink(load)
    assert reaches == {"A": 100.0, "B": 0.0}
    assert load.within(reaches).results == pytest.approx(250.0)


def test_equation_12_what_the_slower_window_does_not_need_goes_to_the_faster() -> None:
    assert shrink(two(1_000, spans=(60, 60))) == pytest.approx({"A": 60.0, "B": 8.0})
    assert shrink(two(1e9, spans=(60, 30))) == {"A": 60.0, "B": 30.0}


def test_rows_of_many_bytes_are_worth_less() -> None:
    assert shrink(two(1_000, sizes=(6, 1))) == pytest.approx({"A": 0.0, "B": 20.0})


@given(st.floats(1, 100), st.floats(1, 100), st.floats(1, 60), st.floats(1, 60), st.floats(0, 1))
def test_equation_13_gives_the_same_output_rate(
    rate_a: float, rate_b: float, window_a: float, window_b: float, share: float
) -> None:
    """The rate is linear in one window, so one end of what is possible is best."""
    query = QueryDemand("q", ("A", "B"), ((0, window_a), (0, window_b)), 0.01)
    memory = share * (rate_a * window_a + rate_b * window_b)
    load = Load(streams=(StreamRate("A", rate_a), StreamRate("B", rate_b)), queries=(query,), memory=memory)
    least = max(0.0, (memory - rate_b * window_b) / rate_a)
    most = min(window_a, memory / rate_a)
    rates = [0.01 * ((rate_b - rate_a) * rate_a * reach + rate_a * memory) for reach in (least, most)]
    kept = load.within(shrink(load))
    assert kept.bytes <= memory * (1 + 1e-9) + 1e-9
    assert kept.results == pytest.approx(max(rates), rel=1e-6, abs=1e-9)


def slices_of(pools: list[list[tuple[int, int]]]) -> list[PoolSlice]:
    return [
        PoolSlice(str(number), start, start + 1, size, results)
        for number, parts in enumerate(pools)
        for start, (size, results) in enumerate(parts)
    ]


def results_of(pools: list[list[tuple[int, int]]], reaches: dict[str, float]) -> tuple[float, float]:
    """The bytes and the results of these reaches: a slice that is kept in part gives this part."""
    size = worth = 0.0
    for number, parts in enumerate(pools):
        for start, (nbytes, results) in enumerate(parts):
            share = min(max(reaches[str(number)] - start, 0.0), 1.0)
            size, worth = size + share * nbytes, worth + share * results
    return size, worth


def best_by_force(pools: list[list[tuple[int, int]]], memory: float) -> float:
    """All pools end at slices but one, which ends where memory does; every such choice is tried."""
    best = 0.0
    for ends in product(*(range(len(parts) + 1) for parts in pools)):
        for open_ in range(len(pools)):
            reaches = {str(number): float(end) for number, end in enumerate(ends)}
            left = memory - results_of(pools, reaches)[0]
            if left < 0:
                continue
            if ends[open_] < len(pools[open_]):
                reaches[str(open_)] += min(left / pools[open_][ends[open_]][0], 1.0)
            best = max(best, results_of(pools, reaches)[1])
    return best


slices = st.tuples(st.integers(1, 9), st.integers(0, 20))


@given(st.lists(st.lists(slices, min_size=1, max_size=4), min_size=1, max_size=3), st.floats(0, 1))
def test_no_choice_of_slices_gives_more(pools: list[list[tuple[int, int]]], share: float) -> None:
    """Whether results per byte fall with age or not: nearer slices are kept before farther ones."""
    memory = share * sum(size for parts in pools for size, _ in parts)
    size, worth = results_of(pools, allot(slices_of(pools), memory))
    assert size <= memory + 1e-6
    assert worth == pytest.approx(best_by_force(pools, memory), rel=1e-6, abs=1e-6)


def test_best_by_force_is_at_least_as_good_as_a_grid() -> None:
    """What the test above compares with is not itself missing something."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        pools = [[(int(rng.integers(1, 9)), int(rng.integers(0, 20))) for _ in range(3)] for _ in range(2)]
        memory = rng.uniform(0, 1) * sum(size for parts in pools for size, _ in parts)
        grid = [
            worth
            for one, other in product(np.linspace(0, 3, 61), repeat=2)
            for size, worth in [results_of(pools, {"0": one, "1": other})]
            if size <= memory
        ]
        assert max(grid) <= best_by_force(pools, memory) + 1e-9


def test_a_far_query_needs_the_near_rows_too() -> None:
    """Seconds 8 to 10 of A are worth most per byte, but not if seconds 0 to 8, which nobody reads, are paid as well."""
    streams = (StreamRate("A", 10), StreamRate("B", 10))
    far = QueryDemand("far", ("A", "B"), ((8, 10), (0, 0)), 0.02)
    near = QueryDemand("near", ("A", "B"), ((0, 0), (0, 10)), 0.01)
    load = Load(streams=streams, queries=(far, near), memory=100)
    assert shrink(load) == {"A": 0.0, "B": 10.0}
    weighty = Load(streams=streams, queries=(QueryDemand("far", far.streams, far.spans, 0.09), near), memory=100)
    assert shrink(weighty) == {"A": 10.0, "B": 0.0}


def test_shared_slices_count_for_all_their_queries() -> None:
    streams = (StreamRate("A", 10), StreamRate("B", 50))
    queries = tuple(QueryDemand(f"q{w}", ("A", "B"), ((0, w), (0, w)), 0.01, weight=w) for w in (1, 2, 5))
    slices = {(one.pool, one.start): one for one in pool_slices(Load(streams=streams, queries=queries))}
    assert slices["A", 0.0] == PoolSlice("A", 0.0, 1, 10, pytest.approx(0.01 * 500 * (1 + 2 + 5)))
    assert slices["B", 2] == PoolSlice("B", 2, 5, 150, pytest.approx(0.01 * 500 * 5 * 3))


@pytest.mark.parametrize("seed", range(12))
def test_three_streams_against_a_grid(seed: int) -> None:
    """What slices give depends on the other pools here: near the best, not always at it."""
    rng = np.random.default_rng(seed)
    streams = tuple(StreamRate(name, rng.uniform(1, 20)) for name in "ABC")
    spans = [tuple((0.0, rng.uniform(1, 10)) for _ in range(3)) for _ in range(2)]
    queries = (
        QueryDemand("abc", ("A", "B", "C"), spans[0], 0.001),
        QueryDemand("ab", ("A", "B"), spans[1][:2], 0.01),
    )
    whole = Load(streams=streams, queries=queries)
    load = Load(streams=streams, queries=queries, memory=whole.bytes * rng.uniform(0.2, 0.8))
    kept = load.within(shrink(load))
    assert kept.bytes <= load.memory * (1 + 1e-9)
    grid = 0.0
    for shares in product(np.linspace(0, 1, 17), repeat=3):
        other = load.within({name: share * load.reaches[name] for name, share in zip("ABC", shares, strict=True)})
        if other.bytes <= load.memory:
            grid = max(grid, other.results)
    assert kept.results >= 0.9 * grid


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 50)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 50)), min_size=1, max_size=3),
    st.floats(0.01, 0.99),
)
def test_rows_that_are_not_kept_as_long_take_no_memory_there(
    a: list[tuple[int, int]], b: list[tuple[int, int]], share: float
) -> None:
    """Where selections let old rows go, the far slices are cheaper; against a grid of reaches."""
    near, far = (QueryDemand(n, ("A", "B"), ((0, age), (0, age)), s) for n, age, s in (("n", 2, 0.02), ("f", 8, 0.01)))
    parts = {"A": tuple((float(age), float(size)) for age, size in a), "B": tuple((float(x), float(y)) for x, y in b)}
    load = Load(streams=(StreamRate("A", 3), StreamRate("B", 5)), queries=(near, far), kept_for=parts)
    load = replace(load, memory=share * load.bytes)
    reaches = shrink(load)

    def size(reaches: dict[str, float]) -> float:
        return sum(load.bytes_within(pool, reach) for pool, reach in reaches.items())

    assert size(reaches) <= load.memory * (1 + 1e-9)
    grid = [
        load.within(tried).results
        for one, other in product(np.linspace(0, 8, 33), repeat=2)
        if size(tried := {"A": float(one), "B": float(other)}) <= load.memory
    ]
    assert load.within(reaches).results >= max(grid) * (1 - 1e-9)
