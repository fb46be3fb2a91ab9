"""The estimate of what is missing, against rows that are really shed and really joined: two and three streams, rows and
keys, shares that change from batch to batch, and rows that are gone because memory was short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.plan import Plan
from millstream.plan.completeness import BY_KEYS, BY_ROWS, Completeness, Stretch
from millstream.plan.nodes import Member

SECOND = 1_000_000
WINDOWS = (4, 15, 60)
KEYS, SECONDS = 200, 10
"""The length of a batch in event time."""
TWO = tuple(f"SELECT A.k FROM A, B WHERE A.k = B.k WINDOW {seconds} SECONDS" for seconds in WINDOWS)
THREE = tuple(f"SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW {seconds} SECONDS" for seconds in (5, 20))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a stream over all batches, with whether each was kept."""

    times: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    batches: npt.NDArray[np.int64]
    kept: npt.NDArray[np.bool_]


def came(rng: np.random.Generator, counts: list[int], shares: list[float], ranks: np.ndarray, by_keys: bool) -> Rows:
    """Batches of so many rows, of which these shares are kept; a key is kept where its rank is below the share."""
    batches = np.repeat(np.arange(len(counts)), counts)
    times = (batches * SECONDS * SECOND + rng.integers(0, SECONDS * SECOND, len(batches))).astype(np.int64)
    keys = rng.integers(0, KEYS, len(batches))
    share = np.array(shares)[batches]
    return Rows(times, keys, batches, (ranks[keys] if by_keys else rng.random(len(batches))) < share)


def counted(member: Member, rows: list[Rows], alive: Callable[[int, Rows, int], np.ndarray] | None = None) -> float:
    """The true share of a query's results, by loops over keys. `alive` says which rows at a position were still there
    for a batch.
    """
    there, every = 0, 0
    for key in range(KEYS):
        mine = [np.flatnonzero(one.keys == key) for one in rows]
        found = [(place,) for place in mine[0]]
        for position in range(1, len(rows)):
            longer = []
            for some in found:
                fits = np.ones(len(mine[position]), dtype=bool)
                for before, place in enumerate(some):
                    bound = member.bound(before, position)
                    apart = rows[position].times[mine[position]] - rows[before].times[place]
                    fits &= (apart >= bound.lo) & (apart < bound.hi)
                longer += [(*some, place) for place in mine[position][fits]]
            found = longer
        every += len(found)
        for some in found:
            kept = all(one.kept[place] for one, place in zip(rows, some, strict=True))
            if kept and alive is not None:
                last = max(one.batches[place] for one, place in zip(rows, some, strict=True))
                kept = all(alive(last, one, place) for one, place in zip(rows, some, strict=True))
            there += kept
    return there / every if every else 1.0


def fed(plan: Plan, rows: Mapping[str, Rows], shares: Mapping[str, list[float]], *, by_keys: bool) -> Completeness:
    """The estimate after all batches."""
    found = Completeness(by_keys=by_keys)
    members = [member for chain in plan.chains for member in chain.members]
    for batch in range(max(len(one) for one in shares.values())):
        stretches = {}
        for name, one in rows.items():
            times, kept = one.times[one.batches == batch], one.kept[one.batches == batch]
            if len(times):
                share = shares[name][batch] if by_keys else float(kept.mean())
                stretches[name] = Stretch(int(times.min()), int(times.max()), len(times), share)
        found.saw(stretches, members)
    return found


def members_of(plan: Plan) -> dict[str, Member]:
    return {member.name: member for chain in plan.chains for member in chain.members}


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]), min_size=8, max_size=8))
@pytest.mark.parametrize("by_keys", [False, True], ids=["rows", "keys"])
def test_two_streams_whose_shares_change(
    planned: Callable[..., Plan], by_keys: bool, seed: int, some: list[float]
) -> None:
    rng, plan = np.random.default_rng(seed), planned(*TWO)
    ranks = rng.permutation(KEYS) / KEYS
    shares = {"A": some, "B": some if by_keys else some[::-1]}
    counts = {"A": rng.integers(50, 500, 8).tolist(), "B": rng.integers(50, 500, 8).tolist()}
    rows = {name: came(rng, counts[name], shares[name], ranks, by_keys) for name in "AB"}
    estimated = fed(plan, rows, shares, by_keys=by_keys).shares()
    for name, member in members_of(plan).items():
        true = counted(member, [rows[stream.name] for stream in member.streams])
        assert estimated[name] == pytest.approx(true, abs=0.05)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("by_keys", [False, True], ids=["rows", "keys"])
def test_three_streams_whose_shares_change(planned: Callable[..., Plan], by_keys: bool, seed: int) -> None:
    rng, plan = np.random.default_rng(seed), planned(*THREE)
    ranks = rng.permutation(KEYS) / KEYS
    alike = rng.choice([0.3, 0.5, 0.7, 1.0], 8).tolist()
    shares = {name: alike if by_keys else rng.choice([0.4, 0.7, 1.0], 8).tolist() for name in "ABC"}
    rows = {name: came(rng, rng.integers(150, 400, 8).tolist(), shares[name], ranks, by_keys) for name in "ABC"}
    estimated = fed(plan, rows, shares, by_keys=by_keys).shares()
    for name, member in members_of(plan).items():
        true = counted(member, [rows[stream.name] for stream in member.streams])
        assert estimated[name] == pytest.approx(true, abs=0.05)


def test_half_of_the_rows_leave_a_quarter_and_half_of_the_keys_half(
    planned: Callable[..., Plan],
) -> None:
    plan = planned(TWO[1])
    rows = {name: Stretch(0, 10 * SECOND, 1_000, 0.5) for name in "AB"}
    for by_keys, left, how in ((False, 0.25, BY_ROWS), (True, 0.5, BY_KEYS)):
        found = Completeness(by_keys=by_keys)
        found.saw(rows, members_of(plan).values())
        assert found.shares() == pytest.approx({"q1": left})
        assert found.how == how


def test_keys_kept_at_three_times_are_those_of_the_lowest_share(planned: Callable[..., Plan]) -> None:
    """C comes when the load has fallen; the rows of A and B that it meets have the same keys left out."""
    found, members = Completeness(by_keys=True), list(members_of(planned(THREE[1])).values())
    found.saw({name: Stretch(0, 1 * SECOND, 1_000, 0.3) for name in "AB"}, members)
    found.saw({"C": Stretch(2 * SECOND, 3 * SECOND, 1_000, 1.0)}, members)
    assert found.shares() == pytest.approx({"q1": 0.3})
    assert found.counted["q1"].all == pytest.approx(1e9)


def test_a_query_of_which_nothing_is_shed_is_whole(planned: Callable[..., Plan]) -> None:
    plan = planned(TWO[0], TWO[1])
    found = Completeness(by_keys=True)
    found.saw({name: Stretch(0, 10 * SECOND, 1_000, 0.5) for name in "AB"}, members_of(plan).values(), {"q2"})
    assert found.shares() == pytest.approx({"q1": 0.5, "q2": 1.0})


def test_a_query_that_begins_later_does_not_miss_what_was_shed_before(planned: Callable[..., Plan]) -> None:
    """And one that is dropped is not told of any more."""
    both = members_of(planned(TWO[0], TWO[1]))
    found = Completeness(by_keys=True)
    found.saw({name: Stretch(0, 10 * SECOND, 1_000, 0.5) for name in "AB"}, [both["q1"]])
    later = {name: Stretch(500 * SECOND, 510 * SECOND, 1_000, 1.0) for name in "AB"}
    found.saw(later, [both["q2"]])
    assert found.shares() == pytest.approx({"q2": 1.0})


def test_counting_goes_on_from_what_was_saved(planned: Callable[..., Plan]) -> None:
    """Only pairs across the stop are not counted: here there are none."""
    members = list(members_of(planned(TWO[0])).values())
    parts = [
        {name: Stretch(first * SECOND, (first + 10) * SECOND, rows, share) for name in "AB"}
        for first, rows, share in ((0, 1_000, 0.5), (100, 2_000, 0.8))
    ]
    whole = Completeness(by_keys=True)
    for part in parts:
        whole.saw(part, members)
    first = Completeness(by_keys=True)
    first.saw(parts[0], members)
    saved = {name: (kept, every) for name, (kept, every) in first.to_json().items()}
    second = Completeness(by_keys=True, counted=saved)
    assert second.shares() == first.shares() == pytest.approx({"q1": 0.5})
    second.saw(parts[1], members)
    assert second.shares() == pytest.approx(whole.shares())
    assert second.shares()["q1"] == pytest.approx((0.5 + 4 * 0.8) / 5)


@pytest.mark.parametrize("by_keys", [False, True], ids=["rows", "keys"])
@pytest.mark.parametrize("reach", [3, 12, 25])
def test_rows_that_are_gone_because_memory_was_short(planned: Callable[..., Plan], reach: int, by_keys: bool) -> None:
    """From batch 4 on rows of A are kept for so many seconds before the batch only; some keys or rows are shed too."""
    rng, plan = np.random.default_rng(reach), planned(*TWO)
    members = members_of(plan)
    ranks = rng.permutation(KEYS) / KEYS
    shares = [1.0] * 6 + [0.6] * 6
    rows = {name: came(rng, [300] * 12, shares, ranks, by_keys) for name in "AB"}

    def floor(batch: int) -> float:
        return (batch * SECONDS - reach) * SECOND if batch >= 4 else -inf

    found = Completeness(by_keys=by_keys)
    for batch in range(12):
        stretches = {}
        for name, one in rows.items():
            times, kept = one.times[one.batches == batch], one.kept[one.batches == batch]
            share = shares[batch] if by_keys else float(kept.mean())
            stretches[name] = Stretch(int(times.min()), int(times.max()), len(times), share)
        floors = {
            name: [floor(batch) if one.name == "A" else None for one in member.streams]
            for name, member in members.items()
        }
        found.saw(stretches, members.values(), (), floors if batch >= 4 else None)
    for name, member in members.items():
        streams = [stream.name for stream in member.streams]

        def alive(batch: int, one: Rows, place: int) -> bool:
            return one is not rows["A"] or one.times[place] >= floor(batch)

        true = counted(member, [rows[stream] for stream in streams], alive)
        assert found.shares()[name] == pytest.approx(true, abs=0.05)
    assert found.shares()["q3"] < found.shares()["q1"], "the widest window misses most"
