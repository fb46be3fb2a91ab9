"""The memory of an executor is divided by need, and all of it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clusters import Cluster
from millstream.pipeline.adaptation.loads import SlotLoad
from millstream.pipeline.adaptation.shares import shares


def loads(*needs: int, spilled: int = 0) -> tuple[SlotLoad, ...]:
    slots = len(needs)
    return Cluster(list(range(slots)), ["a"] * slots, needs, [1] * slots, spilled=spilled).load().slots


def test_small_slots_get_what_they_need() -> None:
    assert shares(100, loads(30, 500, 10, 400)) == {0: 29, 1: 30, 2: 12, 3: 29}
    assert shares(100, loads(20, 500)) == {0: 25, 1: 75}
    assert shares(100, loads(40, 500)) == {0: 40, 1: 60}


def test_what_is_on_disk_is_needed_too() -> None:
    assert shares(100, loads(40, 500, spilled=0b11)) == {0: 40, 1: 60}


def test_what_nobody_needs_is_divided_evenly() -> None:
    assert shares(100, loads(0, 0)) == {0: 50, 1: 50}
    assert shares(100, loads(25, 45)) == {0: 40, 1: 60}
    assert shares(7, loads(5)) == {0: 7}


@given(st.integers(0, 10_000), st.lists(st.integers(0, 5_000), min_size=1, max_size=9))
def test_shares_are_fair(limit: int, needs: list[int]) -> None:
    found = shares(limit, loads(*needs))
    assert sum(found.values()) == limit
    assert all(share >= limit // (2 * len(needs)) for share in found.values())
    ordered = sorted(range(len(needs)), key=lambda slot: needs[slot])
    got = [found[slot] for slot in ordered]
    assert all(one <= other + 1 for one, other in pairwise(got)), "who needs more has no less"
    short = [slot for slot in found if found[slot] < needs[slot]]
    richest = max(found.values())
    assert all(found[slot] >= richest - 1 for slot in short), "who has too little has as much as any other"
