"""The last check before a commit: a manifest must follow from the one before.

A slot that reports too little would lose its state, silently and for good. Slots count every number here as they work,
so an incomplete report does not add up.
"""

from __future__ import annotations

from collections.abc import Iterable

from millstream.engine.chain_manifest import ChainManifest
from millstream.errors import InternalError
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.plan.nodes import Signature


def check_follows(before: Manifest, after: Manifest, chains: Iterable[Signature]) -> None:
    """Refuses a manifest that cannot be the result of a batch on the one before."""
    running = set(chains)
    if after.batch != before.batch + 1 or after.pipeline != before.pipeline:
        raise _broken(after, f"it follows batch {before.batch}")
    if set(after.slots) != set(after.routing):
        raise _broken(after, f"slots {sorted(after.slots)} have reported, of {sorted(set(after.routing))}")
    for number, slot in after.slots.items():
        if not slot.token or set(slot.chains) != running:
            raise _broken(after, f"slot {number} has told of {len(slot.chains)} chains, of {len(running)}")
        known = before.slots.get(number, SlotManifest("", {}))
        for signature, chain in slot.chains.items():
            wrong = _wrong(known.chains.get(signature, ChainManifest()), chain, after.batch)
            if wrong:
                raise _broken(after, f"slot {number}, chain {signature}: {wrong}")


def _wrong(before: ChainManifest, after: ChainManifest, batch: int) -> str:
    """Why a chain cannot follow from its state before; empty where it can."""
    counts = {"segments": "numbered", "rows taken in": "taken", "rows expired": "expired"}
    for what, name in counts.items():
        if getattr(after, name) < getattr(before, name):
            return f"{what} were {getattr(before, name):,} and are {getattr(after, name):,}"
    rows = sum(entry.rows for entry in after.segments)
    if rows != after.taken - after.expired:
        return f"its segments hold {rows:,} rows, of {after.taken:,} taken in and {after.expired:,} expired"
    known = {entry.number for entry in before.segments}
    for entry in after.segments:
        if entry.batch > batch or entry.number > after.numbered:
            return f"segment {entry.name} is of no batch up to now"
        if entry.number <= before.numbered and entry.number not in known:
            return f"segment {entry.name} was gone"
    numbers = {entry.number for entry in after.segments}
    if any(unit.probe not in numbers or unit.state not in numbers for unit in after.ledger):
        return "work waits for segments that are gone"
    return ""


def _broken(after: Manifest, why: str) -> InternalError:
    return InternalError(f"batch {after.batch} is not committed, because it does not add up: {why}")
