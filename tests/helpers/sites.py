"""A directory as a run leaves it, made without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from millstream.pipeline.checkpoint import Checkpoint
from millstream.pipeline.directory import Directory
from millstream.pipeline.manifest import Manifest, batches, commit
from millstream.pipeline.recovery import recover
from millstream.pipeline.registry import Entry, Registry

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
