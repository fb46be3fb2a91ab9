"""Manifests come back as they were written, and the last committed one is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs

from millstream.engine.chain_manifest import ChainManifest, DeferredUnit, HeldEntry
from millstream.engine.files import DamagedFileError, Files, Stamp
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import ShardManifest
from millstream.errors import ScriptError
from millstream.pipeline.manifest import (
    VERSION,
    Manifest,
    PublishedFile,
    SlotManifest,
    StagedFile,
    batches,
    commit,
    latest,
    read,
)


def a_manifest(batch: int) -> Manifest:
    pool = PoolManifest(
        taken=13,
        expired=2,
        watermark=-7,
        segments=(
            SegmentEntry(
                number=3,
                name="some-3",
                batch=2,
                reach=60,
                rows=10,
                nbytes=400,
                first=-5,
                last=2**61,
                stamps=(Stamp(640, 2**32 - 1), Stamp(96, 0)),
            ),
            SegmentEntry(
                number=4,
                name="some-4",
                batch=2,
                reach=1,
                rows=1,
                nbytes=8,
                first=0,
                last=0,
                hidden_from=('["A","B"]',),
                stamps=(Stamp(64, 1), Stamp(64, 2)),
            ),
        ),
    )
    chain = ChainManifest(
        began_after=1,
        floors={'["A"]': 2**58},
        ledger=(DeferredUnit(probe=3, at=2, lookup=((4,), (3, 4)), lo=-60, hi=61),),
        held=(HeldEntry("q", 1, "held-q-1f-000000ff"),),
    )
    finals = (PublishedFile("q", "/x", "q-1.parquet"), PublishedFile("r", "/y", "r-1.parquet"))
    return Manifest(
        batch=batch,
        pipeline="0123abcd",
        spark_batch=4,
        statements=2,
        routing=(0, 1) * 32,
        greatest={"A": 2**60},
        watermarks={'["A","B"]': 2**59},
        codings={'["A"]': "xxhash64(BIGINT)"},
        slots={
            0: SlotManifest("token", ShardManifest(numbered=7, pools={'["A"]': pool}, chains={'["A","B"]': chain})),
            1: SlotManifest("other", ShardManifest()),
        },
        outputs=(StagedFile(folder="/x", staged=".staged", finals=finals, rows=12, shared=False, size=345),),
        arrived={2: 99},
        registry="2-0123abcd",
        offsets='v1\n{"a":1}\n-',
        sources={"0/9.compact": 2**32 - 1},
    )


def test_a_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    # A file system that is not known to be local is read and written without mapping or renaming.
    for files in (Files.at(tmp_path), Files(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "sub")):
        files.make()
        assert latest(files) is None
        commit(files, a_manifest(5))
        assert latest(files) == a_manifest(5)


def test_what_a_batch_needs(tmp_path: Path) -> None:
    assert a_manifest(1).segment_files() == {
        "some-3.arrow": Stamp(640, 2**32 - 1),
        "some-3.index.arrow": Stamp(96, 0),
        "some-4.arrow": Stamp(64, 1),
        "some-4.index.arrow": Stamp(64, 2),
        "held-q-1f-000000ff.arrow": Stamp(0x1F, 0xFF),
    }
    for batch in range(1, 7):
        commit(Files.at(tmp_path), a_manifest(batch))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{batch:012}.json" for batch in (4, 5, 6)]


def test_a_batch_happens_once(tmp_path: Path) -> None:
    """As when a run sleeps, another takes over, commits and ends, and the first wakes up."""
    files = Files.at(tmp_path)
    commit(files, a_manifest(2))
    with pytest.raises(
        ScriptError, match=r"000000000002.json: another run has committed batch 2; a directory .* Nothing"
    ):
        commit(files, replace(a_manifest(2), spark_batch=9))
    assert latest(files) == a_manifest(2)


def test_a_half_written_manifest_is_none(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    commit(files, a_manifest(2))
    (tmp_path / "000000000003.json.partial").write_text('{"version": 1, "batch"')
    assert latest(files) == a_manifest(2)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b"\xff\xfe\x00", b'{"version":%d,"batch":3,"crc":"00000000"}\n' % VERSION, None],
)
def test_a_damaged_manifest_is_none(tmp_path: Path, content: bytes | None) -> None:
    files = Files.at(tmp_path)
    commit(files, a_manifest(2))
    path = tmp_path / "000000000003.json"
    path.write_bytes((tmp_path / "000000000002.json").read_bytes() if content is None else content)
    assert latest(files) == a_manifest(2)
    with pytest.raises(DamagedFileError, match=r"000000000003\.json: the file .*; what a pipeline has written stays"):
        read(files, 3)
    (tmp_path / "000000000002.json").unlink()
    with pytest.raises(DamagedFileError):
        latest(files)


@pytest.mark.parametrize("version", [1, 2, VERSION + 1])
def test_state_of_another_format_is_refused_with_what_to_do(tmp_path: Path, version: int) -> None:
    (tmp_path / "000000000003.json").write_text(f'{{"version": {version}, "batch": 3}}')
    wanted = rf"000000000003\.json: the state was written in format {version}; this Millstream reads format {VERSION}"
    with pytest.raises(ScriptError, match=rf"{wanted}.*new directory"):
        latest(Files.at(tmp_path))


def test_every_byte_counts(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    commit(files, a_manifest(1))
    path = tmp_path / "000000000001.json"
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises((DamagedFileError, ScriptError)):
            read(files, 1)
        path.write_bytes(whole[:place])
        with pytest.raises(DamagedFileError):
            read(files, 1)


def test_files_of_other_names_are_no_manifests(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    commit(files, a_manifest(1))
    for name in ("notes.txt", ".DS_Store", "000000000001.json~", "7.json", "000000000009.json.damaged"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "000000000008.json").mkdir()
    assert batches(files) == [1]
    assert latest(files) == a_manifest(1)
