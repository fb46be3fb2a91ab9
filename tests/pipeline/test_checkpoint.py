"""Spark goes on right behind the last manifest: notes of its own that are lost, damaged or ahead of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.errors import ScriptError
from millstream.pipeline.arrivals import arrived
from millstream.pipeline.checkpoint import Checkpoint, refused
from millstream.pipeline.recovery import kept_manifests
from sites import LOOKS, NOTE, OFFSETS, Site
from two_streams import BATCHES, PAIR, STREAMS


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


@pytest.mark.parametrize("name", ["offsets/3", "offsets/2", "commits/3", "metadata"])
@pytest.mark.parametrize("content", [None, b"", b"v1", b"v1\n{", b"\xff\xfe"])
def test_going_on_twice_is_going_on_once(site: Site, name: str, content: bytes | None) -> None:
    path = site.spark / name
    path.unlink() if content is None else path.write_bytes(content)
    checksum = site.spark / "offsets" / f".{path.name}.crc"
    checksum.touch()
    checkpoint, kept = Checkpoint(site.files.below("spark")), kept_manifests(site.directory)
    checkpoint.reconcile(kept, site.said.append)
    before = {path: path.read_bytes() for path in site.spark.rglob("*") if path.is_file()}
    said = list(site.said)
    checkpoint.reconcile(kept, site.said.append)
    assert {path: path.read_bytes() for path in site.spark.rglob("*") if path.is_file()} == before
    assert site.said == said, "there was nothing left to mend"
    assert checksum.exists() == (path.parent.name != "offsets"), "it is of what was there before"
    for number in (2, 3):
        assert (site.spark / "offsets" / str(number)).read_bytes().startswith(b"v1\n{")


def test_what_spark_says_of_its_own_notes_is_told_apart() -> None:
    said = "java.lang.IllegalStateException: failed to read log file\n  for /state/spark/offsets/4.\nat org.apache"
    told = refused("s3://bucket/state/spark", said.replace("/state", "bucket/state"))
    assert told is not None
    assert str(told).startswith(
        "s3://bucket/state/spark: Spark cannot go on from its checkpoint: for bucket/state/spark"
    )
    assert refused("/state/spark", said) is not None
    assert refused("/other/spark", said) is None


def test_spark_writes_its_notes_as_they_are_read_here(mill: Callable[..., Any], tmp_path: Path) -> None:
    """Whatever its version: where each source is, which files it has read, and that a batch is done."""
    some = mill(f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS;")
    for batch in BATCHES[:2]:
        some.put(batch)
    some.pipeline.drain()
    (last, *_) = kept_manifests(some.pipeline.directory)
    assert last.spark_batch == 1
    assert set(last.sources) == {"0/0", "0/1", "1/0", "1/1"}
    spark = tmp_path / "state" / "spark"
    assert (spark / "offsets" / "1").read_text() == last.offsets
    times = [arrived(str(spark), number, started=0, began=2**61) for number in (0, 1)]
    assert times == [(1_000_000_000 + number) * 1_000_000 for number in (0, 1)], "the files say when they came"
    before, said = {path: path.read_bytes() for path in spark.rglob("*") if path.is_file()}, list[str]()
    Checkpoint(some.pipeline.directory.files.below("spark")).reconcile(
        kept_manifests(some.pipeline.directory), said.append
    )
    assert said == [], "all of it makes sense"
    assert {path: path.read_bytes() for path in spark.rglob("*") if path.is_file()} == before
