"""Manifests come back as they were written, and the last committed one is found."""

from __future__ import annotations

from pathlib import Path

from pyarrow import fs

from millstream.engine.chain_manifest import ChainManifest, SegmentEntry, WaitingUnit
from millstream.engine.files import Files
from millstream.pipeline.manifest import Clock, Final, Manifest, Output, SlotManifest, commit, latest


def a_manifest(batch: int) -> Manifest:
    chain = ChainManifest(
        7,
        (
            SegmentEntry(3, "some-3", "left", 2, 60, 10, 400, -5, 2**61),
            SegmentEntry(4, "some-4", "right", 2, 1, 1, 8, 0, 0),
        ),
        (WaitingUnit(3, 4, -60, 61),),
        (("q", "held-q"),),
    )
    return Manifest(
        batch,
        "0123abcd",
        4,
        2,
        1_700_000_000_000_000,
        (0, 1) * 32,
        {"A": Clock(2**60, 5)},
        {0: SlotManifest("token", {("A", "B", "k = k"): chain}), 1: SlotManifest("other", {})},
        (
            Output(
                "/x", ".staged", (Final("q", "/x", "q-1.parquet"), Final("r", "/y", "r-1.parquet")), 12, shared=False
            ),
        ),
        {2: 99},
    )


def test_a_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    # A file system that is not known to be local is read and written without mapping or renaming.
    for files in (Files.at(tmp_path), Files(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "sub")):
        files.make()
        assert latest(files) is None
        commit(files, a_manifest(5))
        assert latest(files) == a_manifest(5)


def test_what_a_batch_needs(tmp_path: Path) -> None:
    assert a_manifest(1).segment_names() == {"some-3", "some-4", "held-q"}
    for batch in range(1, 7):
        commit(Files.at(tmp_path), a_manifest(batch))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{batch:012}.json" for batch in (4, 5, 6)]


def test_a_half_written_manifest_is_none(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    commit(files, a_manifest(2))
    (tmp_path / "000000000003.json.partial").write_text('{"version": 1, "batch"')
    assert latest(files) == a_manifest(2)
