"""What a start finds and makes of it, without Spark: manifests, statements, Spark's notes, files of later batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from millstream.engine.chain_manifest import ChainManifest, HeldEntry
from millstream.engine.files import Files
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.store import keep_rows
from millstream.errors import ScriptError
from millstream.pipeline.manifest import Manifest, SlotManifest, batches
from millstream.pipeline.recovery import sweep, tidy
from millstream.pipeline.registry import Entry
from millstream.pipeline.sinks import External, Sinks
from sites import OWN, Site


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
    sweep(files, [Manifest(slots={0: SlotManifest("", ShardManifest(chains={"A B": chain}))}) for chain in chains[1:]])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{kept[1]}.arrow", f"{kept[2]}.arrow", "notes.arrow"]
