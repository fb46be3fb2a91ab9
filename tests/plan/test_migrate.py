"""From one chain to the next by splits and merges."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import InternalError
from millstream.model.interval import Interval
from millstream.plan import Plan
from millstream.plan.migrate import Close, Merge, Open, Split, apply, chain_steps, migrate

JOIN = "SELECT A.k FROM A, B WHERE A.k = B.k"
SECOND = 1_000_000


@st.composite
def chains(draw: st.DrawFn) -> list[Interval]:
    borders = sorted(draw(st.sets(st.integers(-20, 20), max_size=8)))
    pieces = [Interval(lo, hi) for lo, hi in pairwise(borders)]
    return [piece for piece in pieces if draw(st.booleans())]


@given(chains(), chains())
def test_the_steps_lead_from_the_old_chain_to_the_new(old: list[Interval], new: list[Interval]) -> None:
    assert apply(old, chain_steps(old, new)) == new


@given(chains())
def test_nothing_to_do_between_equal_chains(chain: list[Interval]) -> None:
    assert chain_steps(chain, chain) == ()


@given(chains(), chains())
def test_only_what_differs_is_touched(old: list[Interval], new: list[Interval]) -> None:
    """A slice that stands in both chains is neither split, merged, opened nor closed."""
    for kept in set(old) & set(new):
        for step in chain_steps(old, new):
            if isinstance(step, Open | Close):
                assert step.interval.hi <= kept.lo or step.interval.lo >= kept.hi
            else:
                assert not kept.lo < step.at < kept.hi


def test_a_query_that_comes_splits_and_one_that_goes_merges(planned: Callable[..., Plan]) -> None:
    two = planned(f"{JOIN} WINDOW 1 SECOND", f"{JOIN} WINDOW 9 SECONDS", slicing="memory")
    three = planned(f"{JOIN} WINDOW 1 SECOND", f"{JOIN} WINDOW 9 SECONDS", f"{JOIN} WINDOW 4 SECONDS", slicing="memory")
    signature = two.chains[0].signature
    assert migrate(two, three) == {signature: (Split(-4 * SECOND + 1), Split(4 * SECOND))}
    assert migrate(three, two) == {signature: (Merge(-4 * SECOND + 1), Merge(4 * SECOND))}
    assert migrate(two, two) == {}


def test_a_wider_query_opens_and_a_new_chain_opens_whole(planned: Callable[..., Plan]) -> None:
    narrow = planned(f"{JOIN} WINDOW 1 SECOND", slicing="memory")
    wide = planned(f"{JOIN} WINDOW 1 SECOND", f"{JOIN} WINDOW A 3 SECONDS, B 1 SECOND", slicing="memory")
    signature = narrow.chains[0].signature
    assert migrate(narrow, wide) == {signature: (Open(Interval(SECOND, 3 * SECOND)),)}
    assert migrate(wide, narrow) == {signature: (Close(Interval(SECOND, 3 * SECOND)),)}
    assert migrate(planned(), narrow) == {signature: (Open(Interval.window(SECOND)),)}


@pytest.mark.parametrize("step", [Split(5), Merge(5)])
def test_a_step_that_does_not_fit_is_a_bug(step: Split | Merge) -> None:
    with pytest.raises(InternalError):
        apply([Interval(0, 5)], [step])
