"""Move: half of the difference goes to the executor with the least memory in use, the most productive groups first."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from clusters import Cluster
from millstream.engine.groups import members
from millstream.pipeline.adaptation.decision import Move, Thresholds
from millstream.pipeline.adaptation.move import Moving

MB = 1_000_000
SMALL = Thresholds(least=1)


def test_the_most_productive_groups_move() -> None:
    cluster = Cluster(
        table=[0, 0, 1, 1, 2], executors=["a", "a", "b"], nbytes=[30 * MB] * 4 + [20 * MB], results=[1, 9, 8, 2, 5]
    )
    decision = Moving().decide(cluster.load(), 0)
    assert decision.moves == (Move(0b10, 0, 2),)
    assert decision.reason == "memory is not balanced: b has 20 MB, a 120 MB; from a to b go 1 group with 30 MB"


def test_groups_of_several_slots_go_to_the_least_loaded_one() -> None:
    cluster = Cluster(
        table=[0, 0, 1, 1, 2, 3],
        executors=["a", "a", "b", "b"],
        nbytes=[30, 30, 30, 30, 20, 10],
        results=[1, 9, 8, 2, 5, 5],
    )
    assert Moving(SMALL).decide(cluster.load(), 0).moves == (Move(0b10, 0, 3),)
    cluster.nbytes = [30, 20, 20, 30, 10, 0]
    assert Moving(SMALL).decide(cluster.load(), 0).moves == (Move(0b10, 0, 3), Move(0b100, 1, 3))


def test_balanced_memory_stays() -> None:
    cluster = Cluster([0, 1], ["a", "b"], [100, 80], [1, 1])
    assert not Moving(SMALL).decide(cluster.load(), 0).is_to_act
    cluster.nbytes = [100, 79]
    told = Moving(SMALL).decide(cluster.load(), 0)
    assert not told.is_to_act
    assert (
        told.reason == "memory is not balanced: b has 79 B, a 100 B, but of 10 B only 0 B can be moved in whole groups"
    )
    assert Moving(SMALL).decide(Cluster([0], ["a"], [9], [1]).load(), 0).reason == (
        "memory is balanced: there is one executor, a, with 9 B"
    )


def test_a_move_waits_for_the_time_between_two() -> None:
    cluster = Cluster([0] * 8, ["a", "b"], [10] * 8, [1] * 8)
    moving = Moving(SMALL)
    first = moving.decide(cluster.load(), 100)
    assert first.moves
    assert moving.decide(cluster.load(), 144.9).reason.endswith("but groups were moved 45 s ago")
    assert moving.decide(cluster.load(), 145).moves
    assert Moving(Thresholds(least=1, between=5)).decide(cluster.load(), 0).moves


def test_a_decision_without_a_move_does_not_delay_the_next() -> None:
    cluster = Cluster([0, 1], ["a", "b"], [100, 80], [1, 1])
    moving = Moving(SMALL)
    moving.decide(cluster.load(), 0)
    cluster = Cluster([0] * 8, ["a", "b"], [10] * 8, [1] * 8)
    assert moving.decide(cluster.load(), 1).moves


def test_little_is_not_worth_a_move() -> None:
    cluster = Cluster([0] * 8, ["a", "b"], [MB // 8] * 8, [1] * 8)
    assert not Moving().decide(cluster.load(), 0).is_to_act
    cluster.nbytes = [MB // 4] * 8
    assert Moving().decide(cluster.load(), 0).moves


def test_groups_on_disk_stay() -> None:
    cluster = Cluster([0] * 4, ["a", "b"], [10] * 4, [9, 8, 1, 1], spilled=0b11)
    assert Moving(SMALL).decide(cluster.load(), 0).moves == (Move(0b100, 0, 1),)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    slots, groups = draw(st.integers(1, 6)), draw(st.integers(1, 20))
    some = st.integers(0, 1_000)
    return Cluster(
        table=draw(st.lists(st.integers(0, slots - 1), min_size=groups, max_size=groups)),
        executors=draw(st.lists(st.sampled_from("abc"), min_size=slots, max_size=slots)),
        nbytes=draw(st.lists(some, min_size=groups, max_size=groups)),
        results=draw(st.lists(some, min_size=groups, max_size=groups)),
        spilled=draw(st.integers(0, 2**groups - 1)),
    )


@given(clusters())
def test_a_move_makes_memory_more_even(cluster: Cluster) -> None:
    before = cluster.memory()
    decision = Moving(SMALL).decide(cluster.load(), 0)
    cluster.follow(decision)
    after = cluster.memory()
    assert sum(after.values()) == sum(before.values())
    assert bool(decision.moves) == (before != after)
    assert max(after.values()) <= max(before.values())
    assert min(after.values()) >= min(before.values())
    assert all(members(move.groups) and move.sender != move.receiver for move in decision.moves)
    moved = [group for move in decision.moves for group in members(move.groups)]
    assert len(set(moved)) == len(moved)


@given(clusters())
def test_under_a_constant_load_moves_come_to_an_end(cluster: Cluster) -> None:
    moving = Moving(SMALL)
    seen = {tuple(cluster.table)}
    now = 0.0
    while (decision := moving.decide(cluster.load(), now)).moves:
        cluster.follow(decision)
        assert tuple(cluster.table) not in seen, "no state comes again"
        seen.add(tuple(cluster.table))
        now += 45
    assert not moving.decide(cluster.load(), now + 45).moves


@given(clusters())
def test_groups_of_one_size_are_balanced_in_the_end(cluster: Cluster) -> None:
    """What remains between two executors is within the threshold, or one group."""
    cluster.executors = ["ab"[slot % 2] for slot in range(len(cluster.executors))]
    assume(len(set(cluster.executors)) == 2)
    cluster.spilled, cluster.nbytes = 0, [7] * len(cluster.table)
    moving, now = Moving(SMALL), 0.0
    while (decision := moving.decide(cluster.load(), now)).moves:
        cluster.follow(decision)
        now += 45
    least, most = sorted(cluster.memory().values())
    assert least >= 0.8 * most or most - least <= 7
