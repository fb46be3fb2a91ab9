"""Pipelines under test: files go in one by one, and a test waits for the batch that took them."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from begun import Begin
from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.pipeline import Pipeline
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.preflight import preflight
from millstream.pipeline.progress import BatchProgress
from sites import LOOKS, OFFSETS, Site

Rows = list[dict[str, Any]]


class Mill:
    """A pipeline over folders of Parquet files, with the progress of its batches in a queue."""

    def __init__(self, place: Path, script: str, **options: Any) -> None:
        self.place, self.script = place, script
        self.done: queue.Queue[BatchProgress] = queue.Queue()
        self.said: list[str] = []
        self.streams = compile_script(script, functions=options.get("functions")).script.streams
        self.pipeline = Pipeline(
            "test", place / "state", script=script, on_batch=self.done.put, tell=self.said.append, **options
        )
        for stream in self.streams:
            folder = place / "in" / stream.name
            folder.mkdir(parents=True, exist_ok=True)
            self.pipeline.read(stream.name, "parquet", path=str(folder), maxFilesPerTrigger="1")

    def put(self, batch: Mapping[str, Sequence[Mapping[str, Any]] | pa.Table]) -> None:
        """A file for every stream, so that each is one batch."""
        for stream in self.streams:
            folder = self.place / "in" / stream.name
            number = len(list(folder.glob("*.parquet")))
            given = batch.get(stream.name, [])
            schema = arrow_schema(stream)
            table = given if isinstance(given, pa.Table) else pa.Table.from_pylist(list(given), schema=schema)
            # Under its name only when it is whole: Spark takes up whatever it sees.
            staged, path = folder / f".{number}", folder / f"{number:06}.parquet"
            pq.write_table(table, staged)
            os.utime(staged, (1_000_000_000 + number, 1_000_000_000 + number))
            staged.rename(path)

    def await_rows(self, count: int, until: Callable[[BatchProgress], bool] = lambda _: True) -> BatchProgress:
        """Until so many rows are in and the last batch is as it should be."""
        seen = 0
        while True:
            batch = self.done.get(timeout=90)
            seen += sum(batch.rows_in.values())
            if seen >= count and until(batch):
                return batch

    def results(self, name: str) -> Rows:
        return self.pipeline.results(name).to_pylist()


@pytest.fixture(scope="session")
def mill_at() -> Callable[..., Mill]:
    """Makes mills in a place that outlives a test; they are to be drained."""
    return Mill


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Callable[..., Mill]]:
    """Makes mills that are stopped when the test ends."""
    made: list[Mill] = []

    def make(script: str, **options: Any) -> Mill:
        made.append(Mill(tmp_path, script, **options))
        return made[-1]

    yield make
    for one in made:
        one.pipeline.stop()


@pytest.fixture(params=[OFFSETS, LOOKS], ids=["a log as source", "files as source"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    return Site(tmp_path / "state", request.param)


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Starts a script in a directory, as far as that goes without Spark."""
    for name in "AB":
        (tmp_path / "in" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def begun(script: str, directory: str = "state", batch: int = 1) -> Control:
        place = Directory.at(directory)
        place.make()
        preflight(script, place, {})
        control = Control(directory=place)
        control.check(script)
        control.begin(script, batch)
        return control

    return begun
