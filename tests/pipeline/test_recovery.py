"""What a start finds and makes of it, without Spark: manifests, statements, Spark's notes, files of later batches."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.engine.chain_manifest import ChainManifest, HeldEntry
from millstream.engine.files import Files
from millstream.engine.store import keep_rows
from millstream.errors import ScriptError
from millstream.pipeline.checkpoint import Checkpoint
from millstream.pipeline.directory import Directory
from millstream.pipeline.durable import Folders, sync_slot
from millstream.pipeline.manifest import Final, Manifest, Output, SlotManifest, batches, commit
from millstream.pipeline.recovery import recover, sweep, tidy
from millstream.pipeline.registry import Entry, Registry
from millstream.pipeline.results import Target, Writer
from millstream.pipeline.sinks import External, Sinks

OWN = "0123abcd"
OFFSETS = 'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{{"topic":{{"0":{0}}}}}'
LOOKS = 'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{{"logOffset":{0}}}'
NOTE = 'v1\n{{"path":"file:///in/{0}.parquet","timestamp":1,"batchId":{0}}}'


class Site:
    """A directory as a run leaves it whose batches each took one of Spark's."""

    def __init__(self, place: Path, offsets: str = OFFSETS) -> None:
        self.place, self.said = place, list[str]()
        self.directory = Directory.at(place)
        self.directory.make()
        self.spark, self.files = place / "spark", self.directory.files
        self.registry = Registry(self.files.below("registry"))
        self.registry.record(1, Entry("script", 1, text="CREATE QUERY q AS SELECT 1"))
        for folder in ("offsets", "commits", "sources/0"):
            (self.spark / folder).mkdir(parents=True)
        (self.spark / "metadata").write_text('{"id":"x"}')
        self.last = Manifest(pipeline=OWN)
        for number in range(4):
            (self.spark / "offsets" / str(number)).write_text(offsets.format(number))
            if offsets == LOOKS:
                (self.spark / "sources" / "0" / str(number)).write_text(NOTE.format(number))
            marks = Checkpoint(self.files.below("spark")).marks(self.last, number)
            self.last = replace(
                self.last,
                batch=number + 1,
                spark_batch=number,
                statements=1,
                registry=self.registry.checksum(1),
                offsets=marks.offsets,
                sources=marks.sources,
            )
            commit(self.files.below("manifest"), self.last)
            (self.spark / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def recover(self) -> list[int]:
        """The batches that are left, newest first."""
        recover(self.directory, self.said.append)
        return batches(self.files.below("manifest"))

    def numbers(self, folder: str) -> list[str]:
        return sorted(path.name for path in (self.spark / folder).iterdir())

    def manifest(self, batch: int) -> Path:
        return self.place / "manifest" / f"{batch:012}.json"


@pytest.fixture(params=[OFFSETS, LOOKS], ids=["a log as source", "files as source"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    return Site(tmp_path / "state", request.param)


def test_what_is_whole_is_left_as_it_is(site: Site) -> None:
    before = {path: path.read_bytes() for path in site.place.rglob("*") if path.is_file()}
    assert site.recover() == [4, 3, 2]
    assert {path: path.read_bytes() for path in site.place.rglob("*") if path.is_file()} == before
    assert site.said == []


@pytest.mark.parametrize("lost", [(4,), (4, 3)])
@pytest.mark.parametrize("is_deleted", [True, False])
def test_spark_goes_back_with_the_manifest(site: Site, lost: tuple[int, ...], is_deleted: bool) -> None:
    for batch in lost:
        site.manifest(batch).unlink() if is_deleted else site.manifest(batch).write_bytes(b"")
    (site.spark / "commits" / ".3.crc").touch()
    assert site.recover() == [batch for batch in (4, 3, 2) if batch not in lost]
    left = 4 - len(lost)
    assert site.numbers("commits") == [str(number) for number in range(left)]
    assert site.numbers("offsets") == [str(number) for number in range(min(left + 1, 4))]
    assert any("rows that came after batch" in said and "a second time" in said for said in site.said)
    assert len(list(site.place.glob("manifest/*.damaged"))) == (0 if is_deleted else len(lost))


def test_no_manifest_is_whole(site: Site) -> None:
    for batch in (4, 3, 2):
        site.manifest(batch).write_bytes(b"?")
    with pytest.raises(
        ScriptError, match=r"000000000004.json: batch 4 cannot be gone on from, nor any of the 2 manifests"
    ):
        site.recover()
    assert batches(site.files.below("manifest")) == [4, 3, 2], "nothing is touched"


def test_all_manifests_are_gone(site: Site) -> None:
    for batch in (4, 3, 2):
        site.manifest(batch).unlink()
    with pytest.raises(
        ScriptError, match=r"Spark has finished batches of which no manifest is left; .* Put manifest/ back"
    ):
        site.recover()


def test_all_manifests_are_gone_before_spark_noted_a_batch(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for path in (*site.place.glob("manifest/*"), *site.place.glob("spark/commits/*")):
        path.unlink()
    (site.place / "results" / "q").mkdir()
    assert site.recover() == []
    (site.place / "results" / "q" / f"q-{OWN}-00000001-000-0.parquet").touch()
    with pytest.raises(
        ScriptError, match=r"/manifest: there are results here, and no manifest; a batch .* Put manifest/"
    ):
        site.recover()


def test_a_checkpoint_that_is_gone(tmp_path: Path) -> None:
    """What a source of files has read only its notes say; where a log has been read to, the manifest says too."""
    for kind, number in ((LOOKS, 0), (OFFSETS, 1)):
        site = Site(tmp_path / str(number), kind)
        site.spark.rename(site.place / "elsewhere")
        if kind == LOOKS:
            with pytest.raises(
                ScriptError, match=r"spark/sources/0/\d: what Spark noted .* is gone; .* Put spark/ back"
            ):
                site.recover()
        else:
            site.recover()
            assert (site.spark / "offsets" / "3").read_text() == kind.format(3)
            assert (site.spark / "offsets" / "2").read_text() == kind.format(2)
            assert site.numbers("offsets") == ["2", "3"]


def test_notes_of_files_that_are_not_what_they_were(tmp_path: Path) -> None:
    site = Site(tmp_path, LOOKS)
    note = site.spark / "sources" / "0" / "1"
    note.write_text(note.read_text().replace("1.parquet", "7.parquet"))
    with pytest.raises(
        ScriptError, match=r"spark/sources/0/1: what Spark noted of the files it has read is not what it"
    ):
        site.recover()


def test_notes_that_a_later_one_holds_too(tmp_path: Path) -> None:
    site = Site(tmp_path, LOOKS)
    for path in (site.spark / "sources" / "0").iterdir():
        path.unlink()
    (site.spark / "sources" / "0" / "9.compact").write_text("\n".join(["v1", *(NOTE.format(n)[3:] for n in range(10))]))
    site.recover()
    assert site.said == []


def test_what_no_batch_has_used_may_be_lost(tmp_path: Path) -> None:
    """As after a power cut: Spark plans the batch anew."""
    site = Site(tmp_path, LOOKS)
    (site.spark / "offsets" / "4").write_text("")
    (site.spark / "sources" / "0" / "4").write_text("v1")
    (site.spark / "sources" / "0" / "5").write_text("")
    (site.spark / "sources" / "0" / "6").write_text(NOTE.format(6))
    site.recover()
    assert site.numbers("offsets") == ["0", "1", "2", "3"]
    assert site.numbers("sources/0") == ["0", "1", "2", "3", "4", "5.damaged", "6.damaged"]


def test_a_plan_that_is_no_text(site: Site) -> None:
    planned = (site.spark / "offsets" / "3").read_bytes()
    (site.spark / "offsets" / "4").write_bytes(planned.replace(b"conf", b"c\xffnf"))
    site.recover()
    assert site.numbers("offsets") == ["0", "1", "2", "3", "4.damaged"]


def test_a_statement_that_is_gone(site: Site) -> None:
    for path in site.place.glob("registry/**/000001.json"):
        path.unlink()
    with pytest.raises(ScriptError, match=r"/registry: batch 4 had 1 entries in force; 0 of these are there; .* Put"):
        site.recover()
    site.registry.record(1, Entry("script", 1, text="CREATE QUERY q AS SELECT 2"))
    with pytest.raises(ScriptError, match="1 of these are there, and they are not the same"):
        site.recover()


def test_back_before_a_change(site: Site) -> None:
    """With the first lost batch it takes effect again; in between lost batches its place is lost."""
    site.registry.record(2, Entry("drop", 4, query="q"))
    site.manifest(4).write_bytes(b"")
    assert site.recover() == [3, 2]
    site.manifest(3).write_bytes(b"")
    with pytest.raises(
        ScriptError, match=r"batch 2 is the newest that is whole, and entry 2 took effect with batch 4, in"
    ):
        site.recover()
    assert batches(site.files.below("manifest")) == [3, 2]


def test_only_files_of_later_batches_go(tmp_path: Path) -> None:
    site = Site(tmp_path)
    mine = site.place / "results" / "q"
    mine.mkdir()
    kept = [f"q-{OWN}-00000004-000-0.parquet", "q-ffffffff-00000009-000-0.parquet", "q-00000005.parquet", "x.parquet"]
    gone = [f"q-{OWN}-00000005-000-0.parquet", f"q-{OWN}-00000105-001-12.parquet", f".{OWN}-00000005-000-0.0123456789"]
    for name in kept + gone:
        (mine / name).touch()
    csv = tmp_path / "csv"
    for name in ("batch=00000004", "batch=00000005", "batch=00000099", "batch=mine"):
        (csv / name).mkdir(parents=True)
        (csv / name / "part").touch()
    sinks = Sinks({"q": External("csv", (("path", str(csv)),))}, {})
    tidy(site.directory, site.last, [], sinks, site.said.append)
    assert sorted(path.name for path in mine.iterdir()) == sorted(kept)
    assert sorted(path.name for path in csv.iterdir()) == ["batch=00000004", "batch=00000099", "batch=mine"]


def test_segments_of_every_kept_manifest_stay(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    rows = pa.RecordBatch.from_pydict({"k": [1]})
    kept = [keep_rows(files, f"{batch:08}-000-0123456789-held-q", rows) for batch in (1, 2, 3)]
    chains = [ChainManifest(held=(HeldEntry("q", 1, name),)) for name in kept]
    (tmp_path / "notes.arrow").touch()
    sweep(files, [Manifest(slots={0: SlotManifest("", {("A",): chain})}) for chain in chains[1:]])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{kept[1]}.arrow", f"{kept[2]}.arrow", "notes.arrow"]


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
    names = [keep_rows(segments, f"{batch:08}-000-0123456789-held-q", rows) for batch in (1, 2)]
    writer = Writer(OWN, 2, 0, "0123456789")
    writer.write([Target("q", str(tmp_path / "q"))], rows)
    (output,) = writer.close()
    chain = ChainManifest(held=(HeldEntry("q", 1, names[0]), HeldEntry("r", 1, names[1])))
    sync_slot(segments, "00000002-000-0123456789-", [chain], writer.syncing)
    assert sorted(synced()) == sorted([f"sync {names[1]}.arrow", f"sync {output.staged}"])


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
        Output(folder=q, staged=".x", finals=(Final("q", q, "x"), Final("r", r, "x")), rows=1),
        Output(folder="s3://bucket/q", staged=".staged", finals=(), rows=1),
    ]
    assert set(folders.to_sync(outputs)) == {q, *map(str, Path(q).parents)}, "it is new"
    assert folders.to_sync(outputs) == [q]
    folders.renamed(outputs)
    assert folders.to_sync([]) == [q, r]
    assert folders.to_sync([]) == []


def test_sparks_notes_of_a_batch_go_to_the_disk_with_it(tmp_path: Path) -> None:
    site = Site(tmp_path, LOOKS)
    (site.spark / "offsets" / "4").write_text(LOOKS.format(4))
    (site.spark / "sources" / "0" / "4").write_text(NOTE.format(4))
    marks = Checkpoint(site.files.below("spark")).marks(site.last, 4)
    names = ("offsets", "offsets/4", "sources/0", "sources/0/4")
    assert marks.to_sync == tuple(str(site.spark / name) for name in names)
    assert len(marks.sources) == 5
    assert Checkpoint(site.files.below("spark")).marks(site.last, 3).sources == site.last.sources
    with pytest.raises(ScriptError, match=r"offsets/5: what Spark noted of its batch 5 is gone; .* Nothing of"):
        Checkpoint(site.files.below("spark")).marks(site.last, 5)
