"""The engine on one core: one window, seven windows, and DuckDB's one-shot join of the widest, in one run."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.engine import Engine
from millstream.lab.generators import Sensors

UNIFORM = (1, 100, 200, 300, 400, 500, 600)
"""shared-join, Table 1: the windows of the Uniform row, in seconds."""


def script(windows: Sequence[int]) -> str:
    columns = "(LocationId INT, Value DOUBLE, Reading BIGINT, Ts TIMESTAMP)"
    hints = "WITH (time = 'Ts', rate = 1000, keys = 20000)"
    streams = [f"CREATE STREAM {name} {columns} {hints};" for name in ("Temperature", "Humidity")]
    select = "SELECT * FROM Temperature T, Humidity H WHERE T.LocationId = H.LocationId"
    return "\n".join([*streams, *(f"CREATE QUERY w{size} AS {select} WINDOW {size} SECONDS;" for size in windows)])


class Feed:
    """The two streams of the workload, and runs over them."""

    def __init__(self, seconds: float) -> None:
        self.sensors = Sensors(seconds=seconds)
        self.tables = {"Temperature": self.sensors.table(1), "Humidity": self.sensors.table(2)}

    def run(self, windows: Sequence[int], batches: int) -> tuple[float, dict[str, int], Engine]:
        """Seconds, rows per query, and the engine at the end. Results are kept in memory, as DuckDB's are."""
        kept: list[pa.RecordBatch] = []
        rows: dict[str, int] = {}

        def sink(name: str, batch: pa.RecordBatch) -> None:
            rows[name] = rows.get(name, 0) + batch.num_rows
            kept.append(batch)

        engine = Engine(compile_script(script(windows)), sink)
        cut = zip(self.sensors.batches(1, batches), self.sensors.batches(2, batches), strict=True)
        parts = [{"Temperature": left, "Humidity": right} for left, right in cut]
        gc.collect()
        start = time.perf_counter()
        for part in parts:
            engine.feed(part)
        engine.close()
        return time.perf_counter() - start, rows, engine

    def duckdb(self, seconds: int) -> tuple[float, int]:
        """The join of one window over both whole tables, materialised in memory on one thread."""
        connection = duckdb.connect()
        connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
        for name, table in self.tables.items():
            connection.register("arriving", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")
        join = (
            "SELECT T.*, H.LocationId AS l2, H.Value AS v2, H.Reading AS r2, H.Ts AS t2 FROM Temperature T, Humidity H "
            f"WHERE T.LocationId = H.LocationId AND abs(epoch_us(T.Ts) - epoch_us(H.Ts)) < {seconds * 1_000_000}"
        )
        start = time.perf_counter()
        connection.execute(f"CREATE TABLE result AS {join}")
        taken = time.perf_counter() - start
        found = connection.execute("SELECT count(*) FROM result").fetchone()
        return taken, int(found[0]) if found else 0


def report(seconds: float = 1_000, small_batches: int = 1_000) -> Iterator[str]:
    """The table of `millstream bench kernel`."""
    feed = Feed(seconds)
    count = sum(table.num_rows for table in feed.tables.values())
    yield f"{count:,} rows of two streams, 20,000 keys, 1,000 rows/s each, windows {', '.join(map(str, UNIFORM))} s"
    one, rows, _ = feed.run(UNIFORM[-1:], 20)
    widest = rows[f"w{UNIFORM[-1]}"]
    yield _line("one window, 20 batches", one, f"{widest:,} pairs of 8 columns")
    seven, rows, engine = feed.run(UNIFORM, 20)
    yield _line("seven windows, 20 batches", seven, f"{seven / one:.2f} of one window (limit 1.25)", rows, widest)
    held = [segment for run in engine.chains() for side in run.segments.values() for segment in side]
    needed = sum(min(1.0, UNIFORM[-1] / seconds) * table.nbytes for table in feed.tables.values())
    size = sum(segment.nbytes for segment in held)
    yield f"  state at the end: {size / 1e6:.1f} MB, {size / needed:.2f} of the rows it must hold (limit 1.5)"
    duck, found = feed.duckdb(UNIFORM[-1])
    ratio = f"one window takes {one / duck:.2f} of it (limit 2)"
    yield _line("DuckDB, widest window at once", duck, ratio, {f"w{UNIFORM[-1]}": found}, widest)
    many, rows, _ = feed.run(UNIFORM, small_batches)
    ratio = f"{many / seven:.2f} of 20 batches (limit 2.5)"
    yield _line(f"seven windows, {small_batches:,} batches", many, ratio, rows, widest)


def _line(name: str, seconds: float, words: str, rows: dict[str, int] | None = None, widest: int = 0) -> str:
    agree = "" if rows is None else f"; rows agree: {'yes' if rows[f'w{UNIFORM[-1]}'] == widest else 'NO'}"
    return f"  {name:<30} {seconds:7.2f} s   {words}{agree}"
