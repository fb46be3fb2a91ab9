"""op-sched, Theorems 1 to 3: what holds, on random plans, and what does not, with the smallest counterexample.

All three are proved for tuples that wait already. They hold there; none holds when tuples arrive while others are
served, and each says more than its proof in one further way that is shown here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.path import Path, Stage
from millstream.engine.policies import POLICIES, make_policy
from millstream.engine.policies.segment_list import partition
from millstream.engine.policy import Key, Policy, Runnable
from millstream.lab.papers.op_sched.operators.run import Step
from millstream.lab.papers.op_sched.simulator import Arrival, Given, path_graph, simulate

Plan = Mapping[str, Sequence[Given]]
COSTS = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0])
SHARES = st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0])
OPERATORS = st.builds(Given, COSTS, SHARES)
PLANS = st.dictionaries(st.sampled_from("abcd"), st.lists(OPERATORS, min_size=1, max_size=4), min_size=1, max_size=4)
CLOSE = 1e-9


class Arbitrary(Policy):
    """Any other strategy: keys by lot, with or without keeping the rest of a path together."""

    name = "arbitrary"

    def __init__(self, seed: int, *, whole_paths: bool) -> None:
        self._random, self._whole = np.random.default_rng(seed), whole_paths

    def begun(self, work: Runnable) -> bool:
        return self._whole and work.at > 0

    def priority(self, work: Runnable) -> float:
        del work
        return float(self._random.random())


class InOrder(Policy):
    """Path by path, in the order of arrival (1) or the latest first (-1)."""

    name = "in order"

    def __init__(self, sign: int) -> None:
        self._sign = sign

    def key(self, work: Runnable) -> Key:
        return (-work.at, self._sign * work.number)


@dataclass
class Outcome:
    latencies: dict[int, float]
    memory: list[tuple[float, float]]

    @property
    def total_latency(self) -> float:
        return sum(self.latencies.values())

    @property
    def most_memory(self) -> float:
        return max(memory for _, memory in self.memory)

    def memory_at(self, time: float) -> float:
        """After everything that happens at this time."""
        times = [moment for moment, _ in self.memory]
        return self.memory[bisect_right(times, time + CLOSE) - 1][1]


def outcome(plan: Plan, policy: Policy, arrivals: Sequence[Arrival]) -> Outcome:
    """Latency of each input tuple: from its arrival until the last of what has become of it has left."""
    graph = path_graph(plan)
    last = set(graph.queries.values())
    latencies: dict[int, float] = {}
    memory: list[tuple[float, float]] = []

    def watch(step: Step) -> None:
        if step.port[0] in last:
            latencies[step.taken.number] = step.ended - step.taken.arrived

    def sample(now: float, queued: float) -> None:
        memory.append((now, queued))

    simulate(graph, policy, arrivals, watch, sample)
    return Outcome(latencies, memory)


def at_once(plan: Plan, counts: Sequence[int]) -> list[Arrival]:
    return [Arrival(0, name) for name, count in zip(sorted(plan), counts, strict=False) for _ in range(count)]


def path_of(operators: Sequence[Given]) -> Path:
    return Path([Stage(str(n), o.cost, o.selectivity, o.size_in, o.size_out) for n, o in enumerate(operators)])


COUNTS = st.lists(st.integers(1, 4), min_size=4, max_size=4)


@given(plan=PLANS, counts=COUNTS, seed=st.integers(0, 2**32))
def test_theorem_1_path_capacity_has_the_least_total_latency_of_tuples_that_wait(
    plan: Plan, counts: list[int], seed: int
) -> None:
    arrivals = at_once(plan, counts)
    best = outcome(plan, make_policy("path_capacity"), arrivals).total_latency
    others = [make_policy(name, memory=2.0) for name in POLICIES]
    others += [Arbitrary(seed, whole_paths=False), Arbitrary(seed, whole_paths=True)]
    for other in others:
        assert best <= outcome(plan, other, arrivals).total_latency + CLOSE, other.name
    services = sorted(1 / path_of(plan[arrival.stream]).capacity for arrival in arrivals)
    shortest_first = sum(service * (len(services) - n) for n, service in enumerate(services))
    assert best == pytest.approx(shortest_first), "no schedule at all can do better than the shortest first"


def test_theorem_1_fails_when_tuples_arrive_while_others_are_served() -> None:
    """The slower path first, and the late tuple of the fast path need not wait for it."""
    plan = {"a": [Given(2)], "b": [Given(3)], "c": [Given(0.25)]}
    arrivals = [Arrival(0, "a"), Arrival(0, "b"), Arrival(2.5, "c")]
    paths = outcome(plan, make_policy("path_capacity"), arrivals).total_latency
    latest = outcome(plan, InOrder(-1), arrivals).total_latency
    assert (paths, latest) == (2 + 5 + 2.75, 3 + 5.25 + 0.75)


def test_theorem_1_fails_for_latency_counted_per_row_that_comes_out() -> None:
    """What a path lets through weighs nothing in its capacity: a slower path may have ten times as many rows out."""
    plan = {"few": [Given(1, 0.1)], "many": [Given(1.5, 1.0)]}
    arrivals = [Arrival(0, "few"), Arrival(0, "many")]

    def per_row(policy: Policy) -> float:
        run = simulate(path_graph(plan), policy, arrivals)
        return sum(query.latency for query in run.queries.values())

    assert per_row(make_policy("path_capacity")) > per_row(InOrder(-1))


@given(plan=PLANS, counts=COUNTS, seed=st.integers(0, 2**32))
def test_theorem_2_no_path_strategy_has_less_in_its_queues_when_path_capacity_has_finished_a_tuple(
    plan: Plan, counts: list[int], seed: int
) -> None:
    arrivals = at_once(plan, counts)
    own = outcome(plan, make_policy("path_capacity"), arrivals)
    for other in (Arbitrary(seed, whole_paths=True), make_policy("fifo"), InOrder(1), InOrder(-1)):
        theirs = outcome(plan, other, arrivals)
        for finished in own.latencies.values():
            assert own.memory_at(finished) <= theirs.memory_at(finished) + CLOSE, other.name


def test_theorem_2_fails_between_those_moments() -> None:
    """Half-way through a tuple, a path with a selective first operator has let go of more."""
    plan = {"fast": [Given(0.9), Given(0.1)], "slow": [Given(0.1, 0.01), Given(110)]}
    arrivals = [Arrival(0, "fast"), Arrival(0, "slow")]
    paths = outcome(plan, make_policy("path_capacity"), arrivals)
    other = outcome(plan, InOrder(-1), arrivals)
    assert paths.memory_at(0.5) == 2.0
    assert other.memory_at(0.5) == pytest.approx(1.01)
    assert paths.memory_at(1.0) == 1.0 < other.memory_at(1.0)


def test_theorem_2_fails_when_tuples_arrive_while_others_are_served() -> None:
    plan = {"a": [Given(2)], "b": [Given(3)], "c": [Given(0.25)]}
    arrivals = [Arrival(0, "a"), Arrival(0, "b"), Arrival(2.5, "c")]
    assert outcome(plan, make_policy("path_capacity"), arrivals).memory_at(3.25) == 2.0
    assert outcome(plan, InOrder(-1), arrivals).memory_at(3.25) == 1.0


def cut_as_the_envelope(plan: Plan) -> bool:
    return all(tuple(partition(path_of(operators))) == path_of(operators).envelope for operators in plan.values())


@given(plan=PLANS.filter(cut_as_the_envelope), counts=COUNTS)
def test_theorem_3_segment_needs_no_more_than_chain_where_its_segments_are_those_of_the_envelope(
    plan: Plan, counts: list[int]
) -> None:
    arrivals = at_once(plan, counts)
    segment = outcome(plan, make_policy("segment"), arrivals)
    chain = outcome(plan, make_policy("chain"), arrivals)
    assert segment.most_memory <= chain.most_memory + CLOSE
    for time, memory in segment.memory:
        assert memory <= chain.memory_at(time) + CLOSE


def test_theorem_3_fails_when_tuples_arrive_inside_a_segment() -> None:
    """Chain turns to the tuple that frees memory sooner; segment first finishes what it has begun."""
    plan = {"a": [Given(0.5), Given(1, 0.25)], "b": [Given(0.5)]}
    arrivals = [Arrival(0, "a"), Arrival(0.5, "b"), Arrival(1, "b")]
    assert cut_as_the_envelope(plan)
    assert outcome(plan, make_policy("segment"), arrivals).most_memory == 3.0
    assert outcome(plan, make_policy("chain"), arrivals).most_memory == 2.0


def test_theorem_3_fails_where_the_construction_is_not_the_envelope() -> None:
    """b's envelope is one stretch of slope 2/3; the construction cuts it after its first operator, of slope 1/2."""
    plan = {"a": [Given(2, 0.5)], "b": [Given(1, 0.5), Given(0.5), Given(0.5, 0.25)]}
    arrivals = [Arrival(0, "a"), Arrival(0, "b"), Arrival(0, "b")]
    assert path_of(plan["b"]).envelope == ((0, 3),)
    assert partition(path_of(plan["b"])) == [(0, 1), (1, 3)]
    assert outcome(plan, make_policy("segment"), arrivals).memory_at(3) == 1.5
    assert outcome(plan, make_policy("chain"), arrivals).memory_at(3) == 1.0
