"""Partition groups that change slots: the states that slots have reported become those that a batch commits.

No row is copied and no file written: the receiver's manifest names the segments from now on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millstream.engine.groups import members
from millstream.engine.handover import received
from millstream.engine.shard_manifest import ShardManifest
from millstream.errors import InternalError
from millstream.pipeline.adaptation.decision import Move
from millstream.pipeline.slot import SlotReport
from millstream.plan.nodes import Plan

States = dict[int, ShardManifest]


def moved(
    plan: Plan, table: Sequence[int], moves: Sequence[Move], reports: Sequence[SlotReport]
) -> tuple[States, tuple[int, ...], frozenset[int]]:
    """The states of the slots after the moves, the slot of each group, and the slots that have received something."""
    states = {report.slot: report.state for report in reports}
    if not moves:
        return states, tuple(table), frozenset()
    everywhere = {pool.name for pool in plan.pools if pool.spread.everywhere}
    leaving = _leaving(moves, reports)
    after = list(table)
    for move in moves:
        for group in members(move.groups):
            after[group] = move.receiver
    ended = set(table) - set(after)
    for slot in ended:
        # Rows held back for order stay with their slot, unless it ends.
        first = next(move for move in moves if move.sender == slot)
        leaving[first] = _with_held(leaving[first], states.pop(slot))
    for move in moves:
        own = states.get(move.receiver)
        states[move.receiver] = received(own or ShardManifest(), leaving[move], everywhere, is_new=own is None)
    return states, tuple(after), frozenset(move.receiver for move in moves)


def _leaving(moves: Sequence[Move], reports: Sequence[SlotReport]) -> dict[Move, ShardManifest]:
    """What each sender has given up for each of its moves, in their order."""
    found: dict[Move, ShardManifest] = {}
    for report in reports:
        own = [move for move in moves if move.sender == report.slot]
        if len(own) != len(report.leaving):
            raise InternalError(f"slot {report.slot} has given up {len(report.leaving)} sets of groups, of {len(own)}")
        found |= dict(zip(own, report.leaving, strict=True))
    return found


def _with_held(leaving: ShardManifest, ended: ShardManifest) -> ShardManifest:
    chains = {name: replace(chain, held=ended.chains[name].held) for name, chain in leaving.chains.items()}
    return replace(leaving, chains=chains)
