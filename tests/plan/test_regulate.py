"""window-cost 4.2: the shares to keep, against equations 10 and 11, and against all points of a grid."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.plan.load import Load, PairsMade, QueryDemand, StreamRate
from millstream.plan.regulate import compare_shedding, keep_keys, keep_rows

positive = st.floats(0.5, 500)


def two(
    rate_a: float, rate_b: float, capacity: float, *, pair_cost: float = 0.0, spans: tuple[float, float] = (9, 1)
) -> Load:
    query = QueryDemand("q", ("A", "B"), ((0, spans[0]), (0, spans[1])), 0.02)
    streams = (StreamRate("A", rate_a), StreamRate("B", rate_b))
    return Load(streams=streams, queries=(query,), capacity=capacity, pair_cost=pair_cost)


def random_load(seed: int, streams: int, queries: int) -> Load:
    rng = np.random.default_rng(seed)
    names = "ABCDE"[:streams]
    given_streams = tuple(StreamRate(name, rng.uniform(1, 100), rng.uniform(0.2, 2)) for name in names)
    asked = []
    for number in range(queries):
        some = sorted(rng.choice(list(names), int(rng.integers(2, min(streams, 4) + 1)), replace=False).tolist())
        spans = tuple((0.0, rng.uniform(0.1, 3)) for _ in some)
        share = rng.uniform(0.01, 0.1) ** (len(some) - 1)
        asked.append(QueryDemand(f"q{number}", tuple(some), spans, share, rng.uniform(0.1, 5)))
    load = Load(streams=given_streams, queries=tuple(asked), pair_cost=float(rng.choice([0.0, 0.1, 1.0, 10.0])))
    return replace(load, capacity=load.work * rng.uniform(0.02, 0.9))


def best_of_a_grid(load: Load, steps: int) -> float:
    """The most results of all shares that are multiples of 1/steps and fit."""
    names = [stream.name for stream in load.streams]
    shares = np.array(list(product(np.linspace(0, 1, steps + 1), repeat=len(names)))).T
    columns = dict(zip(names, shares, strict=True))
    work = sum(load.row_work[name] * column for name, column in columns.items())
    work = work + sum(
        load.pair_cost * made.per_second * prod(columns[name] for name in made.streams) for made in load.pairs
    )
    results = sum(
        query.weight * load.results_of(query) * prod(columns[name] for name in query.streams) for query in load.queries
    )
    return float(np.max(results, where=work <= load.capacity, initial=0.0))


def test_figure_8_half_of_the_service_for_each_stream() -> None:
    load = two(80, 20, capacity=10)
    shares = keep_rows(load)
    assert shares == pytest.approx({"A": 5 / 80, "B": 5 / 20})
    assert load.kept(shares).results == pytest.approx(0.02 * 5 * 5 * 10)


def test_the_papers_example_a_stream_below_its_half_is_kept_whole() -> None:
    assert keep_rows(two(5, 100, capacity=50)) == pytest.approx({"A": 1.0, "B": 0.45})


@given(positive, positive, st.floats(0.05, 0.95), st.floats(0, 5), st.tuples(positive, positive))
def test_equation_11_whatever_the_windows_and_whatever_pairs_cost(
    rate_a: float, rate_b: float, share: float, pair_cost: float, spans: tuple[float, float]
) -> None:
    """Water-filling: the work of rows is split evenly, unless a stream is whole."""
    load = two(rate_a, rate_b, 1, pair_cost=pair_cost, spans=spans)
    load = replace(load, capacity=share * load.work)
    shares = keep_rows(load)
    kept = load.kept(shares)
    assert kept.work <= load.capacity * (1 + 1e-9)
    every = np.linspace(0, 1, 2_001)[1:]
    pairs = pair_cost * load.pairs[0].per_second
    others = np.clip((load.capacity - rate_a * every) / (rate_b + pairs * every), 0, 1)
    assert shares["A"] * shares["B"] >= 0.99 * float(np.max(every * others))
    if pair_cost == 0:
        half = max(min(rate_a, load.capacity / 2), load.capacity - rate_b)
        assert kept.row_work == pytest.approx({"A": half, "B": load.capacity - half}, rel=1e-4)


@pytest.mark.parametrize("seed", range(60))
def test_no_point_of_a_grid_gives_more(seed: int) -> None:
    streams, steps = ((2, 200), (3, 30), (4, 12))[seed % 3]
    load = random_load(seed, streams, 1 + seed % 7)
    kept = load.kept(keep_rows(load))
    assert kept.work <= load.capacity * (1 + 1e-9)
    assert kept.results >= best_of_a_grid(load, steps) * 0.99


def test_where_queries_compete_one_is_served_well() -> None:
    """Half of the service for each of two joins gives a quarter of the results of each."""
    streams = tuple(StreamRate(name, 100) for name in "ABCD")
    queries = (
        QueryDemand("ab", ("A", "B"), ((0, 1), (0, 1)), 0.1),
        QueryDemand("cd", ("C", "D"), ((0, 1), (0, 1)), 0.1, weight=1.1),
    )
    shares = keep_rows(Load(streams=streams, queries=queries, capacity=200))
    assert shares == pytest.approx({"A": 0, "B": 0, "C": 1, "D": 1}, abs=1e-6)


def test_what_is_left_when_the_best_query_is_whole_goes_to_others() -> None:
    streams = tuple(StreamRate(name, 100) for name in "ABC")
    queries = (
        QueryDemand("ab", ("A", "B"), ((0, 1), (0, 1)), 0.1, weight=10),
        QueryDemand("ac", ("A", "C"), ((0, 1), (0, 1)), 0.1),
    )
    shares = keep_rows(Load(streams=streams, queries=queries, capacity=240))
    assert shares == pytest.approx({"A": 1, "B": 1, "C": 0.4}, abs=1e-4)


def test_all_is_kept_where_work_fits_and_nothing_where_no_work_can_be_done() -> None:
    assert keep_rows(two(80, 20, capacity=100)) == {"A": 1.0, "B": 1.0}
    assert keep_rows(two(80, 20, capacity=0)) == {"A": 0.0, "B": 0.0}
    assert keep_keys(two(80, 20, capacity=100)) == 1.0
    assert keep_keys(two(80, 20, capacity=25)) == 0.25


def test_pairs_that_were_measured_count() -> None:
    load = two(80, 20, capacity=100, pair_cost=1.0)
    measured = replace(load, made=(PairsMade(("A", "B"), 900.0),))
    assert keep_keys(measured) == pytest.approx(0.1)
    kept = measured.kept(keep_rows(measured))
    assert kept.work == pytest.approx(100, rel=1e-6)
    assert kept.pairs[0].per_second < 900


@given(st.integers(0, 10_000), st.floats(0.05, 0.95))
def test_keys_never_give_fewer_for_queries_of_the_same_streams(seed: int, share: float) -> None:
    load = random_load(seed, streams=2, queries=3)
    shed = compare_shedding(replace(load, capacity=share * load.work))
    assert shed.better == "shed_keys"
    assert shed.keys_results == pytest.approx(share)
    assert shed.rows_results <= share * (1 + 1e-9)


def test_rows_can_give_more_where_some_queries_are_worth_more() -> None:
    streams = tuple(StreamRate(name, 100) for name in "ABCD")
    queries = (
        QueryDemand("ab", ("A", "B"), ((0, 1), (0, 1)), 0.1, weight=10),
        QueryDemand("cd", ("C", "D"), ((0, 1), (0, 1)), 0.1),
    )
    shed = compare_shedding(Load(streams=streams, queries=queries, capacity=200))
    assert shed.better == "shed_rows"
    assert (shed.rows_results, shed.keys_results) == pytest.approx((10 / 11, 0.5))


def test_fifty_queries_over_five_streams_take_a_few_milliseconds() -> None:
    load = random_load(1, streams=5, queries=50)
    assert keep_rows(load) == keep_rows(load)
    spent = []
    for _ in range(9):
        began = time.process_time()
        keep_rows(load)
        spent.append(time.process_time() - began)
    assert min(spent) < 0.01


amounts = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))


@given(st.lists(st.tuples(amounts, amounts), min_size=3, max_size=3), st.lists(amounts, min_size=8, max_size=8))
def test_shares_fit_whatever_is_zero(streams: list[tuple[float, float]], numbers: list[float]) -> None:
    """Silent streams, rows or pairs that cost nothing, queries that give nothing, and a stream joined with itself."""
    given_streams = tuple(StreamRate(name, *one) for name, one in zip("ABC", streams, strict=True))
    sets = (("A", "B"), ("B", "C"), ("A", "A"))
    queries = tuple(
        QueryDemand(f"q{number}", pair, ((0, 1), (0, 1)), numbers[number], numbers[number + 3])
        for number, pair in enumerate(sets)
    )
    load = Load(streams=given_streams, queries=queries, pair_cost=numbers[6], capacity=numbers[7])
    shares = keep_rows(load)
    assert all(0 <= share <= 1 for share in shares.values())
    kept = load.kept(shares)
    assert kept.work <= load.capacity * (1 + 1e-6)
    assert kept.results >= 0
