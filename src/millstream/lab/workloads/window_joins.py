"""Window joins of two and more of several streams by one key, as a script, with rows for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from millstream.lab.workloads.generators import Sensors
from millstream.lab.workloads.sensor_queries import COLUMNS, DELAY, SCHEMA
from millstream.lab.workloads.stream_files import StreamFiles

KEY = "LocationId"


@dataclass(frozen=True, slots=True)
class WindowJoin:
    """A query over streams with names of one letter: equal keys, and all times less than `seconds` apart."""

    streams: str
    seconds: int

    @property
    def name(self) -> str:
        return f"{self.streams.lower()}{self.seconds}"

    @property
    def statement(self) -> str:
        columns = ", ".join(f"{one}.{column} AS {one}_{column}" for one in self.streams for column in COLUMNS)
        joins = "".join(f" JOIN {other} ON {one}.{KEY} = {other}.{KEY}" for one, other in pairwise(self.streams))
        select = f"SELECT {columns} FROM {self.streams[0]}{joins} WINDOW {self.seconds} SECONDS"
        return f"CREATE QUERY {self.name} AS {select};\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """About `rows` readings of each stream, `rate` a second of event time, of `keys` keys."""

    streams: str
    rows: int
    rate: int
    keys: int
    delay: int = DELAY

    @property
    def seconds(self) -> int:
        return max(1, round(self.rows / self.rate))

    def script(self, joins: Sequence[WindowJoin]) -> str:
        hints = f"WITH (time = 'Ts', delay = '{self.delay} seconds', rate = {self.rate}, keys = {self.keys})"
        streams = (f"CREATE STREAM {name} ({SCHEMA}) {hints};\n" for name in self.streams)
        return "".join([*streams, *(join.statement for join in joins)])

    def sensors(self) -> Sensors:
        return Sensors(rate=self.rate, locations=self.keys, seconds=self.seconds)

    def write(self, folder: Path, batches: int) -> StreamFiles:
        tables = {name: list(self.sensors().batches(seed, batches)) for seed, name in enumerate(self.streams, start=1)}
        return StreamFiles.save(folder, self.script(()), tables)
