"""Adaptation between batches: what slots report becomes a decision, and a decision the orders of the next batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from millstream.engine.groups import group_set
from millstream.model.settings import Settings
from millstream.pipeline.adaptation import STRATEGIES
from millstream.pipeline.adaptation.decision import Decision, Move, Strategy, Thresholds
from millstream.pipeline.adaptation.loads import ClusterLoad, SlotLoad
from millstream.pipeline.adaptation.shares import shares
from millstream.pipeline.adaptation.tables import rescaled
from millstream.pipeline.slot import SlotOrder, SlotReport

_UNLIMITED = 1 << 62
_APART = 0.1
"""A slot whose share differs by less from that of the others gets no order of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a batch asks of the slots. `share` is for those without an order of their own; None where memory has no
    limit. `why` says in words what is done and why; empty where nothing is.
    """

    share: int | None = None
    slots: Mapping[int, SlotOrder] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()
    why: str = ""


class Adapting:
    """Remembers what slots last reported, and decides as the settings say."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._strategy: Strategy = STRATEGIES[settings.adaptation](
            Thresholds(
                difference=settings.move_threshold,
                between=settings.move_interval / 1e6,
                least=settings.move_least,
                rates=settings.output_ratio,
                share=settings.spill_share,
            )
        )
        self._loads: tuple[SlotLoad, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether there is a limit to keep to, or groups are to be moved in any case."""
        if self._settings.adaptation == "none":
            return False
        spills = self._settings.memory > 0 and self._settings.memory_short == "spill"
        return spills or self._settings.adaptation == "move"

    def orders(self, table: Sequence[int], slots: int, now: float) -> Orders:
        """The orders of the next batch, for `slots` slots from the batch after it on."""
        if slots != max(table) + 1:
            return self._rescaling(table, slots)
        if not self.is_on:
            return Orders()
        decision = Decision(reason="")
        if self._loads:
            decision = self._strategy.decide(ClusterLoad(slots=self._loads), now)
        moves = _without_emptying(table, decision.moves)
        return Orders(
            share=self._share(table),
            slots=self._orders(table, moves, {one.slot: one.nbytes for one in decision.spills}),
            moves=moves,
            why=decision.reason if moves or decision.spills else "",
        )

    def _rescaling(self, table: Sequence[int], slots: int) -> Orders:
        weights = np.ones(len(table))
        for load in self._loads:
            weights += load.group_bytes
        _, moves = rescaled(table, slots, weights.tolist())
        had = max(table) + 1
        groups = sum(one.groups.bit_count() for one in moves)
        why = f"{'1 slot becomes' if had == 1 else f'{had} slots become'} {slots}: {groups} groups move"
        share = self._share(table) if self.is_on else None
        return Orders(share=share, slots=self._orders(table, moves, {}), moves=moves, why=why)

    def _share(self, table: Sequence[int]) -> int:
        """An even part of the memory, for slots of which nothing is known yet."""
        if not self._settings.memory or not self._strategy.spills:
            return _UNLIMITED
        executors = max(1, len({load.executor for load in self._loads}))
        return self._settings.memory * executors // (max(table) + 1)

    def _orders(self, table: Sequence[int], moves: Sequence[Move], spills: Mapping[int, int]) -> dict[int, SlotOrder]:
        """Orders for those slots that shall do something, or whose share differs from that of the others."""
        even = self._share(table) if self.is_on else _UNLIMITED
        own = dict.fromkeys(sorted(set(table)), even)
        if even < _UNLIMITED:
            for executor in ClusterLoad(slots=self._loads).executors:
                own |= shares(self._settings.memory, executor.slots)
        found = {}
        for slot, share in own.items():
            leave = tuple(move.groups for move in moves if move.sender == slot)
            if leave or spills.get(slot) or abs(share - even) > _APART * even:
                found[slot] = SlotOrder(share=share, spill=spills.get(slot, 0), leave=leave)
        return found

    def learn(self, reports: Sequence[SlotReport], table: Sequence[int]) -> None:
        """Notes what slots have reported; `table` says which groups they have from now on."""
        found = []
        beside = Counter(report.executor for report in reports)
        for report in reports:
            memory, groups = report.memory, group_set(g for g, slot in enumerate(table) if slot == report.slot)
            if memory is None:
                continue
            found.append(
                SlotLoad(
                    slot=report.slot,
                    executor=report.executor,
                    memory=memory.held,
                    limit=self._settings.memory // beside[report.executor],
                    disk=memory.on_disk,
                    results=sum(report.served.values()),
                    just_spilled=memory.just_spilled,
                    groups=groups,
                    spilled=memory.spilled & groups,
                    group_bytes=memory.group_bytes,
                    group_results=memory.group_results,
                )
            )
        self._loads = tuple(found) if len(found) == len(set(table)) else ()


def short(reports: Sequence[SlotReport]) -> str:
    """Why slots cannot keep to their limits; empty where they can."""
    found = [f"slot {one.slot}: {one.memory.short}" for one in reports if one.memory and one.memory.short]
    return f"{found[0]}{f' (and {len(found) - 1} more slots)' if len(found) > 1 else ''}" if found else ""


def _without_emptying(table: Sequence[int], moves: Sequence[Move]) -> tuple[Move, ...]:
    """A slot without groups would keep rows that every slot has, and miss later ones."""
    left = {slot: sum(one == slot for one in table) for slot in set(table)}
    found = []
    for move in moves:
        left[move.sender] -= move.groups.bit_count()
        if left[move.sender] > 0:
            found.append(move)
    return tuple(found)
