"""The data centre of the example: bursty readings written as files, and the state and CPU time of unshared joins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millstream.engine.arrow import Bools, microseconds
from millstream.engine.expressions import compile_condition
from millstream.lab.timed import cpu_seconds
from millstream.lab.workloads.generators import SECOND, Sensors
from millstream.model.stream import Stream
from millstream.plan import Plan, make_plan
from millstream.plan.nodes import LEFT, RIGHT, Condition, Member

STREAMS = ("Temperature", "Humidity")
SPAN = 660
_SENSORS = Sensors(rate=400, locations=20_000, seconds=SPAN, burst=5, disorder_seconds=4)


@dataclass
class Feed:
    """Readings of `SPAN` seconds of event time, written within `seconds` seconds of wall time."""

    folder: Path
    seconds: float
    written: dict[str, list[pa.Table]] = field(default_factory=lambda: {name: [] for name in STREAMS})

    def path(self, stream: str) -> Path:
        return self.folder / stream.lower()

    @property
    def steps(self) -> int:
        return max(4, round(self.seconds))

    def write(self, wait: Callable[[float], bool], begun: Callable[[], bool]) -> Iterator[int]:
        """Writes a file per stream and step; `wait` waits and returns whether to go on, as does `begun` for the first
        batch.
        """
        parts = zip(*(_SENSORS.batches(seed, self.steps) for seed in range(len(STREAMS))), strict=True)
        # The last reading's event time is about the time at which it is written: event time catches up with the clock.
        offset = round((time.time() + self.seconds - SPAN) * SECOND)
        began = time.time()
        for step, tables in enumerate(parts):
            if not wait(began + step * self.seconds / self.steps - time.time()):
                return
            for stream, table in zip(STREAMS, tables, strict=True):
                self._write(stream, step, _readings(stream, table, offset))
            yield step
            if step == 0:
                # The first batch of a new Spark takes seconds; the clock starts after it.
                if not begun():
                    return
                began = time.time()

    def _write(self, stream: str, step: int, rows: pa.Table) -> None:
        folder = self.path(stream)
        folder.mkdir(parents=True, exist_ok=True)
        # Spark reads every file whose name does not begin with a dot.
        partial = folder / f".{step:06}.parquet"
        pq.write_table(rows, partial)
        self.written[stream].append(rows)
        partial.rename(folder / f"{step:06}.parquet")

    def rows(self) -> dict[str, pa.Table]:
        return {stream: pa.concat_tables(tables).combine_chunks() for stream, tables in self.written.items()}

    def batches(self) -> list[dict[str, pa.Table]]:
        """The same rows in batches as they were written."""
        return [dict(zip(STREAMS, tables, strict=True)) for tables in zip(*self.written.values(), strict=True)]

    def count(self) -> int:
        return sum(table.num_rows for tables in self.written.values() for table in tables)


def _readings(stream: str, table: pa.Table, offset: int) -> pa.Table:
    times = pa.array(np.asarray(table["Ts"].cast(pa.int64())) + offset).view(pa.timestamp("us", "UTC"))
    values = table["Value"] if stream == "Temperature" else pc.add(pc.multiply(table["Value"], 1.5), 20.0)
    return pa.table({"LocationId": table["LocationId"], "Value": values, "Ts": times})


def unshared_rows(plan: Plan, rows: Mapping[str, pa.Table]) -> dict[str, int]:
    """For each query, how many rows an unshared join would hold after these rows, by its window and selections."""
    now = min(int(microseconds(_times(plan, name, table)).max()) for name, table in rows.items())
    found = {}
    for member in plan.members:
        kept = 0
        for side, stream, condition in _sides(member):
            reach = member.interval.left_span if side == LEFT else member.interval.right_span
            if reach is not None:
                times = microseconds(_times(plan, stream.name, rows[stream.name]))
                young = times > now - stream.delay - reach[1]
                kept += int(np.count_nonzero(young & _passes(condition, rows[stream.name])))
        found[member.name] = kept
    return found


def join_times(plan: Plan, batches: Sequence[Mapping[str, pa.Table]]) -> tuple[float, float]:
    """CPU seconds of the engine on these batches, in this process: all queries shared, and the sum over each query
    alone. The best of two rounds.
    """
    alone = [make_plan(replace(plan.script, queries=(query,))) for query in plan.script.queries]
    rounds = [(cpu_seconds(plan, batches)[0], sum(cpu_seconds(one, batches)[0] for one in alone)) for _ in range(2)]
    return min(shared for shared, _ in rounds), min(apart for _, apart in rounds)


def _sides(member: Member) -> Iterator[tuple[int, Stream, Condition]]:
    left, right = member.streams
    yield LEFT, left, member.left
    yield RIGHT, right, member.right


def _passes(condition: Condition, rows: pa.Table) -> Bools:
    columns = rows.combine_chunks().to_batches()[0]
    return compile_condition(sorted(condition, key=repr), {})(
        lambda column: columns.column(column.name), columns.num_rows
    )


def _times(plan: Plan, stream: str, rows: pa.Table) -> pa.Array:
    column = next(one.time for one in plan.script.streams if one.name == stream)
    return rows[column].combine_chunks()
