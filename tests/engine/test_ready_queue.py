"""The queue chooses as a sort by the policy's keys would, whatever has changed or gone in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.engine.path import Path, Stage
from millstream.engine.policies import make_policy
from millstream.engine.policy import Load, Policy, Runnable
from millstream.engine.ready_queue import ReadyQueue

PATHS = [
    Path([Stage(f"{n} {at}", cost, share, near=at, far=at + n + 1) for at, (cost, share) in enumerate(stages)])
    for n, stages in enumerate([[(1, 0.5), (4, 0.9), (1, 0.1)], [(2, 0.2), (2, 1.0)], [(9, 0.5)]])
]
STATIC = ("fifo", "lwo", "swf", "greedy", "path_capacity", "chain", "segment", "simplified_segment")
"""Policies whose keys follow from the work alone."""


class Still:
    """A load that stands still."""

    now = 0.0

    def memory(self) -> float:
        return 0.0


def plans() -> dict[str, list[Path]]:
    return {"q": PATHS}


PLACES = [(one, at) for one in PATHS for at in range(len(one.stages))]
steps = st.tuples(
    st.sampled_from(["put", "put", "choose", "go on", "drop", "clear"]),
    st.integers(0, 4),
    st.sampled_from(PLACES),
    st.integers(0, 9),
)


@pytest.mark.parametrize("name", STATIC)
@settings(max_examples=60)
@given(first=st.lists(st.integers(0, 9), min_size=5, max_size=5), steps=st.lists(steps, min_size=6, max_size=30))
def test_it_chooses_as_a_sort_would(
    name: str, first: list[int], steps: list[tuple[str, int, tuple[Path, int], int]]
) -> None:
    """Works are told apart by their numbers, so no two keys are equal."""
    policy, queue, waiting = make_policy(name), ReadyQueue[int](), dict[int, Runnable]()
    policy.learn(plans())
    opening = [("put", number, PLACES[0], arrived) for number, arrived in enumerate(first)]
    for step, number, (path, at), arrived in [*opening, ("choose", 0, PLACES[0], 0), *steps]:
        if step == "put":
            waiting[number] = Runnable(path, at, 1.0, arrived, number)
            queue.put(number, waiting[number])
        elif step == "clear":
            queue.clear()
            waiting.clear()
        else:
            chosen = queue.choose(policy, Still(), plans)
            assert chosen == min(waiting, key=lambda number: policy.key(waiting[number]), default=None)
            if chosen is None or step == "choose":
                continue
            work = waiting[chosen]
            assert queue[chosen] is work
            if step == "go on" and work.at + 1 < len(work.path.stages):
                queue.advance(chosen)
                waiting[chosen] = queue[chosen]
                assert waiting[chosen].at == work.at + 1
            else:
                queue.drop(chosen)
                del waiting[chosen]


def test_work_a_stage_further_is_otherwise_the_same() -> None:
    queue = ReadyQueue[str]()
    queue.put("a", Runnable(PATHS[0], 0, 3.0, 5.0, 7))
    queue.advance("a")
    work = queue["a"]
    assert (work.path, work.at, work.queue, work.arrived, work.number) == (PATHS[0], 1, 3.0, 5.0, 7)


class Fancy(Policy):
    """Wishes for one number, and counts what it is asked and told."""

    name = "fancy"

    def __init__(self) -> None:
        self.wish, self.asked = 0, 0
        self.learned: list[int] = []
        self.taken: list[float] = []

    def learn(self, plans: Mapping[str, Sequence[Path]]) -> None:
        self.learned.append(sum(map(len, plans.values())))

    def key(self, work: Runnable) -> tuple[float, ...]:
        self.asked += 1
        return (work.number != self.wish, work.number)

    def chosen(self, key: tuple[float, ...]) -> None:
        self.taken.append(key[-1])


def test_keys_are_asked_for_anew_when_the_policy_says_so_and_only_then() -> None:
    policy, queue = Fancy(), ReadyQueue[int]()
    for number in range(5):
        queue.put(number, Runnable(PATHS[0], 0, 1.0, 0.0, number))
    assert queue.choose(policy, Still(), plans) == 0
    policy.wish = 3
    assert queue.choose(policy, Still(), plans) == 0
    assert policy.asked == 5
    policy.version += 1
    assert queue.choose(policy, Still(), plans) == 3
    assert (policy.asked, policy.taken) == (10, [0, 0, 3])


def test_a_policy_is_told_the_plans_at_first_and_after_all_was_forgotten() -> None:
    policy, queue = Fancy(), ReadyQueue[int]()
    for _ in range(3):
        assert queue.choose(policy, Still(), plans) is None
    assert policy.learned == [3]
    queue.clear()
    queue.choose(policy, Still(), plans)
    assert policy.learned == [3, 3]
    queue.choose(Fancy(), Still(), plans)
    queue.choose(policy, Still(), plans)
    assert policy.learned == [3, 3, 3], "another policy had its turn"


class Turns(Policy):
    """Lets two others choose in turn."""

    name = "turns"

    def __init__(self, *others: Policy) -> None:
        self._others, self._count = others, 0

    def in_force(self, load: Load) -> Policy:
        del load
        self._count += 1
        return self._others[self._count % 2]


def test_every_policy_in_force_has_its_own_order() -> None:
    early, late, queue = Fancy(), Fancy(), ReadyQueue[int]()
    early.wish, late.wish = 1, 8
    policy = Turns(early, late)
    for number in range(10):
        queue.put(number, Runnable(PATHS[0], 0, 1.0, 0.0, number))
    found = []
    while (number := queue.choose(policy, Still(), plans)) is not None:
        found.append(number)
        queue.drop(number)
    assert found == [8, 1, 0, 2, 3, 4, 5, 6, 7, 9]
    assert (early.asked, late.asked) == (9, 10), "each key was asked for once"


def test_entries_of_work_that_has_gone_do_not_pile_up() -> None:
    """Runnable that never comes up is put again and again; a new order is made before there are many entries for it."""
    policy, queue = Fancy(), ReadyQueue[int]()
    queue.put(0, Runnable(PATHS[0], 0, 1.0, 0.0, 0))
    sizes = []
    for _ in range(500):
        queue.put(9, Runnable(PATHS[0], 0, 1.0, 0.0, 9))
        assert queue.choose(policy, Still(), plans) == 0
        sizes.append(len(queue._orders[policy].heap))
    assert max(sizes) < 100
