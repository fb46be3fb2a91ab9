"""The sensor workload on disk, for contestants that read files: a file per stream and batch.

Every contestant gets the same rows, windows and files; DuckDB computes the correct answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from millstream.compile import compile_script
from millstream.lab.workloads.generators import Sensors
from millstream.lab.workloads.sensor_queries import COLUMNS, STREAMS, streams_script
from millstream.model.stream import Stream
from millstream.pipeline import Pipeline
from millstream.testing.on_spark import write_batches

_ALL = (*(f"T_{name}" for name in COLUMNS), *(f"H_{name}" for name in COLUMNS))
_ROW = ", ".join(f"epoch_us({name})" if name.endswith("Ts") else name for name in _ALL)
_CHECKSUM = f"sum(hash({_ROW})::HUGEINT)"


@dataclass(frozen=True, slots=True)
class Answer:
    """The results of a query: the number of rows, and a checksum that does not depend on their order."""

    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class SensorFiles:
    """Both streams under a folder, one file per batch each."""

    folder: Path
    batches: int
    seconds: int

    @classmethod
    def write(cls, folder: Path, seconds: int, batches: int, rate: float = 1_000) -> SensorFiles:
        sensors = Sensors(seconds=seconds, rate=rate)
        for seed, stream in enumerate(declared(), start=1):
            write_batches(folder / stream.name, stream, list(sensors.batches(seed, batches)), batches)
        return cls(folder, batches, seconds)

    def path(self, stream: str) -> str:
        return str(self.folder / stream)

    def read_by(self, pipeline: Pipeline) -> None:
        """Makes a pipeline read these files, one of each stream in a batch."""
        for stream in STREAMS:
            pipeline.read(stream, "parquet", path=self.path(stream), maxFilesPerTrigger="1")

    def rows(self) -> int:
        return int(_one_row(f"SELECT count(*) FROM '{self.folder}/*/*.parquet'")[0])

    def answers(self, windows: Sequence[int]) -> dict[int, Answer]:
        """The correct answers, from one join over both whole streams."""
        sides = ", ".join(f"T.{name} AS T_{name}" for name in COLUMNS)
        sides += ", " + ", ".join(f"H.{name} AS H_{name}" for name in COLUMNS)
        apart = "abs(epoch_us(T.Ts) - epoch_us(H.Ts))"
        found = ", ".join(
            f"count(*) FILTER (apart < {size * 1_000_000}), {_CHECKSUM} FILTER (apart < {size * 1_000_000})"
            for size in windows
        )
        row = _one_row(
            f"SELECT {found} FROM (SELECT {sides}, {apart} AS apart FROM '{self.folder}/Temperature/*.parquet' T "
            f"JOIN '{self.folder}/Humidity/*.parquet' H ON T.LocationId = H.LocationId "
            f"AND {apart} < {max(windows) * 1_000_000})"
        )
        return {size: Answer(row[2 * place], int(row[2 * place + 1] or 0)) for place, size in enumerate(windows)}


def answer(folder: Path) -> Answer:
    """The answer in a folder of result files of any contestant."""
    if not any(folder.glob("*.parquet")):
        return Answer(0, 0)
    rows, checksum = _one_row(f"SELECT count(*), {_CHECKSUM} FROM '{folder}/*.parquet'")
    return Answer(rows, int(checksum or 0))


def _one_row(query: str) -> tuple[Any, ...]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
    return rows[0]


def declared() -> tuple[Stream, ...]:
    return compile_script(streams_script()).script.streams
