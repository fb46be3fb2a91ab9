"""Files below a root: whole or not at all, and never taken for what they are not."""

from __future__ import annotations

import os
import threading
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from millstream.engine import files as module
from millstream.engine.files import DamagedFileError, Files, Stamp, above, begin_sync, stamp_of, sync_paths

ROWS = pa.RecordBatch.from_pydict({"n": [1, 2, None], "s": ["a", None, "ä"]})


@pytest.fixture(params=["local", "address", "other"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """By a path, by an address, and on a file system that Arrow knows nothing more of than its functions."""
    if request.param == "local":
        return Files.at(tmp_path)
    if request.param == "address":
        return Files.at(tmp_path.as_uri())
    return Files(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "root")


def test_what_is_written_is_read(files: Files) -> None:
    files.make("folder")
    files.write("folder/a.json", b"first")
    files.write("folder/a.json", b"second", sync=False)
    assert files.read("folder/a.json") == b"second"
    assert files.has("folder/a.json")
    assert not files.has("folder/b.json")
    assert (files.size("folder/a.json"), files.size("folder/b.json"), files.size("folder")) == (6, None, None)
    assert files.below("folder").read("a.json") == b"second"


def test_names_and_folders(files: Files) -> None:
    files.make("one/inner")
    files.make("two")
    for name in ("one/b", "one/a", "one/inner/c"):
        files.write(name, b"")
    assert files.names("one") == ["a", "b"]
    assert files.folders("one") == ["inner"]
    assert files.folders() == ["one", "two"]
    assert files.names("nowhere") == files.folders("nowhere") == []


def test_moved_and_deleted_files(files: Files) -> None:
    files.make()
    files.write("a", b"x")
    files.move("a", "b")
    assert files.names() == ["b"]
    files.delete("b")
    files.delete("b")
    assert files.names() == []


def test_when_a_file_was_written(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    files.write("a", b"")
    os.utime(tmp_path / "a", (1_000, 1_234.5))
    assert files.modified("a") == 1_234.5
    assert files.modified("b") is None


def test_readers_never_see_a_part(tmp_path: Path) -> None:
    """While a writer puts one content in place of another, a reader has either."""
    files, contents = Files.at(tmp_path), [b"a" * 1_000_000, b"b" * 1_000_000]
    files.write("file", contents[0])
    done = threading.Event()

    def write() -> None:
        for number in range(60):
            files.write("file", contents[number % 2], sync=False)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(files.read("file"))
    writer.join()
    assert seen <= set(contents)
    assert files.names() == ["file"]


def test_rows_come_back_with_their_stamp(files: Files) -> None:
    files.make()
    stamp = files.write_arrow("rows.arrow", ROWS)
    content = files.read("rows.arrow")
    assert stamp == Stamp(len(content), zlib.crc32(content)) == stamp_of(content)
    assert files.read_arrow("rows.arrow", stamp).equals(ROWS)
    table = pa.Table.from_batches([ROWS, ROWS])
    assert files.read_table("two.arrow", files.write_arrow("two.arrow", table)).equals(table)
    with pytest.raises(DamagedFileError, match="holds 2 batches instead of one"):
        files.read_arrow("two.arrow")


DAMAGES = {
    "is missing": None,
    "bytes instead of": lambda content: content[:-1],
    "holds other bytes than were written": lambda content: content[:-9] + b"?" + content[-8:],
}


@pytest.mark.parametrize("why", DAMAGES)
def test_a_file_that_is_not_what_was_written_is_told(files: Files, why: str) -> None:
    files.make()
    stamp = files.write_arrow("rows.arrow", ROWS)
    files.check("rows.arrow", stamp)
    files.check_size("rows.arrow", stamp)
    change = DAMAGES[why]
    if change is None:
        files.delete("rows.arrow")
    else:
        files.write("rows.arrow", change(files.read("rows.arrow")))
    for look in (files.check, files.read_arrow, files.read_table):
        with pytest.raises(
            DamagedFileError, match=rf"rows\.arrow: .*{why}.*; what a pipeline has written .*Start it again"
        ):
            look("rows.arrow", stamp)
    if why != "holds other bytes than were written":
        with pytest.raises(DamagedFileError, match=r"is missing|has .* bytes, not"):
            files.check_size("rows.arrow", stamp)


@pytest.mark.parametrize("content", [b"", b"junk", b"ARROW1\x00\x00"])
def test_what_is_no_arrow_file_is_told(files: Files, content: bytes) -> None:
    files.make()
    files.write("rows.arrow", content)
    with pytest.raises(DamagedFileError, match="is no Arrow file"):
        files.read_arrow("rows.arrow")


def test_what_is_synced_is_synced_or_tells_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file).st_ino), fsync(file)))
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_bytes(b"x")
    sync_paths([*map(str, paths), str(tmp_path)])
    begin_sync(str(paths[0])).result()
    assert sorted(synced) == sorted(path.stat().st_ino for path in (*paths, tmp_path, paths[0]))
    with pytest.raises(FileNotFoundError):
        sync_paths([str(paths[0]), str(tmp_path / "none")])


def test_a_local_write_is_there_to_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the file's bytes, then the folder that has its new name."""
    events: list[str] = []
    fsync, sync = os.fsync, module._sync
    monkeypatch.setattr(os, "fsync", lambda file: (events.append("bytes"), fsync(file)))
    monkeypatch.setattr(module, "_sync", lambda path: (events.append(Path(path).name), sync(path)))
    Files.at(tmp_path).write("a", b"x", sync=False)
    assert events == []
    Files.at(tmp_path).write("a", b"x")
    assert events[:2] == ["bytes", tmp_path.name]


def test_the_folders_above(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    assert above(str(inner))[0] == str(tmp_path)
    assert str(tmp_path / "a") not in above(str(inner)), "what is not there cannot be read"
