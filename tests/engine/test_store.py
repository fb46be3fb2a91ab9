"""Segments as files are the same segments."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.engine import Engine
from millstream.engine.files import DamagedFileError, Files, Stamp, stamp_of
from millstream.engine.keys import codes
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.segment import Lot, Segment, build, picked
from millstream.engine.store import FileStore, MemoryStore, Names, Store, files_of, keep_rows, load_rows, stamp_in
from millstream.lab.workloads.generators import Sensors

START = datetime(2024, 1, 1, tzinfo=UTC)


def some_segment(*, indexed: bool = True) -> Segment:
    rows = pa.RecordBatch.from_pydict(
        {
            "k": pa.array([3, 1, 3, 2], pa.int32()),
            "text": ["", None, "ä", "long enough"],
            "nested": [{"x": [1, None]}, None, {"x": []}, {"x": None}],
            "Ts": pa.array([START + timedelta(seconds=s) for s in (5, 1, 2, 9)], pa.timestamp("us", "UTC")),
        }
    )
    lot, coded = Lot(60_000_000, frozenset({"A B", "A C"})), codes([rows.column("k")], 4)
    return build(7, 3, lot, rows, "Ts", coded, indexed=indexed)


def entry_of(s: Segment) -> SegmentEntry:
    return SegmentEntry(
        number=s.number,
        name=str(s.number),
        batch=s.batch,
        reach=s.reach,
        rows=len(s),
        nbytes=s.nbytes,
        first=s.first,
        last=s.last,
        hidden_from=tuple(s.hidden_from),
    )


@pytest.mark.parametrize("indexed", [True, False])
def test_a_segment_comes_back_as_it_was(indexed: bool, tmp_path: Path) -> None:
    segment = some_segment(indexed=indexed)
    kept = FileStore(Files.at(tmp_path)).keep(segment)
    again = FileStore(Files.at(tmp_path)).load(entry_of(segment))
    for other in (kept, again):
        assert other.rows.equals(segment.rows)
        assert (other.number, other.batch, other.lot) == (7, 3, Lot(60_000_000, frozenset({"A B", "A C"})))
        assert other.is_indexed == indexed
        assert np.array_equal(other.keys, segment.keys)
        assert np.array_equal(other.starts, segment.starts)
        assert np.array_equal(other.times, segment.times)


def test_rows_are_mapped_and_not_read(tmp_path: Path) -> None:
    before = pa.total_allocated_bytes()
    rows = Sensors(rate=100_000, seconds=1).table(1).combine_chunks().to_batches()[0]
    segment = build(1, 1, Lot(1), rows, "Ts", codes([rows.column("LocationId")], rows.num_rows))
    FileStore(Files.at(tmp_path)).keep(segment)
    entry = entry_of(segment)
    del rows, segment
    loaded = FileStore(Files.at(tmp_path)).load(entry)
    assert len(loaded) > 90_000
    assert pa.total_allocated_bytes() - before < 100_000


@pytest.mark.parametrize("ending", [".arrow", ".index.arrow"])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "other bytes", "another segment's"])
def test_files_that_are_not_what_was_written_are_not_loaded(tmp_path: Path, ending: str, damage: str) -> None:
    segment, store = some_segment(), FileStore(Files.at(tmp_path))
    store.keep(segment)
    entry = replace(entry_of(segment), stamps=store.stamps(segment))
    assert FileStore(Files.at(tmp_path)).load(entry).rows.equals(segment.rows)
    path = tmp_path / f"{entry.name}{ending}"
    whole = path.read_bytes()
    middle = len(whole) // 2
    if damage == "gone":
        path.unlink()
    else:
        damaged = {
            "empty": b"",
            "cut": whole[:middle],
            "other bytes": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "another segment's": of_fewer_rows(tmp_path, ending),
        }
        path.write_bytes(damaged[damage])
    with pytest.raises(DamagedFileError, match=rf"{entry.name}{ending}: .*; what a pipeline has written .* Start it"):
        FileStore(Files.at(tmp_path)).load(entry)


def of_fewer_rows(place: Path, ending: str) -> bytes:
    segment = some_segment()
    rows = segment.rows.slice(0, 2)
    FileStore(Files.at(place / "other")).keep(
        build(7, 3, Lot(60_000_000, frozenset({"A B", "A C"})), rows, "Ts", codes([rows.column("k")], rows.num_rows))
    )
    return (place / "other" / f"7{ending}").read_bytes()


def test_kept_rows_come_back_or_not_at_all(tmp_path: Path) -> None:
    files, rows = Files.at(tmp_path), pa.Table.from_batches([some_segment().rows])
    name = keep_rows(files, "held-q", rows)
    assert load_rows(files, name).equals(rows)
    path = tmp_path / f"{name}.arrow"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(DamagedFileError, match="holds other bytes than were written"):
        load_rows(files, name)


def test_a_store_in_memory_gives_back_what_it_was_given() -> None:
    segment, store = some_segment(), MemoryStore()
    assert store.keep(segment) is segment
    assert store.load(entry_of(segment)) is segment
    assert (store.name(segment), store.stamps(segment)) == ("7", ())
    store.drop(segment)
    with pytest.raises(KeyError):
        store.load(entry_of(segment))


def test_every_file_of_a_segment_is_known_by_its_stamp(tmp_path: Path) -> None:
    segment, files = some_segment(), Files.at(tmp_path)
    store = FileStore(files, prefix="b3-")
    store.keep(segment)
    assert store.name(segment) == "b3-7"
    assert files.names() == sorted(files_of("b3-7"))
    for name, stamp in zip(files_of("b3-7"), store.stamps(segment), strict=True):
        assert stamp == stamp_of(files.read(name))


def test_large_segments_are_mapped_and_small_ones_left_as_they_are(tmp_path: Path) -> None:
    store = FileStore(Files.at(tmp_path))
    small = some_segment()
    assert store.keep(small) is small
    rows = pa.RecordBatch.from_pydict(
        {"k": np.arange(20_000), "Ts": pa.array(np.arange(20_000)).view(pa.timestamp("us"))}
    )
    large = build(8, 3, Lot(1), rows, "Ts", codes([rows.column("k")], rows.num_rows))
    kept = store.keep(large)
    assert kept is not large
    assert kept.rows.equals(large.rows)
    assert kept.rows.schema.metadata is None, "what the file says of itself is not the rows' own"


def test_the_stamp_of_kept_rows_is_in_their_name(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    name = keep_rows(files, "held-q-with-dashes", pa.table({"a": [1]}))
    assert stamp_in(name) == stamp_of(files.read(f"{name}.arrow"))


def test_dropped_segments_leave_no_files(tmp_path: Path) -> None:
    store = FileStore(Files.at(tmp_path))
    store.drop(store.keep(some_segment()))
    assert list(tmp_path.iterdir()) == []


def test_what_a_batch_makes_and_merges_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write = Files.write_arrow

    def counted(self: Files, name: str, rows: pa.RecordBatch) -> Stamp:
        written.append(name)
        return write(self, name, rows)

    monkeypatch.setattr(Files, "write_arrow", counted)
    columns = "(LocationId INT, Value DOUBLE, Ts TIMESTAMP)"
    streams = [f"CREATE STREAM {name} {columns} WITH (time = 'Ts');" for name in "AB"]
    query = "CREATE QUERY q AS SELECT * FROM A, B WHERE A.LocationId = B.LocationId WINDOW 60 SECONDS;"
    engine = Engine(compile_script("\n".join([*streams, query])), lambda *_: None, directory=tmp_path)
    sensors, batches = Sensors(rate=100, locations=50, seconds=5), 5
    for left, right in zip(sensors.batches(1, batches), sensors.batches(2, batches), strict=True):
        engine.feed({"A": left, "B": right})
    assert len(written) == 2 * 2 * batches, "rows and index of one segment a side and batch"


@pytest.mark.parametrize("batches", [1, 7, 60])
def test_an_engine_on_files_gives_what_one_in_memory_gives(tmp_path: Path, batches: int) -> None:
    hints = "WITH (time = 'Ts', rate = 100, keys = 50)"
    streams = [
        f"CREATE STREAM {name} (LocationId INT, Value DOUBLE, Ts TIMESTAMP) {hints};" for name in ("Warm", "Wet")
    ]
    query = "CREATE QUERY q AS SELECT * FROM Warm a, Wet b WHERE a.LocationId = b.LocationId WINDOW 3 SECONDS;"
    plan = compile_script("\n".join([*streams, query]))
    sensors = Sensors(rate=100, locations=50, seconds=30)
    counted: list[int] = []
    for directory in (None, tmp_path):
        rows: list[int] = []
        engine = Engine(plan, lambda _, batch, rows=rows: rows.append(batch.num_rows), directory=directory)
        for warm, wet in zip(sensors.batches(1, batches), sensors.batches(2, batches), strict=True):
            engine.feed({"Warm": warm, "Wet": wet})
        counted.append(sum(rows))
        alive = {segment.number for pool in engine.pools() for segment in pool.segments}
        if directory:
            assert {int(path.name.split(".")[0]) for path in directory.glob("*.arrow")} == alive
    assert counted[0] == counted[1] > 0


numbers, names = st.integers(1, 5), st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(numbers, names) | st.tuples(numbers, st.none()), max_size=20))
def test_a_name_is_gone_with_the_last_number_that_has_it(steps: list[tuple[int, str | None]]) -> None:
    found, wanted = Names(), dict[int, str]()
    for number, name in steps:
        if name is not None:
            found.add(number, name)
            wanted[number] = name
        elif number in wanted:
            gone = wanted.pop(number)
            assert found.drop(number) == (gone, gone not in wanted.values())
        else:
            with pytest.raises(KeyError):
                found.drop(number)
    assert {number: found[number] for number in wanted} == wanted


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_parts_share_what_is_stored_and_it_goes_with_the_last(kind: str, tmp_path: Path) -> None:
    store: Store = MemoryStore() if kind == "memory" else FileStore(Files.at(tmp_path), "b-")
    whole = store.keep(some_segment())
    name, stamps = store.name(whole), store.stamps(whole)
    parts = [
        picked(number, whole, np.array(rows), whole.row_keys()[rows], 1) for number, rows in ((8, [0]), (7, [1, 2, 3]))
    ]
    store.share(whole, 8)
    store.release(parts[0])
    assert [(store.name(part), store.stamps(part)) for part in parts] == [(name, stamps)] * 2
    entries = [replace(entry_of(part), name=name, stamps=stamps, groups=1) for part in parts]
    store.drop(parts[1])
    again = store.load(entries[0])
    assert again.rows.equals(whole.rows), "all rows of its files: which are its own is not the store's concern"
    assert len(list(tmp_path.iterdir())) == (2 if kind == "files" else 0)
    store.drop(parts[0])
    assert not list(tmp_path.iterdir())
    with pytest.raises((KeyError, DamagedFileError)):
        store.load(entries[0])


def test_an_entry_that_is_expected_is_known_and_not_opened(tmp_path: Path) -> None:
    store = FileStore(Files.at(tmp_path))
    entry = replace(entry_of(some_segment()), name="elsewhere", stamps=(Stamp(1, 2), Stamp(3, 4)))
    store.expect(entry)
    assert (store.name(some_segment()), store.stamps(some_segment())) == ("elsewhere", entry.stamps)
    with pytest.raises(DamagedFileError, match="is missing"):
        store.load(entry)
