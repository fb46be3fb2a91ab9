"""A slot's segments are files that are opened once, and that only the driver deletes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from millstream.engine.chain_manifest import ChainManifest, SegmentEntry
from millstream.engine.files import Files
from millstream.engine.keys import codes
from millstream.engine.segment import Segment, build
from millstream.pipeline.slot_store import SlotStore, SlotStores
from two_streams import START


def segment(number: int) -> Segment:
    rows = pa.RecordBatch.from_pydict(
        {"k": pa.array([1, 2], pa.int32()), "Ts": pa.array([START, START], pa.timestamp("us", "UTC"))}
    )
    return build(number, "left", 1, 60, rows, "Ts", codes([rows.column("k")], 2))


def entry(store: SlotStore, of: Segment) -> SegmentEntry:
    return SegmentEntry(
        number=of.number,
        name=store.name(of),
        side=of.side,
        batch=of.batch,
        reach=of.reach,
        rows=len(of),
        nbytes=of.nbytes,
        first=of.first,
        last=of.last,
        stamps=store.stamps(of),
    )


def test_a_segment_is_opened_once(tmp_path: Path) -> None:
    store = SlotStore(Files.at(tmp_path))
    kept = store.keep(segment(1))
    saved = entry(store, kept)
    assert store.load(saved) is kept, "what it wrote itself"
    other = SlotStore(Files.at(tmp_path))
    assert other.load(saved) is other.load(saved)
    assert other.load(saved).rows.equals(kept.rows)


def test_what_is_dropped_or_forgotten_stays_on_the_disk(tmp_path: Path) -> None:
    """A batch may fail after it: then the one before, which names the file, is gone on from."""
    store = SlotStore(Files.at(tmp_path))
    one, two = (store.keep(segment(number)) for number in (1, 2))
    first, second = entry(store, one), entry(store, two)
    files = sorted(path.name for path in tmp_path.iterdir())
    store.drop(one)
    store.forget_all_but(set())
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    again = store.load(first), store.load(second)
    assert again[0] is not one
    assert again[1] is not two
    assert all(found.rows.equals(kept.rows) for found, kept in zip(again, (one, two), strict=True))


def test_names_of_chains_and_batches_differ(tmp_path: Path) -> None:
    stores = SlotStores(Files.at(tmp_path))
    chains = [stores.of(name) for name in ("A B", "A C")]
    names = set()
    for prefix in ("00000001-", "00000002-"):
        stores.begin(prefix)
        for store in chains:
            names.add(store.name(store.keep(segment(1))))
    assert len(names) == 4
    assert {name[:9] for name in names} == {"00000001-", "00000002-"}


def test_only_what_chains_still_name_stays_open(tmp_path: Path) -> None:
    stores = SlotStores(Files.at(tmp_path))
    store, gone = stores.of("A B"), stores.of("A C")
    stores.begin("00000001-")
    one, two, other = store.keep(segment(1)), store.keep(segment(2)), gone.keep(segment(1))
    saved = [entry(store, one), entry(store, two)]
    stores.forget_all_but({"A B": ChainManifest(segments=(saved[0],))})
    assert store.load(saved[0]) is one
    assert store.load(saved[1]) is not two
    stores.begin("00000002-")
    assert store.prefix.startswith("00000002-")
    assert gone.prefix.startswith("00000001-"), "a chain that is gone takes no part"
    assert len(other) == 2
