"""Which slot serves which group: evenly, and with as few moves as possible when the number of slots changes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.groups import members
from millstream.errors import InternalError
from millstream.pipeline.adaptation.decision import Move
from millstream.pipeline.adaptation.tables import moves_between, rescaled, spread


@given(st.integers(0, 10).map(lambda bits: 1 << bits), st.data())
def test_groups_are_spread_evenly(groups: int, data: st.DataObject) -> None:
    slots = data.draw(st.integers(1, groups))
    table = spread(groups, slots)
    assert list(table) == sorted(table)
    counts = Counter(table)
    assert sorted(counts) == list(range(slots))
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("slots", [0, 5])
def test_every_slot_has_a_group(slots: int) -> None:
    with pytest.raises(InternalError, match=f"4 partition groups cannot be divided among {slots} slots"):
        spread(4, slots)
    with pytest.raises(InternalError, match=f"4 partition groups cannot be divided among {slots} slots"):
        rescaled([0] * 4, slots)


def test_new_slots_take_evenly_from_the_old_ones() -> None:
    table, moves = rescaled(spread(12, 2), 3)
    assert Counter(table) == {0: 4, 1: 4, 2: 4}
    assert [(move.sender, move.receiver, len(members(move.groups))) for move in moves] == [(0, 2, 2), (1, 2, 2)]


def test_groups_of_slots_that_end_are_divided() -> None:
    table, moves = rescaled(spread(12, 3), 2)
    assert Counter(table) == {0: 6, 1: 6}
    assert {(move.sender, move.receiver): len(members(move.groups)) for move in moves} == {(2, 0): 2, (2, 1): 2}


def test_heavy_groups_go_where_there_is_room() -> None:
    weights = [9, 1, 1, 1, 1, 9, 9, 1]
    table, _ = rescaled([0, 0, 0, 0, 1, 1, 2, 2], 2, weights)
    loads = [sum(weight for weight, slot in zip(weights, table, strict=True) if slot == one) for one in (0, 1)]
    assert table[:4] == (0, 0, 0, 0), "it has its four groups"
    assert loads == [12, 20]
    grown, _ = rescaled([0] * 8, 2, weights)
    assert sorted(sum(w for w, slot in zip(weights, grown, strict=True) if slot == one) for one in (0, 1)) == [12, 20]


def test_moves_are_what_differs_between_two_tables() -> None:
    assert moves_between([0, 0, 1, 1], [0, 2, 2, 0]) == (Move(0b10, 0, 2), Move(0b1000, 1, 0), Move(0b100, 1, 2))
    assert moves_between([0, 1], [0, 1]) == ()


tables = st.integers(1, 40).flatmap(lambda groups: st.lists(st.integers(0, 7), min_size=groups, max_size=groups))


@given(tables, st.data())
def test_slots_have_equally_many_groups_after_as_few_moves_as_possible(table: list[int], data: st.DataObject) -> None:
    slots = data.draw(st.integers(1, len(table)))
    weights = data.draw(st.none() | st.lists(st.floats(0, 100), min_size=len(table), max_size=len(table)))
    new, moves = rescaled(table, slots, weights)
    counts = Counter(new)
    assert sorted(counts) == list(range(slots))
    assert max(counts.values()) - min(counts.values()) <= 1
    assert moves == moves_between(table, new)
    moved = sum(move.groups.bit_count() for move in moves)
    assert moved == fewest(table, slots)
    assert rescaled(new, slots, weights) == (new, ())


def fewest(table: list[int], slots: int) -> int:
    """Groups that no choice of the larger slots can keep in their place."""
    have = sorted((table.count(slot) for slot in range(slots)), reverse=True)
    few, more = divmod(len(table), slots)
    return len(table) - sum(min(count, few + (place < more)) for place, count in enumerate(have))


def test_groups_come_back_when_slots_do() -> None:
    """Two to six to three slots of 1,024 groups: a third of the groups of the old slots stays in place."""
    six, grown = rescaled(spread(1024, 2), 6)
    assert sum(move.groups.bit_count() for move in grown) == 1024 - 2 * 171
    three, shrunk = rescaled(six, 3)
    assert sum(move.groups.bit_count() for move in shrunk) == 1024 - sum(six.count(slot) for slot in range(3))
    assert sorted(Counter(three).values()) == [341, 341, 342]


def test_groups_of_slots_that_end_go_to_the_least_loaded() -> None:
    assert rescaled([0, 1, 2, 2], 2, [10, 1, 2, 8]) == ((0, 1, 0, 1), (Move(0b100, 2, 0), Move(0b1000, 2, 1)))
