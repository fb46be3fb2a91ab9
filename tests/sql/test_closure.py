"""Systems of bounds over up to five sources, against all their solutions in whole numbers."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millstream.sql.closure import closed, contradiction, missing

Limits = dict[tuple[int, int], int]
SMALL = 2


@st.composite
def systems(draw: st.DrawFn, *, most: int = 5) -> tuple[Limits, int]:
    """Limits on some pairs, small enough that all solutions can be counted out."""
    count = draw(st.integers(2, most))
    pairs = list(permutations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=len(pairs)))
    return {pair: draw(st.integers(-SMALL, SMALL)) for pair in chosen}, count


def solutions(limits: Limits, count: int) -> np.ndarray:
    """All times that obey the limits, with that of the first source 0 and the others not far from it."""
    reach = SMALL * (count - 1)
    others = np.indices((2 * reach + 1,) * (count - 1)).reshape(count - 1, -1) - reach
    times = np.vstack([np.zeros_like(others[:1]), others]).T
    for (i, j), limit in limits.items():
        times = times[times[:, i] - times[:, j] <= limit]
    return times


def along(limits: Limits, path: tuple[int, ...]) -> int | None:
    """What the limits of a path add up to, where it has them all."""
    steps = list(pairwise(path))
    return sum(limits[step] for step in steps) if all(step in limits for step in steps) else None


def simple_paths(limits: Limits, count: int, pair: tuple[int, int]) -> list[int]:
    others = [source for source in range(count) if source not in pair]
    middles = [middle for size in range(len(others) + 1) for middle in permutations(others, size)]
    sums = [along(limits, (pair[0], *middle, pair[1])) for middle in middles]
    return [total for total in sums if total is not None]


@given(systems())
def test_limits_contradict_where_they_have_no_solution(system: tuple[Limits, int]) -> None:
    limits, count = system
    assert (closed(limits, count) is None) == (len(solutions(limits, count)) == 0)


@given(systems())
def test_the_closure_has_the_least_sum_of_all_paths(system: tuple[Limits, int]) -> None:
    limits, count = system
    least = closed(limits, count)
    if least is not None:
        pairs = list(permutations(range(count), 2))
        sums = {pair: simple_paths(limits, count, pair) for pair in pairs}
        assert least == {pair: min(found) for pair, found in sums.items() if found}


@given(systems())
def test_every_limit_of_a_bounded_closure_is_reached_by_some_solution(system: tuple[Limits, int]) -> None:
    limits, count = system
    bounded = {**dict.fromkeys(permutations(range(count), 2), SMALL), **limits}
    least = closed(bounded, count)
    if least is not None:
        times = solutions(bounded, count)
        for (i, j), limit in least.items():
            assert (times[:, i] - times[:, j]).max() == limit


@given(systems())
def test_a_closure_is_closed(system: tuple[Limits, int]) -> None:
    least = closed(*system)
    assert least is None or closed(least, system[1]) == least


@given(systems())
def test_a_contradiction_is_a_smallest_cycle_below_zero(system: tuple[Limits, int]) -> None:
    limits, count = system

    def below_zero(cycle: tuple[int, ...]) -> bool:
        total = along(limits, (*cycle, cycle[0]))
        return total is not None and total < 0

    cycle = contradiction(limits, count)
    sizes = [size for size in range(2, count + 1) if any(below_zero(p) for p in permutations(range(count), size))]
    assert bool(cycle) == bool(sizes)
    if cycle:
        assert below_zero(tuple(cycle))
        assert len(set(cycle)) == len(cycle) == sizes[0]


@given(systems(), st.integers(1, 3))
def test_what_is_missing_bounds_every_pair_and_contradicts_nothing(system: tuple[Limits, int], length: int) -> None:
    limits, count = system
    if closed(limits, count) is None:
        return
    added = missing(limits, count, length)
    least = closed({**limits, **added}, count)
    assert least is not None
    assert all(pair in least for pair in permutations(range(count), 2))
    assert not set(added) & set(limits)
    for pair in added:
        rest = closed({**limits, **{other: most for other, most in added.items() if other != pair}}, count)
        assert rest is not None
        assert pair not in rest
