"""Lazy disk: as move, but what has just spilled gives no groups away."""

from __future__ import annotations

from clusters import Cluster
from millstream.pipeline.adaptation.decision import Thresholds
from millstream.pipeline.adaptation.lazy_disk import LazyDisk
from millstream.pipeline.adaptation.move import Moving

SMALL = Thresholds(least=1)


def uneven() -> Cluster:
    return Cluster([0] * 8, ["a", "b"], [10] * 8, list(range(8)))


def test_it_moves_what_move_does() -> None:
    lazy, moving = LazyDisk(SMALL), Moving(SMALL)
    for now in (0, 20, 45):
        assert lazy.decide(uneven().load(), now) == moving.decide(uneven().load(), now)


def test_a_sender_that_has_just_spilled_waits() -> None:
    cluster, lazy = uneven(), LazyDisk(SMALL)
    cluster.just_spilled = {0: 2_000_000}
    told = lazy.decide(cluster.load(), 0)
    assert not told.is_to_act
    assert told.reason == "a has the most memory in use, but has just spilled 2 MB"
    cluster.just_spilled = {}
    assert lazy.decide(cluster.load(), 1).moves


def test_a_receiver_that_has_just_spilled_has_room() -> None:
    cluster = uneven()
    cluster.just_spilled = {1: 2_000_000}
    assert LazyDisk(SMALL).decide(cluster.load(), 0).moves


def test_balanced_memory_is_told_as_such_though_slots_spill() -> None:
    cluster = Cluster([0, 1], ["a", "b"], [10, 10], [1, 1], just_spilled={0: 5, 1: 5})
    assert LazyDisk(SMALL).decide(cluster.load(), 0).reason == "memory is balanced: a has 10 B, b 10 B"
