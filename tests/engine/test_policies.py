"""Policies: what each prefers, what they learn, and that nobody waits for ever."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.path import Path, Stage
from millstream.engine.policies import FAIRNESS, POLICIES, make_policy
from millstream.engine.policies.segment import SegmentStrategy
from millstream.engine.policies.segment_list import neighbours, partition, pruned
from millstream.engine.policies.threshold import Threshold
from millstream.engine.policy import Policy, Runnable
from millstream.engine.ready_queue import ReadyQueue
from millstream.model.settings import POLICY_NAMES, SETTINGS


class Load:
    """A load set by hand, which counts how often it is asked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used = 0.0
        self.asked = 0

    def memory(self) -> float:
        self.asked += 1
        return self.used


def path(*stages: tuple[float, float]) -> Path:
    """Stages by cost and selectivity."""
    return Path([Stage(f"o{n}", cost, share) for n, (cost, share) in enumerate(stages, start=1)])


def test_the_language_knows_every_policy_and_every_wrapper() -> None:
    assert set(POLICY_NAMES) == set(POLICIES)
    choices = {setting.name: setting.choices for setting in SETTINGS}
    assert choices["policy"] == POLICY_NAMES
    assert set(choices["fairness"]) == set(FAIRNESS)
    for name in POLICY_NAMES:
        assert make_policy(name).name == name


@given(st.lists(st.lists(st.integers(1, 1000), min_size=1, max_size=5), min_size=1, max_size=5), st.data())
def test_on_slices_three_policies_are_one(costs: list[list[int]], data: st.DataObject) -> None:
    """A slice lets every row through and frees nothing, so a path is one segment: as docs/scheduling.md says."""
    paths = [
        Path([Stage(f"{number} {at}", cost, 1.0, 32.0, 32.0) for at, cost in enumerate(some)])
        for number, some in enumerate(costs)
    ]
    works = [
        Runnable(one, data.draw(st.integers(0, len(one.stages) - 1)), 1.0, data.draw(st.integers(0, 3)), number)
        for number, one in enumerate(paths * 2)
    ]
    orders = []
    for name in ("path_capacity", "segment", "simplified_segment"):
        policy = make_policy(name)
        policy.learn({str(number): [one] for number, one in enumerate(paths)})
        orders.append([work.number for work in sorted(works, key=policy.key)])
    assert orders[0] == orders[1] == orders[2]


def order(policy: Policy, works: Sequence[Runnable]) -> list[int]:
    queue, found = ReadyQueue[int](), []
    for number, work in enumerate(works):
        queue.put(number, work)
    while (chosen := queue.choose(policy, Load(), lambda: {"q": [work.path for work in works]})) is not None:
        found.append(chosen)
        queue.drop(chosen)
    return found


def test_what_each_prefers() -> None:
    fast, slow = path((1, 0.5), (1, 0.5)), path((1, 0.01), (300, 0.5))
    young_fast, old_slow = Runnable(fast, 0, 1, 5, 2), Runnable(slow, 0, 1, 1, 1)
    assert order(make_policy("fifo"), [young_fast, old_slow]) == [1, 0]
    assert order(make_policy("path_capacity"), [young_fast, old_slow]) == [0, 1]
    assert order(make_policy("chain"), [young_fast, old_slow]) == [1, 0], "the selective operator frees more"
    begun = Runnable(slow, 1, 1, 9, 3)
    assert order(make_policy("path_capacity"), [young_fast, old_slow, begun]) == [2, 0, 1]
    assert order(make_policy("chain"), [young_fast, old_slow, begun]) == [1, 0, 2]


def test_chain_counts_a_shared_operator_to_the_steepest_path() -> None:
    """Rows wait at the last operator of a slow path and of a steep one; the way of others lies between the two."""
    last = Stage("last", 1, 0.5)
    slow, steep = Path([Stage("slow", 9, 1.0), last]), Path([Stage("steep", 1, 1.0), last])
    between = Path([Stage("between", 4, 0.5)])
    assert (slow.slopes[1], between.slopes[0], steep.slopes[1]) == pytest.approx((0.1, 0.25, 0.5))
    works = [Runnable(between, 0, 1, 1, 1), Runnable(slow, 1, 1, 2, 2), Runnable(steep, 1, 1, 3, 3)]
    assert order(make_policy("chain"), works) == [1, 2, 0]


def test_windows() -> None:
    stages = [Stage(f"s{n}", 1, near=near, far=far) for n, (near, far) in enumerate([(0, 50), (50, 80), (80, 200)])]
    one = Path(stages)
    works = [Runnable(one, 2, 1, 1, 1), Runnable(one, 0, 1, 2, 2), Runnable(one, 1, 1, 3, 3)]
    assert order(make_policy("lwo"), works) == [0, 1, 2]
    assert order(make_policy("swf"), works) == [1, 2, 0]
    assert order(make_policy("greedy"), works) == [2, 1, 0]


def test_round_robin_serves_every_operator_before_one_twice() -> None:
    a, b = path((1, 1)), Path([Stage("other", 1)])
    works = [Runnable(a, 0, 1, 0, n) for n in range(3)] + [Runnable(b, 0, 1, 9, 9)]
    assert order(make_policy("round_robin"), works) == [0, 3, 1, 2]


@pytest.mark.parametrize("name", POLICY_NAMES)
@pytest.mark.parametrize("fairness", ["oldest", "dynamic"])
def test_nobody_starves_under_a_wrapper(name: str, fairness: str) -> None:
    """One slow old piece of work against fast ones that keep coming."""
    fast = Path([Stage("fast", 1, 0.1, near=0, far=1)])
    slow = Path([Stage("slow", 50, 1.0, near=100, far=300)])
    policy, load, queue = make_policy(name, fairness, memory=2.0), Load(), ReadyQueue[int]()
    queue.put(0, Runnable(slow, 0, 1, 0, 0))
    for number in range(1, 3_000):
        load.now += 1
        load.used = number % 4
        queue.put(number, Runnable(fast, 0, 1, load.now, number))
        chosen = queue.choose(policy, load, lambda: {"q": [fast, slow]})
        assert chosen is not None
        if chosen == 0:
            return
        queue.drop(chosen)
    pytest.fail("never served")


def test_without_a_wrapper_a_static_policy_starves_it() -> None:
    fast, slow = Path([Stage("fast", 1, 0.1)]), Path([Stage("slow", 50)])
    policy, queue = make_policy("path_capacity"), ReadyQueue[int]()
    queue.put(0, Runnable(slow, 0, 1, 0, 0))
    for number in range(1, 500):
        queue.put(number, Runnable(fast, 0, 1, number, number))
        chosen = queue.choose(policy, Load(), lambda: {"q": [fast, slow]})
        assert chosen == number
        queue.drop(number)


def test_threshold_follows_equation_3_3_and_does_not_flutter() -> None:
    policy, load = Threshold(100.0), Load()
    modes = []
    for used in (0.0, 95.0, 60.0, 95.0, 1.0):
        load.used = used
        for _ in range(200):
            policy.in_force(load)
        modes.append(policy.saving)
    mean = policy.mean
    assert modes == [False, True, True, True, False]
    assert policy.thresholds == (min(mean, 0.9 * min((100 + mean) / 2, 90)), min((100 + mean) / 2, 90))


def test_threshold_looks_seldom_while_there_is_plenty() -> None:
    policy, plenty, scarce = Threshold(100.0), Load(), Load()
    for _ in range(1_000):
        policy.in_force(plenty)
    scarce.used = 99.0
    for _ in range(1_000):
        policy.in_force(scarce)
    assert plenty.asked < 100 < 900 < scarce.asked


def test_priorities_follow_what_is_learned() -> None:
    """The same operators, measured anew: the queue is cleared and the policy told."""
    policy, load, queue = SegmentStrategy(), Load(), ReadyQueue[str]()
    before = {"a": Path([Stage("a", 1)]), "b": Path([Stage("b", 2)])}
    after = {"a": Path([Stage("a", 3)]), "b": Path([Stage("b", 2)])}
    for paths, wanted in ((before, "a"), (after, "b")):
        queue.clear()
        for name, one in paths.items():
            queue.put(name, Runnable(one, 0, 1, 0, 0))
        assert queue.choose(policy, load, lambda paths=paths: {"q": list(paths.values())}) == wanted


def test_segments_contained_in_another_are_not_in_the_list() -> None:
    assert pruned([("a",), ("a", "b"), ("c", "d")]) == [("a", "b"), ("c", "d")]
    assert pruned([("a", "b"), ("c", "d"), ("a", "b", "c"), ("d",)]) == [("a", "b", "c"), ("c", "d")]
    assert neighbours([("a", "b", "c"), ("d",)]) == {("a", "b"), ("b", "c")}


def test_construction() -> None:
    """Releases 0.5, 0.45, 0.9: a factor of 3/4 lets the first two go together, and at most two segments are made."""
    one = path((1, 0.5), (1, 0.55), (0.5, 0.55))
    assert partition(one) == [(0, 1), (1, 3)]
    assert partition(one, 3 / 4, 2) == [(0, 3)]
    falling = path((1, 0.1), (2, 0.5), (9, 0.5), (30, 0.5))
    assert partition(falling) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert partition(falling, 3 / 4, 2) == [(0, 1), (1, 4)]
