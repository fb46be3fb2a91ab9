"""Partition groups that are handed over: every row arrives once, and what waits finds its segments."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.chain_manifest import ChainManifest, DeferredUnit, HeldEntry
from millstream.engine.groups import Groups, group_set, members
from millstream.engine.handover import received
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import ShardManifest
from millstream.errors import InternalError

ALL = 6
KEYED, EVERYWHERE = ("A", "B"), ("C",)
POOLS = (*KEYED, *EVERYWHERE)


def rows_in(name: str, groups: Groups | None) -> int:
    """How many rows a file has of some groups: the same whoever asks."""
    return sum(1 + (len(name) + ord(name[-1]) + group) % 3 for group in members(groups or group_set(range(ALL))))


def entry(number: int, name: str, groups: Groups | None = None, *, batch: int = 1, **more: Any) -> SegmentEntry:
    rows = rows_in(name, groups)
    return SegmentEntry(
        number=number,
        name=name,
        batch=batch,
        reach=9,
        rows=rows,
        nbytes=8 * rows,
        first=0,
        last=5,
        groups=groups,
        **more,
    )


def unit(probe: int, *lookup: tuple[int, ...]) -> DeferredUnit:
    return DeferredUnit(probe=probe, at=0, lookup=lookup, lo=0, hi=9)


def pool_of(entries: Sequence[SegmentEntry], expired: int = 0, watermark: int = 0) -> PoolManifest:
    rows = sum(one.rows for one in entries)
    return PoolManifest(taken=rows + expired, expired=expired, watermark=watermark, segments=tuple(entries))


@st.composite
def shards(draw: st.DrawFn, prefix: str, groups: Groups, *, expired: bool = True, empty: bool = False) -> ShardManifest:
    """A shard that has some groups. Files named `f` are shared by all shards, others are its own."""
    pools, numbers = {}, []
    highest = 0
    for name in POOLS:
        if name in KEYED:
            shared = [f"f{name}{file}" for file in draw(st.sets(st.integers(0, 3), max_size=3))]
            own = [f"{prefix}{name}{file}" for file in range(draw(st.integers(0, 2)))]
            found = [(file, groups) for file in shared] + [
                (file, draw(st.sampled_from([None, groups]))) for file in own
            ]
        else:
            found = [(f"{prefix}{name}{file}", None) for file in range(0 if empty else draw(st.integers(0, 3)))]
        entries = []
        for file, some in () if empty else found:
            highest += draw(st.integers(1, 3))
            retired = draw(st.booleans()) if name not in KEYED else False
            entries.append(entry(highest, file, some, batch=draw(st.integers(1, 4)), retired=retired))
        numbers += [one.number for one in entries]
        pools[name] = pool_of(entries, draw(st.integers(0, 9)) if expired else 0, draw(st.integers(-5, 5)))
    some_numbers = st.lists(st.sampled_from(numbers), min_size=1, max_size=3) if numbers else st.nothing()
    units = some_numbers.map(lambda found: unit(found[0], tuple(found[1:]), tuple(found)))
    chains = {}
    for signature in ("one", "two"):
        chains[signature] = ChainManifest(
            began_after=draw(st.integers(0, 3)),
            floors=draw(st.dictionaries(st.sampled_from(POOLS), st.integers(-5, 5), max_size=2)),
            ledger=tuple(draw(st.lists(units, max_size=4))) if numbers else (),
            held=tuple(HeldEntry(query, 1, f"{prefix}{query}") for query in draw(st.sets(st.sampled_from("qr")))),
        )
    marks = draw(st.dictionaries(st.sampled_from([(1,), (1, 3), (2,)]), st.just(0), max_size=2))
    for group in members(groups) if marks else ():
        if draw(st.booleans()):
            marks[draw(st.sampled_from(sorted(marks)))] |= 1 << group
    return ShardManifest(
        numbered=highest + draw(st.integers(0, 2)),
        spilled={key: some for key, some in marks.items() if some},
        owing=group_set(group for some in marks.values() for group in members(some) if draw(st.booleans())),
        pools=pools,
        chains=chains,
    )


@st.composite
def handovers(draw: st.DrawFn) -> tuple[ShardManifest, ShardManifest, bool]:
    is_new = draw(st.booleans())
    own_groups = 0 if is_new else draw(st.integers(1, 2**ALL - 2))
    left = members(2**ALL - 1 & ~own_groups)
    leaving = group_set(draw(st.lists(st.sampled_from(left), min_size=1)))
    own = draw(shards("y", own_groups, empty=is_new))
    return own, draw(shards("x", leaving, expired=False)), is_new


def live(shard: ShardManifest, pool: str) -> Counter[tuple[str, int]]:
    """Every partition group of every file that is state of a pool."""
    return Counter(
        (one.name, group)
        for one in shard.pools[pool].segments
        if not one.retired
        for group in members(one.groups if one.groups is not None else 2**ALL - 1)
    )


def resolved(shard: ShardManifest, some: DeferredUnit) -> tuple[Any, ...]:
    """A unit by what its numbers stand for."""
    found = {one.number: (pool, one.name, one.groups) for pool in shard.pools for one in shard.pools[pool].segments}
    return found[some.probe], some.at, [[found[number] for number in step] for step in some.lookup], some.lo, some.hi


@given(handovers())
def test_every_row_and_every_unit_arrives_once(given: tuple[ShardManifest, ShardManifest, bool]) -> None:
    own, leaving, is_new = given
    found = received(own, leaving, EVERYWHERE, is_new=is_new)
    for pool in KEYED:
        assert live(found, pool) == live(own, pool) + live(leaving, pool)
    for pool in EVERYWHERE:
        assert live(found, pool) == (live(leaving, pool) if is_new else live(own, pool))
    numbers = [one.number for one in found.segments]
    assert len(set(numbers)) == len(numbers)
    assert max(numbers, default=0) <= found.numbered
    before = {one.number: one for one in own.segments}
    new = [one for one in found.segments if one.number not in before]
    assert all(before.get(one.number, one) == one for one in found.segments)
    assert all(one.number > own.numbered for one in new)
    assert found.numbered == own.numbered + len(new)
    for signature, chain in found.chains.items():
        mine, theirs = own.chains[signature], leaving.chains[signature]
        assert chain.ledger[: len(mine.ledger)] == mine.ledger
        arrived = [resolved(found, one) for one in chain.ledger[len(mine.ledger) :]]
        assert arrived == [resolved(leaving, one) for one in theirs.ledger]
        assert chain.held == (*mine.held, *theirs.held)
        assert chain.began_after == max(mine.began_after, theirs.began_after)
        assert chain.floors.keys() == mine.floors.keys() | theirs.floors.keys()
        assert all(
            floor >= max(mine.floors.get(pool, floor), theirs.floors.get(pool, floor))
            for pool, floor in chain.floors.items()
        )
    for pool, told in found.pools.items():
        assert sum(one.rows for one in told.segments) == told.taken - told.expired
        assert told.expired == own.pools[pool].expired
        assert told.watermark == max(own.pools[pool].watermark, leaving.pools[pool].watermark)
        assert list(told.segments) == sorted(told.segments, key=lambda one: (one.batch, one.number))
    assert found == ShardManifest.from_json(json.loads(json.dumps(found.to_json())))


@given(handovers())
def test_only_what_units_name_is_taken_from_pools_that_are_everywhere(
    given: tuple[ShardManifest, ShardManifest, bool],
) -> None:
    own, leaving, is_new = given
    found = received(own, leaving, EVERYWHERE, is_new=is_new)
    ledger = [one for chain in leaving.chains.values() for one in chain.ledger]
    named = {number for one in ledger for number in (one.probe, *(n for step in one.lookup for n in step))}
    for pool in EVERYWHERE:
        retired = [one.name for one in found.pools[pool].segments if one.retired and one.number > own.numbered]
        gone = [one for one in leaving.pools[pool].segments if one.number in named and (one.retired or not is_new)]
        assert sorted(retired) == sorted(one.name for one in gone)


@given(handovers())
def test_marks_of_all_groups_are_kept(given: tuple[ShardManifest, ShardManifest, bool]) -> None:
    own, leaving, is_new = given
    found = received(own, leaving, EVERYWHERE, is_new=is_new)

    def marked(shard: ShardManifest) -> dict[int, tuple[int, ...]]:
        return {group: marks for marks, groups in shard.spilled.items() for group in members(groups)}

    assert marked(found) == marked(own) | marked(leaving)
    assert sum(groups.bit_count() for groups in found.spilled.values()) == len(marked(found))
    assert found.owing == own.owing | leaving.owing


@given(st.data())
def test_several_slots_may_give_in_any_order(data: st.DataObject) -> None:
    own, first, second = (
        data.draw(shards(prefix, groups, expired=prefix == "y")) for prefix, groups in (("y", 1), ("x", 6), ("z", 8))
    )
    one, other = (
        received(received(own, some, EVERYWHERE), more, EVERYWHERE) for some, more in ((first, second), (second, first))
    )
    assert one.numbered == other.numbered
    for pool in POOLS:
        assert live(one, pool) == live(other, pool)
        assert one.pools[pool].taken == other.pools[pool].taken
    assert one.spilled == other.spilled
    for signature in one.chains:
        units = [
            Counter(repr(resolved(shard, some)) for some in shard.chains[signature].ledger) for shard in (one, other)
        ]
        assert units[0] == units[1]


def test_pools_and_chains_that_a_slot_lacks_are_received() -> None:
    leaving = ShardManifest(
        numbered=9,
        pools={"A": pool_of([entry(4, "a", 2)], watermark=7), "C": pool_of([entry(9, "c")])},
        chains={"one": ChainManifest(began_after=2, floors={"A": 3}, ledger=(unit(4, (9,)),))},
    )
    found = received(ShardManifest(numbered=5), leaving, EVERYWHERE, is_new=True)
    assert found == ShardManifest(
        numbered=7,
        pools={"A": pool_of([entry(6, "a", 2)], watermark=7), "C": pool_of([entry(7, "c")])},
        chains={"one": ChainManifest(began_after=2, floors={"A": 3}, ledger=(unit(6, (7,)),))},
    )


def one_pool(*entries: SegmentEntry, ledger: tuple[DeferredUnit, ...] = (), **more: Any) -> ShardManifest:
    pools, chains = {"A": pool_of(entries)}, {"one": ChainManifest(ledger=ledger)}
    return ShardManifest(numbered=max((one.number for one in entries), default=0), pools=pools, chains=chains, **more)


@pytest.mark.parametrize(
    ("own", "leaving", "why"),
    [
        (one_pool(entry(1, "a", 3)), one_pool(entry(1, "a", 6)), "segment a is handed over to a slot that has it"),
        (one_pool(entry(1, "a")), one_pool(entry(1, "a", 2)), "segment a is handed over to a slot that has it"),
        (one_pool(), one_pool(entry(1, "a", 3), entry(2, "a", 2)), "segment a is handed over to a slot that has it"),
        (one_pool(), one_pool(entry(1, "a"), entry(1, "b")), "have the same number"),
        (one_pool(), one_pool(entry(1, "a"), ledger=(unit(1, (1, 2)),)), r"without its segments \[2\]"),
        (one_pool(), one_pool(entry(1, "a"), ledger=(unit(3, (1,)),)), r"without its segments \[3\]"),
        (one_pool(spilled={(1,): 3}), one_pool(spilled={(2,): 6}), r"groups \[1\] are handed over to a slot"),
    ],
)
def test_rows_and_work_that_would_be_lost_or_doubled_are_refused(
    own: ShardManifest, leaving: ShardManifest, why: str
) -> None:
    with pytest.raises(InternalError, match=why):
        received(own, leaving, ())


def test_a_new_slot_has_no_rows_that_are_everywhere() -> None:
    own = one_pool(entry(1, "a"))
    with pytest.raises(InternalError, match="a slot without partition groups has rows that are in every slot"):
        received(own, one_pool(entry(1, "b")), ["A"], is_new=True)
    retired = one_pool(entry(1, "a", retired=True))
    assert len(received(retired, one_pool(entry(1, "b")), ["A"], is_new=True).segments) == 2
