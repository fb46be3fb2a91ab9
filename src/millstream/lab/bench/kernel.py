"""The engine on one core: one window, seven windows, and DuckDB's one-shot join of the widest, in one run."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.engine import Engine
from millstream.lab.workloads.generators import Sensors
from millstream.lab.workloads.sensor_queries import windows_script
from millstream.lab.workloads.windows import UNIFORM


class Feed:
    """The two streams of the workload, and runs over them."""

    def __init__(self, seconds: int) -> None:
        self.sensors = Sensors(seconds=seconds)
        self.tables = {"Temperature": self.sensors.table(1), "Humidity": self.sensors.table(2)}

    def run(self, windows: Sequence[int], batches: int) -> tuple[float, dict[str, int], Engine]:
        """Seconds, rows per query, and the engine at the end. A batch's results are kept until the batch is done."""
        kept: list[pa.RecordBatch] = []
        rows: dict[str, int] = {}

        def sink(name: str, batch: pa.RecordBatch) -> None:
            rows[name] = rows.get(name, 0) + batch.num_rows
            kept.append(batch)

        engine = Engine(compile_script(windows_script(windows, delay=0)), sink)
        cut = zip(self.sensors.batches(1, batches), self.sensors.batches(2, batches), strict=True)
        parts = [{"Temperature": left, "Humidity": right} for left, right in cut]
        gc.collect()
        start = time.perf_counter()
        for part in parts:
            engine.feed(part)
            kept.clear()
        engine.close()
        return time.perf_counter() - start, rows, engine

    def duckdb(self, seconds: int) -> tuple[float, int]:
        """The join of one window over both whole tables on one thread: into a table, or as Arrow batches."""
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
        connection.execute("DROP TABLE result")
        start = time.perf_counter()
        found = sum(batch.num_rows for batch in connection.sql(join).to_arrow_reader())
        return min(taken, time.perf_counter() - start), found


def report(seconds: int = 1_000, small_batches: int = 1_000, rounds: int = 3) -> Iterator[str]:
    """The table of `millstream bench kernel`: the best of several rounds, in which all contestants take turns.

    Every pair is made with its eight columns and passed to a consumer, which keeps it until its batch is done; DuckDB
    makes its table in memory, or returns Arrow batches, whichever is faster.
    """
    feed = Feed(seconds)
    count = sum(table.num_rows for table in feed.tables.values())
    yield f"{count:,} rows of two streams, 20,000 keys, 1,000 rows/s each, windows {', '.join(map(str, UNIFORM))} s"
    widest = f"w{UNIFORM[-1]}"
    times: dict[str, list[float]] = {name: [] for name in ("one", "seven", "many", "duckdb")}
    rows: dict[str, int] = {}
    state = 0
    for _ in range(rounds):
        taken, rows["duckdb"] = feed.duckdb(UNIFORM[-1])
        times["duckdb"].append(taken)
        # Both engine runs follow a run of the engine: right after DuckDB, memory would have to be allocated anew.
        for name, windows, batches in (
            ("many", UNIFORM, small_batches),
            ("one", UNIFORM[-1:], 20),
            ("seven", UNIFORM, 20),
        ):
            taken, counts, engine = feed.run(windows, batches)
            times[name].append(taken)
            rows[name] = counts[widest]
            if name == "seven":
                state = sum(segment.nbytes for pool in engine.pools() for segment in pool.segments)
        yield "  round: " + ", ".join(f"{name} {some[-1]:.2f} s" for name, some in times.items())
    one, seven, many, duck = (min(times[name]) for name in ("one", "seven", "many", "duckdb"))
    needed = sum(min(1.0, UNIFORM[-1] / seconds) * table.nbytes for table in feed.tables.values())
    for line in (
        f"one window, 20 batches            {one:7.2f} s   {rows['one']:,} pairs of 8 columns",
        f"seven windows, 20 batches         {seven:7.2f} s   {seven / one:.2f} of one window (limit 1.25)",
        f"seven windows, {small_batches:>5,} batches      {many:7.2f} s   {many / seven:.2f} of 20 batches (limit 2.5)",
        f"DuckDB, the widest window at once {duck:7.2f} s   one window takes {one / duck:.2f} of it (limit 2)",
        f"state of seven windows {state / 1e6:18.1f} MB  {state / needed:.2f} of the rows it must hold (limit 1.5)",
    ):
        yield f"  {line}"
    yield f"  all found the same number of pairs: {'yes' if len(set(rows.values())) == 1 else 'NO'}"
