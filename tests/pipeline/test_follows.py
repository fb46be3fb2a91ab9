"""A manifest that leaves something out is never committed; a failure with nobody to blame is tried again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millstream.compile import compile_script
from millstream.engine.chain_manifest import ChainManifest, DeferredUnit
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import ShardManifest
from millstream.errors import InternalError
from millstream.pipeline.follows import check_follows
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.plan import Plan
from two_streams import PAIR, STREAMS


def segment(number: int, rows: int, batch: int = 1) -> SegmentEntry:
    return SegmentEntry(
        number=number, name=f"s{number}", batch=batch, reach=60, rows=rows, nbytes=8 * rows, first=0, last=1
    )


def plan_of(*queries: str) -> Plan:
    return compile_script(STREAMS + "".join(queries))


PLAN = plan_of(f"CREATE QUERY q AS {PAIR} WINDOW 1 MINUTE;")
MORE = plan_of(
    f"CREATE QUERY q AS {PAIR} WINDOW 1 MINUTE;",
    "CREATE QUERY r AS SELECT A.k FROM A, B WHERE A.v = B.v WINDOW 1 MINUTE;",
)
(CHAIN,) = (chain.signature for chain in PLAN.chains)
A, B = (pool.name for pool in PLAN.pools)
POOLS = {
    A: PoolManifest(taken=10, expired=1, segments=(segment(1, 4), segment(2, 5))),
    B: PoolManifest(taken=3, segments=(segment(3, 3),)),
}
SHARD = ShardManifest(numbered=3, pools=POOLS, chains={CHAIN: ChainManifest()})
BEFORE = Manifest(batch=1, pipeline="p", routing=(0, 1), slots={n: SlotManifest("t", SHARD) for n in (0, 1)})
AFTER = replace(BEFORE, batch=2)


def with_shard(**changes: Any) -> Manifest:
    return replace(AFTER, slots={**AFTER.slots, 1: SlotManifest("u", replace(SHARD, **changes))})


def with_pool(numbered: int = 3, **changes: Any) -> Manifest:
    return with_shard(numbered=numbered, pools={**POOLS, A: replace(POOLS[A], **changes)})


def with_unit(probe: int, *lookup: tuple[int, ...]) -> Manifest:
    unit = DeferredUnit(probe=probe, at=0, lookup=lookup, lo=0, hi=5)
    return with_shard(chains={CHAIN: ChainManifest(ledger=(unit,))})


def test_what_follows_is_let_through() -> None:
    check_follows(BEFORE, AFTER, PLAN)
    check_follows(BEFORE, with_pool(numbered=5, taken=12, expired=6, segments=(segment(5, 6, 2),)), PLAN)
    check_follows(BEFORE, with_unit(3, (1, 2), (3,)), PLAN)
    nothing = replace(AFTER, slots={n: SlotManifest("t", ShardManifest(numbered=3)) for n in (0, 1)})
    check_follows(BEFORE, nothing, plan_of())
    new = replace(
        SHARD,
        pools={**POOLS, **{pool.name: PoolManifest() for pool in MORE.pools if pool.name not in POOLS}},
        chains={chain.signature: ChainManifest() for chain in MORE.chains},
    )
    check_follows(BEFORE, replace(AFTER, slots={n: SlotManifest("t", new) for n in (0, 1)}), MORE)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (replace(AFTER, slots={0: AFTER.slots[0]}), r"slots \[0\] have reported"),
        (with_shard(chains={}), "slot 1 has told of 0 chains, of 1"),
        (with_shard(pools={A: POOLS[A]}), "slot 1 has told of 1 pools, of 2"),
        (replace(AFTER, slots={**AFTER.slots, 1: SlotManifest("", SHARD)}), "slot 1 has told"),
        (replace(AFTER, batch=3), "it follows batch 1"),
        (replace(AFTER, pipeline="other"), "it follows batch 1"),
        (with_shard(numbered=0, pools={A: PoolManifest(), B: PoolManifest()}), "segments were 3 and are 0"),
        (with_pool(segments=(segment(2, 5),)), "hold 5 rows, of 10 taken in and 1 expired"),
        (with_pool(taken=9), "rows taken in were 10 and are 9"),
        (with_pool(expired=0), "rows expired were 1 and are 0"),
        (with_pool(numbered=4, segments=(segment(1, 4), segment(4, 5, batch=3))), "s4 is of no batch up to now"),
        (with_pool(segments=(segment(1, 4), segment(4, 5))), "s4 is of no batch up to now"),
        (with_pool(numbered=4, segments=(segment(1, 4), segment(0, 5))), "s0 was gone"),
        (with_unit(9, (1,)), "work waits for segments that are gone"),
        (with_unit(1, (2,), (3, 9)), "work waits for segments that are gone"),
    ],
)
def test_what_does_not_follow_is_refused(after: Manifest, why: str) -> None:
    with pytest.raises(InternalError, match=why):
        check_follows(BEFORE, after, PLAN)


def test_a_plan_with_more_pools_than_were_told_of_is_not_followed() -> None:
    chains = {chain.signature: ChainManifest() for chain in MORE.chains}
    after = replace(AFTER, slots={n: SlotManifest("t", replace(SHARD, chains=chains)) for n in (0, 1)})
    with pytest.raises(InternalError, match="slot 0 has told of 2 pools, of 4"):
        check_follows(BEFORE, after, MORE)
