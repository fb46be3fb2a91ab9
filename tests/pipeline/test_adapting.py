"""What slots report becomes orders: shares of the memory, groups to give up, bytes to spill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.groups import members
from millstream.model.settings import Settings
from millstream.pipeline.adapting import Adapting, Orders
from millstream.pipeline.slot import SlotMemory, SlotReport

GROUPS = 8


def settings(**values: Any) -> Settings:
    return Settings(groups=GROUPS, move_least=1, **values)


def reports(held: Sequence[Sequence[int]], executors: Sequence[str], **more: Any) -> list[SlotReport]:
    """A report of every slot, which holds so many bytes of each group."""
    return [
        SlotReport(
            slot=slot,
            task=slot,
            token=f"t{slot}",
            executor=executor,
            memory=SlotMemory(
                held=sum(own),
                on_disk=0,
                just_spilled=0,
                spilled=0,
                group_bytes=np.array(own),
                group_results=np.ones(GROUPS, dtype=np.int64),
                **more,
            ),
        )
        for slot, (own, executor) in enumerate(zip(held, executors, strict=True))
    ]


EVEN = (0, 0, 0, 0, 1, 1, 1, 1)
LEFT = [100, 100, 100, 100, 0, 0, 0, 0]
RIGHT = [0, 0, 0, 0, 10, 10, 10, 10]


def told(adapting: Adapting, table: Sequence[int] = EVEN, slots: int = 2, now: float = 100.0) -> Orders:
    return adapting.orders(table, slots, now)


def test_without_a_limit_there_are_no_orders() -> None:
    adapting = Adapting(settings())
    adapting.learn(reports([LEFT, RIGHT], ["x", "y"]), EVEN)
    assert told(adapting) == Orders()
    assert told(Adapting(settings(memory=100, adaptation="none"))) == Orders()


def test_at_first_memory_is_divided_evenly() -> None:
    assert told(Adapting(settings(memory=100))) == Orders(share=50)
    assert told(Adapting(settings(memory=100, adaptation="move"))).share == 1 << 62, "it moves, and never spills"


@pytest.mark.parametrize(("memory", "spills"), [(400, False), (300, True)])
def test_every_executor_has_the_memory_for_itself(memory: int, spills: bool) -> None:
    """Productive groups make others spill only where the state does not fit into all executors together."""
    adapting = Adapting(settings(memory=memory, adaptation="active_disk"))
    one, other = reports([LEFT, LEFT[::-1]], ["x", "y"])
    adapting.learn([replace(one, served={("q", 1): 1_000}), replace(other, served={("q", 1): 10})], EVEN)
    assert bool(told(adapting).why) == spills


def test_slots_of_one_executor_share_its_memory_by_need() -> None:
    adapting = Adapting(settings(memory=300, adaptation="disk"))
    adapting.learn(reports([LEFT, RIGHT], ["x", "x"]), EVEN)
    found = told(adapting)
    assert found.share == 150
    shares = [found.slots[slot].share for slot in (0, 1)]
    assert sum(shares) == 300
    assert shares[0] > shares[1] >= 40


@pytest.mark.parametrize("adaptation", ["move", "lazy_disk", "active_disk"])
def test_groups_move_to_the_executor_that_holds_less(adaptation: str) -> None:
    adapting = Adapting(settings(memory=1_000, adaptation=adaptation))
    adapting.learn(reports([LEFT, RIGHT], ["x", "y"]), EVEN)
    found = told(adapting)
    (move,) = found.moves
    assert (move.sender, move.receiver, len(members(move.groups))) == (0, 1, 1), "half of 360 bytes, in whole groups"
    assert found.slots[0].leave == (move.groups,)
    assert "memory is not balanced" in found.why
    assert not told(adapting, now=110.0).moves, "not at once again"


def test_a_slot_keeps_a_group() -> None:
    adapting = Adapting(settings(adaptation="move"))
    table = (0, 1, 1, 1, 1, 1, 1, 1)
    adapting.learn(reports([[1000, *[0] * 7], [0, *[1] * 7]], ["x", "y"]), table)
    assert not told(adapting, table).moves


@given(
    table=st.lists(st.integers(0, 3), min_size=GROUPS, max_size=GROUPS).map(lambda t: tuple(sorted(t))),
    slots=st.integers(1, GROUPS),
    known=st.booleans(),
)
def test_rescaling_orders_what_the_new_table_needs(table: tuple[int, ...], slots: int, known: bool) -> None:
    names = sorted(set(table))
    table = tuple(names.index(slot) for slot in table)
    adapting = Adapting(settings())
    if known:
        held = [[10 * (slot == own) for slot in table] for own in range(len(names))]
        adapting.learn(reports(held, ["x"] * len(names)), table)
    found = told(adapting, table, slots)
    after = list(table)
    for move in found.moves:
        assert all(table[group] == move.sender for group in members(move.groups))
        for group in members(move.groups):
            after[group] = move.receiver
        assert move.groups in found.slots[move.sender].leave
    if slots != max(table) + 1:
        assert set(after) == set(range(slots))
        counts = [after.count(slot) for slot in range(slots)]
        assert max(counts) - min(counts) <= 1
        had = max(table) + 1
        assert found.why.startswith(f"{'1 slot becomes' if had == 1 else f'{had} slots become'} {slots}: ")
    else:
        assert found == Orders()


def test_reports_without_memory_are_not_believed() -> None:
    adapting = Adapting(settings(memory=100))
    some = reports([LEFT, RIGHT], ["x", "y"])
    adapting.learn(some[:1], EVEN)
    assert not told(adapting).moves
