"""What a slot receives when partition groups are handed over to it: another slot's manifest becomes part of its own.

No row is copied. Segments are received by name, as the rows of the groups that move, and get numbers of the receiver;
the deferred units that move with them follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from millstream.engine.chain_manifest import ChainManifest, DeferredUnit
from millstream.engine.groups import Groups, members
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import Marks, ShardManifest
from millstream.errors import InternalError
from millstream.plan.nodes import PoolName, Signature


def received(
    own: ShardManifest, leaving: ShardManifest, everywhere: Collection[PoolName], *, is_new: bool = False
) -> ShardManifest:
    """A slot's state with that of the groups that another slot has given up.

    Every slot has all rows of the pools `everywhere`. From these a receiver takes, as retired, only the segments that
    units which move with the groups name; one that `is_new`, which has had no group before, has none of these rows yet
    and takes them all.
    """
    named = {number for chain in leaving.chains.values() for unit in chain.ledger for number in _numbers(unit)}
    pieces: dict[PoolName, list[SegmentEntry]] = {}
    for name, pool in leaving.pools.items():
        pieces[name] = list(pool.segments)
        if name in everywhere:
            pieces[name] = _of_everywhere(name, own.pools.get(name, PoolManifest()), pool, named, is_new=is_new)
    given = [entry.number for some in pieces.values() for entry in some]
    numbers = {number: new for new, number in enumerate(given, start=own.numbered + 1)}
    if len(numbers) < len(given):
        raise InternalError("segments that are handed over have the same number")
    if not named <= numbers.keys():
        raise InternalError(f"work is handed over without its segments {sorted(named - numbers.keys())}")
    pools = dict(own.pools)
    for name, pool in leaving.pools.items():
        rows = sum(entry.rows for entry in pieces[name]) if name in everywhere else pool.taken - pool.expired
        renumbered = [replace(entry, number=numbers[entry.number]) for entry in pieces[name]]
        pools[name] = _pool(name, own.pools.get(name, PoolManifest()), renumbered, rows, pool.watermark)
    return ShardManifest(
        numbered=own.numbered + len(given),
        spilled=_spilled(own.spilled, leaving.spilled),
        owing=own.owing | leaving.owing,
        pools=pools,
        chains=_chains(own.chains, leaving.chains, numbers),
    )


def _of_everywhere(
    name: PoolName, own: PoolManifest, pool: PoolManifest, named: Collection[int], *, is_new: bool
) -> list[SegmentEntry]:
    """The segments that a receiver takes from a pool of which every slot has all rows."""
    if not is_new:
        return [replace(entry, retired=True) for entry in pool.segments if entry.number in named]
    if any(not entry.retired for entry in own.segments):
        raise InternalError(f"pool {name}: a slot without partition groups has rows that are in every slot")
    return [entry for entry in pool.segments if not entry.retired or entry.number in named]


def _pool(name: PoolName, own: PoolManifest, pieces: Iterable[SegmentEntry], rows: int, watermark: int) -> PoolManifest:
    """`rows` is how many the giver has counted: where it leaves a segment out, the sum is wrong and is noticed."""
    segments = sorted((*own.segments, *pieces), key=lambda entry: (entry.batch, entry.number))
    _check_apart(name, segments)
    return PoolManifest(
        taken=own.taken + rows,
        expired=own.expired,
        watermark=max(own.watermark, watermark),
        segments=tuple(segments),
    )


def _check_apart(name: PoolName, segments: Iterable[SegmentEntry]) -> None:
    """Rows that are there twice would be joined twice. Those of retired segments are joined by units only."""
    known: dict[str, Groups] = {}
    for entry in segments:
        if entry.retired:
            continue
        groups = -1 if entry.groups is None else entry.groups
        if known.get(entry.name, 0) & groups:
            raise InternalError(f"pool {name}: segment {entry.name} is handed over to a slot that has it")
        known[entry.name] = known.get(entry.name, 0) | groups


def _spilled(own: Mapping[Marks, Groups], leaving: Mapping[Marks, Groups]) -> dict[Marks, Groups]:
    """Batches have the same numbers in all slots, so marks stay as they are."""
    found = dict(own)
    before = _union(own.values())
    for marks, groups in leaving.items():
        if before & groups:
            raise InternalError(f"partition groups {members(before & groups)} are handed over to a slot that has them")
        found[marks] = found.get(marks, 0) | groups
    return found


def _union(sets: Iterable[Groups]) -> Groups:
    found = 0
    for groups in sets:
        found |= groups
    return found


def _chains(
    own: Mapping[Signature, ChainManifest], leaving: Mapping[Signature, ChainManifest], numbers: Mapping[int, int]
) -> dict[Signature, ChainManifest]:
    found = dict(own)
    for signature, chain in leaving.items():
        found[signature] = _chain(own.get(signature, ChainManifest()), chain, numbers)
    return found


def _chain(own: ChainManifest, leaving: ChainManifest, numbers: Mapping[int, int]) -> ChainManifest:
    """A chain begins in all slots with the same batch, when each pool has the same watermark in all of them: floors are
    equal, or one side has none because its slot is new and was empty. `began_after` is the last earlier batch that a
    slot had rows of. It may differ, but rows of no slot lie between two of its values.
    """
    return ChainManifest(
        began_after=max(own.began_after, leaving.began_after),
        floors={
            pool: max(some[pool] for some in (own.floors, leaving.floors) if pool in some)
            for pool in (*own.floors, *leaving.floors)
        },
        ledger=(*own.ledger, *(_renumbered(unit, numbers) for unit in leaving.ledger)),
        held=(*own.held, *leaving.held),
    )


def _renumbered(unit: DeferredUnit, numbers: Mapping[int, int]) -> DeferredUnit:
    lookup = tuple(tuple(numbers[number] for number in step) for step in unit.lookup)
    return replace(unit, probe=numbers[unit.probe], lookup=lookup)


def _numbers(unit: DeferredUnit) -> Iterable[int]:
    return (unit.probe, *(number for step in unit.lookup for number in step))
