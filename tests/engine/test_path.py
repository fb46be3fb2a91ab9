"""Paths of operators: what they take in and release in a unit of time."""

from __future__ import annotations

import itertools
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.path import Path, Stage

Sized = tuple[float, float, float, float]
stages = st.tuples(st.floats(0.1, 10), st.floats(0.05, 1.5), st.floats(0.5, 9), st.floats(0.5, 9))


def path(*stages: tuple[float, ...]) -> Path:
    """Stages by cost, selectivity, and the sizes of a row before and after."""
    return Path([Stage(f"o{n}", *some) for n, some in enumerate(stages, start=1)])


def test_capacities_are_those_of_op_sched() -> None:
    """Table 1's path of operators 1 and 3: one unit for the first, a fifth of five for the second."""
    one = path((1, 0.2), (5, 0.8))
    assert one.capacity == pytest.approx(1 / (1 + 0.2 * 5))
    assert one.stages[0].release == pytest.approx(0.8)
    assert one.stages[1].release == pytest.approx(0.2)
    assert one.released(0, 2) == pytest.approx(0.5)
    assert one.envelope == ((0, 1), (1, 2))


@given(st.lists(stages, min_size=1, max_size=5))
def test_a_stretch_takes_in_and_releases_what_its_operators_do_row_by_row(given_stages: list[Sized]) -> None:
    one = path(*given_stages)
    for start, stop in itertools.combinations(range(len(given_stages) + 1), 2):
        some = given_stages[start:stop]
        time = sum(cost * prod(share for _, share, *_ in some[:n]) for n, (cost, *_) in enumerate(some))
        kept = 0 if stop == len(given_stages) else prod(share for _, share, *_ in some) * some[-1][3]
        assert one.rows_per_time(start, stop) == pytest.approx(1 / time)
        assert one.released(start, stop) == pytest.approx((some[0][2] - kept) / time)
    assert one.capacity == one.rows_per_time(0, len(given_stages))


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.05, 1.5)), min_size=1, max_size=6))
def test_the_lower_envelope_gets_flatter_and_lies_below_every_operator(given_stages: list[tuple[float, float]]) -> None:
    one = path(*given_stages)
    slopes = [one.released(start, stop) for start, stop in one.envelope]
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(slopes))
    assert [0, *(stop for _, stop in one.envelope)] == [*(start for start, _ in one.envelope), len(given_stages)]
    for start, stop in one.envelope:
        for other in range(start + 1, len(given_stages) + 1):
            assert one.released(start, other) <= one.released(start, stop) + 1e-9
        assert one.slopes[start:stop] == (one.released(start, stop),) * (stop - start)
    points = chart(given_stages)
    for start, stop in one.envelope:
        (began, held), (ended, left) = points[start], points[stop]
        for at, memory in points[start : stop + 1]:
            assert held + (left - held) * (at - began) / (ended - began) <= memory + 1e-9


def chart(given_stages: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Chain's chart of one row: the time it has taken after each operator, and the memory it still needs."""
    points, share, time = [(0.0, 1.0)], 1.0, 0.0
    for cost, selectivity in given_stages:
        time, share = time + share * cost, share * selectivity
        points.append((time, share))
    return [*points[:-1], (time, 0.0)]


def test_what_costs_nothing_is_no_division_by_zero() -> None:
    free = path((0, 0.5), (0, 0.5))
    assert free.stages[0].release > 1e9
    assert free.capacity > 1e9
    assert repr(free) == "Path(o1 > o2)"


def test_of_equally_steep_stretches_the_longest_is_one() -> None:
    even = path((1, 0.5), (2, 0.5))
    assert even.released(0, 1) == even.released(0, 2) == 0.5
    assert even.envelope == ((0, 2),)
