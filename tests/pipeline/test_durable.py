"""What a commit relies on is on the disk before it: files, folders, and no more than that."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest

from millstream.engine.chain_manifest import ChainManifest, HeldEntry
from millstream.engine.files import Files
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.store import keep_rows
from millstream.pipeline.durable import Folders, sync_slot
from millstream.pipeline.manifest import Manifest, PublishedFile, StagedFile, commit
from millstream.pipeline.results import Target, Writer

OWN = "0123abcd"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The paths that were synced or renamed, in order, as the system is asked."""
    events: list[str] = []
    fsync, move = os.fsync, Files.move

    def spy(descriptor: int) -> None:
        events.append(f"sync {Path(f'/proc/self/fd/{descriptor}').resolve().name}")
        fsync(descriptor)

    def spy_move(self: Files, old: str, new: str) -> None:
        events.append(f"move {new}")
        move(self, old, new)

    monkeypatch.setattr(os, "fsync", spy)
    monkeypatch.setattr(Files, "move", spy_move)
    return lambda: events


def test_a_manifest_is_on_the_disk_before_and_after_it_has_its_name(
    tmp_path: Path, synced: Callable[[], list[str]]
) -> None:
    place = tmp_path / "manifest"
    place.mkdir()
    commit(Files.at(place), Manifest(batch=1))
    assert synced() == ["sync 000000000001.json.partial", "move 000000000001.json", "sync manifest"]


def test_a_slot_syncs_what_it_wrote_and_nothing_else(tmp_path: Path, synced: Callable[[], list[str]]) -> None:
    segments = Files.at(tmp_path / "segments")
    segments.make()
    rows = pa.RecordBatch.from_pydict({"k": [1]})
    names = [
        keep_rows(segments, f"{batch:08}-000-0123456789-held-{query}", rows)
        for batch, query in ((1, "q"), (2, "r"), (2, "s"))
    ]
    writer = Writer(OWN, 2, 0, "0123456789")
    writer.write([Target("q", str(tmp_path / "q"))], rows)
    (output,) = writer.close()
    stays, leaves = (
        ShardManifest(chains={"A B": ChainManifest(held=held)})
        for held in ((HeldEntry("q", 1, names[0]), HeldEntry("r", 1, names[1])), (HeldEntry("s", 1, names[2]),))
    )
    sync_slot(segments, "00000002-000-0123456789-", (stays, leaves), writer.syncing)
    assert sorted(synced()) == sorted([f"sync {names[1]}.arrow", f"sync {names[2]}.arrow", f"sync {output.staged}"])


def test_nothing_is_synced_where_nobody_wants_it(tmp_path: Path, synced: Callable[[], list[str]]) -> None:
    writer = Writer(OWN, 2, 0, "0123456789", sync=False)
    writer.write([Target("q", str(tmp_path / "q"))], pa.RecordBatch.from_pydict({"k": [1]}))
    writer.close()
    commit(Files.at(tmp_path), Manifest(batch=1), sync=False)
    assert writer.syncing == []
    assert synced() == ["move 000000000001.json"]


def test_folders_are_synced_when_they_have_changed(tmp_path: Path) -> None:
    folders = Folders()
    q, r = str(tmp_path / "q"), str(tmp_path / "r")
    outputs = [
        StagedFile(folder=q, staged=".x", finals=(PublishedFile("q", q, "x"), PublishedFile("r", r, "x")), rows=1),
        StagedFile(folder="s3://bucket/q", staged=".staged", finals=(), rows=1),
    ]
    assert set(folders.to_sync(outputs)) == {q, *map(str, Path(q).parents)}, "it is new"
    assert folders.to_sync(outputs) == [q]
    folders.renamed(outputs)
    assert folders.to_sync([]) == [q, r]
    assert folders.to_sync([]) == []
