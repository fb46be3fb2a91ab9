"""Pipelines under test: files go in one by one, and a test waits for the batch that took them."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.pipeline import Pipeline
from millstream.pipeline.progress import BatchProgress

Rows = list[dict[str, Any]]
START = datetime(2024, 1, 1, tzinfo=UTC)
STREAMS = """
CREATE STREAM A (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM B (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
"""


def rows(*items: tuple[int, float, int]) -> Rows:
    """Key, value and second."""
    return [{"k": key, "v": value, "Ts": START + timedelta(seconds=second)} for key, value, second in items]


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


def in_order(found: Rows) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in found), key=repr)
