"""Active disk: the executor with the fewest results spills, never more than does not fit into memory anyway."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from clusters import Cluster
from millstream.engine.groups import members
from millstream.pipeline.adaptation.active_disk import ActiveDisk
from millstream.pipeline.adaptation.decision import Spill, Thresholds
from millstream.pipeline.adaptation.loads import ClusterLoad

SMALL = Thresholds(least=1)


def balanced(limit: int = 70) -> Cluster:
    """Two executors with 100 bytes each; the second gives a quarter of the results."""
    return Cluster([0] * 10 + [1] * 5 + [2] * 5, ["a", "b", "b"], [10] * 20, [40] * 10 + [8, 12] * 5, limit=limit)


def estimated(cluster: Cluster, nbytes: int) -> ClusterLoad:
    return ClusterLoad(slots=cluster.load().slots, estimated=nbytes)


def test_the_least_productive_groups_of_the_least_productive_executor_are_spilled() -> None:
    told = ActiveDisk(SMALL).decide(estimated(balanced(), 400), 0)
    assert told.spills == (Spill(1, 30),)
    assert not told.moves
    assert told.reason == (
        "memory is balanced; a group of b gives 10 results a batch, one of a 40; b spills 3 groups with 30 B"
    )
    both = ActiveDisk(Thresholds(least=1, share=0.5)).decide(estimated(balanced(), 400), 0)
    assert both.spills == (Spill(1, 30), Spill(2, 20))


def test_no_more_is_spilled_than_does_not_fit() -> None:
    assert ActiveDisk(SMALL).decide(estimated(balanced(), 235), 0).spills == (Spill(1, 20),)
    told = ActiveDisk(SMALL).decide(balanced().load(), 0)
    assert not told.is_to_act
    assert told.reason.endswith("but all state fits into memory")
    assert not ActiveDisk(SMALL).decide(estimated(balanced(limit=0), 400), 0).is_to_act


def test_what_is_still_on_disk_counts() -> None:
    cluster, active = balanced(), ActiveDisk(replace(SMALL, difference=0.1))
    first = active.decide(estimated(cluster, 245), 0)
    assert first.spills == (Spill(1, 30),)
    cluster.follow(first)
    told = active.decide(estimated(cluster, 245), 100)
    assert not told.is_to_act
    assert "of the 35 B that do not fit into memory 30 B are spilled" in told.reason
    cluster.spilled = 0
    assert active.decide(estimated(cluster, 245), 200).spills == (Spill(1, 30),)


def test_similar_rates_are_left_alone() -> None:
    assert not ActiveDisk(Thresholds(least=1, rates=4)).decide(estimated(balanced(), 400), 0).is_to_act
    assert ActiveDisk(Thresholds(least=1, rates=3.9)).decide(estimated(balanced(), 400), 0).is_to_act


def test_one_after_the_other() -> None:
    """Spilled groups make room, and the next decision moves productive groups there."""
    cluster, active = balanced(), ActiveDisk(SMALL)
    cluster.follow(active.decide(estimated(cluster, 400), 0))
    assert cluster.memory() == {"a": 100, "b": 70}
    moved = active.decide(estimated(cluster, 400), 1)
    assert [members(move.groups) for move in moved.moves] == [[0]]
    cluster.follow(moved)
    waiting = active.decide(estimated(cluster, 400), 2)
    assert not waiting.is_to_act
    assert waiting.reason.endswith("but groups were moved or spilled 1 s ago")


def test_where_memory_is_not_balanced_nothing_is_spilled() -> None:
    cluster = Cluster([0] * 4 + [1] * 4, ["a", "b"], [30] * 4 + [10] * 4, [40] * 4 + [1] * 4, limit=10)
    active = ActiveDisk(SMALL)
    first = active.decide(estimated(cluster, 400), 0)
    assert first.moves
    assert not first.spills
    assert not active.decide(estimated(cluster, 400), 1).is_to_act


def test_one_executor_has_nobody_to_spill_for() -> None:
    cluster = Cluster([0, 1], ["a", "a"], [10, 10], [9, 1], limit=1)
    assert ActiveDisk(SMALL).decide(cluster.load(), 0).reason == (
        "memory is balanced: there is one executor, a, with 20 B"
    )


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=20),
    st.integers(0, 1_000),
)
def test_under_a_constant_load_decisions_come_to_an_end(groups: list[tuple[int, int, int]], limit: int) -> None:
    table, nbytes, results = map(list, zip(*groups, strict=True))
    cluster = Cluster(table, ["a", "b", "c", "a"], nbytes, results, limit=limit)
    active = ActiveDisk(SMALL)
    now, spilled = 0.0, 0
    idle = 0
    for _ in range(2_000):
        decision = active.decide(cluster.load(), now)
        spilled += sum(spill.nbytes for spill in decision.spills)
        cluster.follow(decision)
        now += 45
        idle = 0 if decision.is_to_act else idle + 1
        if idle == 2:
            break
    assert idle == 2
    load = cluster.load()
    assert spilled <= max(0, load.needed - load.limit)
