"""The last check before a commit: a manifest must follow from the one before.

A slot that reports too little would lose its state, silently and for good. Slots count every number here as they work,
so an incomplete report does not add up.
"""

from __future__ import annotations

from millstream.engine.pool_manifest import PoolManifest
from millstream.engine.shard_manifest import ShardManifest
from millstream.errors import InternalError
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.plan.nodes import Plan


def check_follows(before: Manifest, after: Manifest, plan: Plan) -> None:
    """Refuses a manifest that cannot be the result of a batch on the one before."""
    chains, pools = {chain.signature for chain in plan.chains}, {pool.name for pool in plan.pools}
    if after.batch != before.batch + 1 or after.pipeline != before.pipeline:
        raise _broken(after, f"it follows batch {before.batch}")
    if set(after.slots) != set(after.routing):
        raise _broken(after, f"slots {sorted(after.slots)} have reported, of {sorted(set(after.routing))}")
    for number, slot in after.slots.items():
        told, known = slot.shard, before.slots.get(number, SlotManifest("", ShardManifest())).shard
        if not slot.token or set(told.chains) != chains:
            raise _broken(after, f"slot {number} has told of {len(told.chains)} chains, of {len(chains)}")
        if set(told.pools) != pools:
            raise _broken(after, f"slot {number} has told of {len(told.pools)} pools, of {len(pools)}")
        wrong = _wrong(known, told, after.batch)
        if wrong:
            raise _broken(after, f"slot {number}: {wrong}")


def check_whole(after: Manifest, plan: Plan) -> None:
    """Refuses a manifest in which groups have moved and rows have not."""
    pools = {pool.name for pool in plan.pools}
    if set(after.slots) != set(after.routing):
        raise _broken(after, f"there are slots {sorted(after.slots)}, and groups in {sorted(set(after.routing))}")
    for number, slot in after.slots.items():
        if set(slot.shard.pools) != pools:
            raise _broken(after, f"slot {number} has {len(slot.shard.pools)} pools, of {len(pools)}")
        for name, pool in slot.shard.pools.items():
            wrong = _wrong_pool(PoolManifest(), pool)
            if wrong:
                raise _broken(after, f"slot {number}: pool {name}: {wrong}")


def _wrong(before: ShardManifest, after: ShardManifest, batch: int) -> str:
    """Why a shard cannot follow from its state before; empty where it can."""
    if after.numbered < before.numbered:
        return f"segments were {before.numbered:,} and are {after.numbered:,}"
    for name, pool in after.pools.items():
        wrong = _wrong_pool(before.pools.get(name, PoolManifest()), pool)
        if wrong:
            return f"pool {name}: {wrong}"
    known = {entry.number for entry in before.segments}
    for entry in after.segments:
        if entry.batch > batch or entry.number > after.numbered:
            return f"segment {entry.name} is of no batch up to now"
        if entry.number <= before.numbered and entry.number not in known:
            return f"segment {entry.name} was gone"
    numbers = {entry.number for entry in after.segments}
    units = [unit for chain in after.chains.values() for unit in chain.ledger]
    if any(not numbers.issuperset((unit.probe, *(one for step in unit.lookup for one in step))) for unit in units):
        return "work waits for segments that are gone"
    return ""


def _wrong_pool(before: PoolManifest, after: PoolManifest) -> str:
    for what, name in {"rows taken in": "taken", "rows expired": "expired"}.items():
        if getattr(after, name) < getattr(before, name):
            return f"{what} were {getattr(before, name):,} and are {getattr(after, name):,}"
    rows = sum(entry.rows for entry in after.segments)
    if rows != after.taken - after.expired:
        return f"its segments hold {rows:,} rows, of {after.taken:,} taken in and {after.expired:,} expired"
    return ""


def _broken(after: Manifest, why: str) -> InternalError:
    return InternalError(f"batch {after.batch} is not committed, because it does not add up: {why}")
