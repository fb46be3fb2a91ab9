"""A saved shard: its pools and chains come back as they were, and every file that it needs is named."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.engine.chain_manifest import ChainManifest, DeferredUnit, HeldEntry
from millstream.engine.files import Files, Stamp
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.store import keep_rows, stamp_in


def entry(number: int, stamps: tuple[Stamp, ...] = ()) -> SegmentEntry:
    return SegmentEntry(
        number=number, name=f"p-{number}", batch=1, reach=9, rows=3, nbytes=40, first=0, last=5, stamps=stamps
    )


def unit(probe: int, *lookup: tuple[int, ...]) -> DeferredUnit:
    return DeferredUnit(probe=probe, at=0, lookup=lookup, lo=0, hi=9)


pools = st.builds(
    PoolManifest, taken=st.integers(0, 9), segments=st.lists(st.integers(1, 99).map(entry), max_size=3).map(tuple)
)
units = st.builds(unit, st.integers(1, 9), st.tuples(st.integers(1, 9)), st.tuples(st.integers(1, 9), st.just(4)))
chains = st.builds(ChainManifest, ledger=st.lists(units, max_size=3).map(tuple))
manifests = st.builds(
    ShardManifest,
    numbered=st.integers(0, 99),
    spilled=st.dictionaries(st.lists(st.integers(1, 9), max_size=2).map(tuple), st.integers(1, 2**70), max_size=2),
    owing=st.integers(0, 2**70),
    pools=st.dictionaries(st.text(), pools, max_size=3),
    chains=st.dictionaries(st.text(), chains, max_size=3),
)


FORMAT_4 = """
{"numbered": 9,
 "spilled": [{"after": [3], "groups": "80000000000000000001"}, {"after": [3, 7], "groups": "6"}],
 "owing": "4",
 "pools": [{"pool": "[\\"A\\"]", "taken": 3, "expired": 0, "watermark_us": 5, "segments": []}],
 "chains": []}
"""
"""As manifests of format 4 hold it: a directory of before must go on after an update."""


def test_what_format_4_says_is_read_and_written_as_ever() -> None:
    manifest = ShardManifest(
        numbered=9,
        spilled={(3,): 2**79 + 1, (3, 7): 0b110},
        owing=0b100,
        pools={'["A"]': PoolManifest(taken=3, watermark=5)},
    )
    assert ShardManifest.from_json(json.loads(FORMAT_4)) == manifest
    assert json.loads(json.dumps(manifest.to_json())) == json.loads(FORMAT_4)


@settings(max_examples=50)
@given(manifests)
def test_a_shard_comes_back_from_json_with_all_its_pools_and_chains(manifest: ShardManifest) -> None:
    again = ShardManifest.from_json(json.loads(json.dumps(manifest.to_json())))
    assert again == manifest
    assert list(again.pools) == list(manifest.pools)
    assert list(again.chains) == list(manifest.chains)
    assert again.deferred == sum(len(chain.ledger) for chain in manifest.chains.values())
    assert [one.number for one in again.segments] == [
        one.number for pool in manifest.pools.values() for one in pool.segments
    ]


def test_every_file_that_it_needs_is_named_with_its_stamp(tmp_path_factory: pytest.TempPathFactory) -> None:
    held = keep_rows(Files.at(tmp_path_factory.mktemp("held")), "held-q", pa.table({"a": [1]}))
    manifest = ShardManifest(
        pools={
            "A": PoolManifest(
                segments=(entry(1, (Stamp(10, 1), Stamp(11, 2))), entry(3, (Stamp(12, 3), Stamp(13, 4))))
            ),
            "B": PoolManifest(segments=(entry(2, (Stamp(14, 5), Stamp(15, 6))),)),
        },
        chains={"A B": ChainManifest(held=(HeldEntry("q", 1, held),)), "A A": ChainManifest()},
    )
    assert manifest.files() == {
        "p-1.arrow": Stamp(10, 1),
        "p-1.index.arrow": Stamp(11, 2),
        "p-3.arrow": Stamp(12, 3),
        "p-3.index.arrow": Stamp(13, 4),
        "p-2.arrow": Stamp(14, 5),
        "p-2.index.arrow": Stamp(15, 6),
        f"{held}.arrow": stamp_in(held),
    }


def test_a_segment_without_its_stamps_is_not_taken_for_one_without_files() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ShardManifest(pools={"A": PoolManifest(segments=(entry(1, (Stamp(10, 1),)),))}).files()
