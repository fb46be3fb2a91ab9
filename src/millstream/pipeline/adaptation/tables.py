"""Which slot serves which partition group: at first, and when the number of slots changes."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.engine.groups import group_set
from millstream.errors import InternalError
from millstream.pipeline.adaptation.decision import Move

Table = tuple[int, ...]
"""The slot of each partition group."""


def spread(groups: int, slots: int) -> Table:
    """The slot of each group, evenly and in order."""
    _check(groups, slots)
    return tuple(group * slots // groups for group in range(groups))


def rescaled(
    table: Sequence[int], slots: int, weights: Sequence[float] | None = None
) -> tuple[Table, tuple[Move, ...]]:
    """A table for another number of slots, in which slots have equally many groups or one more, and the moves to it.

    As few groups as possible move. Which of them do follows from their weights, so that the weights of slots become
    similar; without weights all groups weigh the same.
    """
    _check(len(table), slots)
    weight = [1.0] * len(table) if weights is None else list(weights)
    share = sum(weight) / slots
    owned: dict[int, list[int]] = {slot: [] for slot in (*range(slots), *table)}
    for group, slot in enumerate(table):
        owned[slot].append(group)
    counts = _counts({slot: len(owned[slot]) for slot in range(slots)}, len(table))
    homeless: list[int] = []
    for slot, groups in owned.items():
        homeless += _given_up(groups, len(groups) - counts.get(slot, 0), weight, share if slot in counts else 0.0)
    new = list(table)
    for group in homeless:
        owned[table[group]].remove(group)
    load = {slot: sum(weight[group] for group in owned[slot]) for slot in counts}
    for group in sorted(homeless, key=lambda group: (-weight[group], group)):
        open_slots = [slot for slot in counts if len(owned[slot]) < counts[slot]]
        receiver = min(open_slots, key=lambda slot: (load[slot], len(owned[slot]) - counts[slot], slot))
        owned[receiver].append(group)
        load[receiver] += weight[group]
        new[group] = receiver
    return tuple(new), moves_between(table, new)


def moves_between(before: Sequence[int], after: Sequence[int]) -> tuple[Move, ...]:
    """What has to move for one table to become another."""
    found: dict[tuple[int, int], list[int]] = {}
    for group, (sender, receiver) in enumerate(zip(before, after, strict=True)):
        if sender != receiver:
            found.setdefault((sender, receiver), []).append(group)
    return tuple(Move(group_set(groups), *ends) for ends, groups in sorted(found.items()))


def _counts(have: dict[int, int], groups: int) -> dict[int, int]:
    """How many groups each slot shall have: one more where there are most already."""
    few, more = divmod(groups, len(have))
    first = sorted(have, key=lambda slot: (-have[slot], slot))[:more]
    return {slot: few + (slot in first) for slot in have}


def _given_up(groups: Sequence[int], count: int, weight: Sequence[float], share: float) -> list[int]:
    """So many groups of a slot, of such weights that what remains comes close to its share."""
    left, found = list(groups), []
    excess = sum(weight[group] for group in groups) - share
    for remaining in range(count, 0, -1):
        group = min(left, key=lambda group: (abs(weight[group] - excess / remaining), -group))
        left.remove(group)
        found.append(group)
        excess -= weight[group]
    return found


def _check(groups: int, slots: int) -> None:
    if not 1 <= slots <= groups:
        raise InternalError(f"{groups} partition groups cannot be divided among {slots} slots")
