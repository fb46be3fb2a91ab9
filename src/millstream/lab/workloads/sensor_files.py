"""The sensor workload on disk, for contestants that read files: a file per stream and batch.

Every contestant gets the same rows, windows and files; DuckDB computes the correct answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from millstream.lab.workloads.generators import Sensors
from millstream.lab.workloads.sensor_queries import COLUMNS, STREAMS, streams_script
from millstream.lab.workloads.stream_files import Answer, StreamFiles, one_row

_ALL = (*(f"T_{name}" for name in COLUMNS), *(f"H_{name}" for name in COLUMNS))
_ROW = ", ".join(f"epoch_us({name})" if name.endswith("Ts") else name for name in _ALL)
_CHECKSUM = f"sum(hash({_ROW})::HUGEINT)"


@dataclass(frozen=True, slots=True)
class SensorFiles(StreamFiles):
    """Both streams under a folder, one file per batch each."""

    @classmethod
    def write(cls, folder: Path, seconds: int, batches: int, rate: float = 1_000) -> SensorFiles:
        sensors = Sensors(seconds=seconds, rate=rate)
        tables = {stream: list(sensors.batches(seed, batches)) for seed, stream in enumerate(STREAMS, start=1)}
        cls.save(folder, streams_script(), tables)
        return cls.at(folder, batches)

    @classmethod
    def at(cls, folder: Path, batches: int = 0) -> SensorFiles:
        return cls(folder, batches, STREAMS)

    def answers(self, windows: Sequence[int]) -> dict[int, Answer]:
        """The correct answers, from one join over both whole streams."""
        sides = ", ".join(f"T.{name} AS T_{name}" for name in COLUMNS)
        sides += ", " + ", ".join(f"H.{name} AS H_{name}" for name in COLUMNS)
        apart = "abs(epoch_us(T.Ts) - epoch_us(H.Ts))"
        found = ", ".join(
            f"count(*) FILTER (apart < {size * 1_000_000}), {_CHECKSUM} FILTER (apart < {size * 1_000_000})"
            for size in windows
        )
        row = one_row(
            f"SELECT {found} FROM (SELECT {sides}, {apart} AS apart FROM {self.table('Temperature')} T "
            f"JOIN {self.table('Humidity')} H ON T.LocationId = H.LocationId "
            f"AND {apart} < {max(windows) * 1_000_000})"
        )
        return {size: Answer(row[2 * place], int(row[2 * place + 1] or 0)) for place, size in enumerate(windows)}


def answer(folder: Path) -> Answer:
    """The answer in a folder of result files of any contestant."""
    if not any(folder.glob("*.parquet")):
        return Answer(0, 0)
    rows, checksum = one_row(f"SELECT count(*), {_CHECKSUM} FROM '{folder}/*.parquet'")
    return Answer(rows, int(checksum or 0))
