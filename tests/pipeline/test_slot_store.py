"""A slot's segments are files that are opened once, and that only the driver deletes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from millstream.engine.files import Files
from millstream.engine.keys import codes
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.segment import Lot, Segment, build
from millstream.pipeline.slot_store import SlotStore
from two_streams import START


def segment(number: int) -> Segment:
    rows = pa.RecordBatch.from_pydict(
        {"k": pa.array([1, 2], pa.int32()), "Ts": pa.array([START, START], pa.timestamp("us", "UTC"))}
    )
    return build(number, 1, Lot(60, frozenset({"A B"})), rows, "Ts", codes([rows.column("k")], 2))


def entry(store: SlotStore, of: Segment) -> SegmentEntry:
    return SegmentEntry(
        number=of.number,
        name=store.name(of),
        batch=of.batch,
        reach=of.reach,
        rows=len(of),
        nbytes=of.nbytes,
        first=of.first,
        last=of.last,
        hidden_from=tuple(of.hidden_from),
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
    assert other.load(saved).lot == kept.lot


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


def test_names_of_batches_differ(tmp_path: Path) -> None:
    """The same number may be given again, when a batch was not committed."""
    store, names = SlotStore(Files.at(tmp_path)), []
    for prefix in ("00000001-", "00000002-"):
        store.prefix = prefix
        names.append(store.name(store.keep(segment(1))))
    assert names == ["00000001-1", "00000002-1"]


def test_only_what_is_still_named_stays_open(tmp_path: Path) -> None:
    store = SlotStore(Files.at(tmp_path))
    one, two = store.keep(segment(1)), store.keep(segment(2))
    saved = [entry(store, one), entry(store, two)]
    store.forget_all_but({saved[0].name})
    assert store.load(saved[0]) is one
    assert store.load(saved[1]) is not two
