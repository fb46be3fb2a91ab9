"""A slot's segments are files that are opened once, and that only the driver deletes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from millstream.engine.files import Files
from millstream.engine.keys import codes
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.segment import Lot, Segment, build, picked
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


def test_what_is_spilled_or_divided_does_not_stay_open(tmp_path: Path) -> None:
    store = SlotStore(Files.at(tmp_path))
    spilled, divided = store.keep(segment(1)), store.keep(segment(2))
    store.release(spilled)
    store.share(divided, 3)
    for whole in (spilled, divided):
        part = replace(entry(store, whole), groups=1, on_disk=whole is spilled)
        one, other = store.load(part), store.load(part)
        assert one is not whole
        assert one is not other, "opened for those who ask, and closed with them"
        assert one.rows.equals(whole.rows)


def test_a_part_is_taken_from_what_is_open_anyway(tmp_path: Path) -> None:
    store = SlotStore(Files.at(tmp_path))
    whole = store.keep(segment(1))
    assert store.load(replace(entry(store, whole), number=5, groups=1)) is whole
    assert store.name(numbered(whole, 5)) == store.name(whole)


@pytest.mark.parametrize("first", [1, 3])
def test_the_last_part_that_goes_closes_the_files_and_leaves_them(tmp_path: Path, first: int) -> None:
    store = SlotStore(Files.at(tmp_path))
    whole = store.keep(segment(1))
    store.share(whole, 3)
    saved = entry(store, whole)
    opened = store.load(saved)
    assert store.load(saved) is opened
    store.drop(numbered(whole, first))
    assert store.load(replace(saved, number=4 - first)) is opened, "another part is still there"
    store.drop(numbered(whole, 4 - first))
    assert len(list(tmp_path.iterdir())) == 2
    assert store.load(saved) is not opened


def numbered(whole: Segment, number: int) -> Segment:
    """A part with this number."""
    return picked(number, whole, np.array([0]), whole.row_keys()[:1], 1)
