"""Loads of slots, summed up by executor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusters import Cluster

CLUSTER = Cluster(
    table=[0, 0, 1, 2, 2, 2],
    executors=["one", "two", "one"],
    nbytes=[10, 20, 30, 40, 0, 60],
    results=[5, 40, 3, 8, 7, 0],
    limit=100,
    spilled=0b100001,
    just_spilled={0: 10, 2: 60},
)


def test_executors_add_up_their_slots() -> None:
    one, two = CLUSTER.load().executors
    assert (one.name, [slot.slot for slot in one.slots], one.memory, one.just_spilled) == ("one", [0, 2], 60, 70)
    assert (two.name, [slot.slot for slot in two.slots], two.memory, two.just_spilled) == ("two", [1], 30, 0)
    assert one.rate == (40 + 8 + 7) / 5
    assert two.rate == 3


def test_a_group_in_memory_has_rows_there_and_none_on_disk() -> None:
    one, two = CLUSTER.load().executors
    found = [(group.group, group.slot, group.nbytes, group.productivity) for group in one.in_memory()]
    assert found == [(1, 0, 20, 2.0), (3, 2, 40, 0.2)]
    assert [group.group for group in two.in_memory()] == [2]


def test_what_is_needed_is_measured_or_estimated() -> None:
    load = CLUSTER.load()
    assert [slot.need for slot in load.slots] == [30, 30, 100]
    assert (load.needed, load.disk, load.limit) == (160, 70, 300)
    assert type(load)(slots=load.slots, estimated=500).needed == 500
    assert type(load)(slots=load.slots, estimated=100).needed == 160


@pytest.mark.parametrize("limit", [0, 7])
def test_a_cluster_with_a_slot_without_limit_has_none(limit: int) -> None:
    cluster = Cluster([0], ["one"], [1], [1], limit=limit)
    assert cluster.load().limit == limit


def test_an_executor_without_groups_has_no_rate() -> None:
    one, two = Cluster([0], ["one", "two"], [1], [9]).load().executors
    assert (one.rate, two.rate) == (9.0, 0.0)


def test_a_spilled_group_with_new_rows_is_not_in_memory() -> None:
    """It has both, and to move it would be to move what waits on disk."""
    (slot,) = Cluster([0, 0], ["one"], [10, 20], [1, 1]).load().slots
    assert [group.group for group in replace(slot, spilled=0b01).in_memory()] == [1]
