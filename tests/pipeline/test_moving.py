"""Groups that change slots: what senders give up is what receivers have, and a slot that ends leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millstream.compile import compile_script
from millstream.engine.chain_manifest import ChainManifest, HeldEntry
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import ShardManifest
from millstream.errors import InternalError
from millstream.pipeline.adaptation.decision import Move
from millstream.pipeline.follows import check_whole
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.pipeline.moving import moved
from millstream.pipeline.slot import SlotReport
from two_streams import PAIR, STREAMS

PLAN = compile_script(f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 1 MINUTE;")
(CHAIN,) = (chain.signature for chain in PLAN.chains)
A, B = (pool.name for pool in PLAN.pools)
TABLE = (0, 0, 1, 1)


def shard(number: int, rows: int, groups: int | None = None, held: str = "") -> ShardManifest:
    entry = SegmentEntry(
        number=number, name="f", batch=1, reach=60, rows=rows, nbytes=rows, first=0, last=1, groups=groups
    )
    chain = ChainManifest(held=(HeldEntry("q", 1, held),) if held else ())
    pools = {A: PoolManifest(taken=rows, segments=(entry,)), B: PoolManifest()}
    return ShardManifest(numbered=number, pools=pools, chains={CHAIN: chain})


def report(slot: int, state: ShardManifest, *leaving: ShardManifest) -> SlotReport:
    return SlotReport(slot=slot, task=slot, token=f"t{slot}", state=state, leaving=leaving)


EMPTY = replace(shard(0, 0), pools={A: PoolManifest(), B: PoolManifest()})


def test_without_moves_everything_stays() -> None:
    reports = [report(0, shard(1, 3)), report(1, shard(2, 4))]
    assert moved(PLAN, TABLE, (), reports) == ({0: shard(1, 3), 1: shard(2, 4)}, TABLE, frozenset())


def test_a_receiver_has_what_a_sender_gives_up() -> None:
    reports = [report(0, shard(1, 3, 0b01), shard(2, 2, 0b10)), report(1, EMPTY)]
    states, table, receivers = moved(PLAN, TABLE, [Move(0b10, 0, 1)], reports)
    assert (table, receivers) == ((0, 1, 1, 1), {1})
    assert states[0] == shard(1, 3, 0b01)
    (entry,) = states[1].pools[A].segments
    assert (entry.rows, entry.groups, states[1].pools[A].taken) == (2, 0b10, 2)
    check_whole(Manifest(batch=1, routing=table, slots=_slots(states)), PLAN)


def test_a_slot_that_ends_gives_up_its_held_rows_too() -> None:
    reports = [report(0, EMPTY), report(1, shard(1, 0, held="rows"), shard(2, 2, 0b100), shard(3, 1, 0b1000))]
    states, table, _ = moved(PLAN, TABLE, [Move(0b100, 1, 0), Move(0b1000, 1, 0)], reports)
    assert table == (0, 0, 0, 0)
    assert set(states) == {0}
    assert [entry.name for entry in states[0].chains[CHAIN].held] == ["rows"]
    assert sum(entry.rows for entry in states[0].segments) == 3


def test_a_new_slot_begins_with_what_it_receives() -> None:
    reports = [report(0, EMPTY, shard(2, 2, 0b10)), report(1, EMPTY)]
    states, table, receivers = moved(PLAN, TABLE, [Move(0b10, 0, 2)], reports)
    assert (set(table), receivers) == ({0, 1, 2}, {2})
    assert set(states[2].pools) == {A, B}
    assert states[2].numbered == 1


def test_a_sender_that_gives_up_too_little_is_noticed() -> None:
    reports = [report(0, EMPTY), report(1, EMPTY)]
    with pytest.raises(InternalError, match="slot 0 has given up 0 sets of groups, of 1"):
        moved(PLAN, TABLE, [Move(0b10, 0, 1)], reports)
    lost = replace(shard(2, 2, 0b10), pools={A: PoolManifest(taken=2), B: PoolManifest()})
    states, table, _ = moved(PLAN, TABLE, [Move(0b10, 0, 1)], [report(0, EMPTY, lost), report(1, EMPTY)])
    with pytest.raises(InternalError, match=r"slot 1: pool .*: its segments hold 0 rows, of 2 taken in"):
        check_whole(Manifest(batch=1, routing=table, slots=_slots(states)), PLAN)
    with pytest.raises(InternalError, match="there are slots"):
        check_whole(Manifest(batch=1, routing=(0, 2), slots=_slots(states)), PLAN)


def _slots(states: dict[int, ShardManifest]) -> dict[int, SlotManifest]:
    return {slot: SlotManifest("t", state) for slot, state in states.items()}
