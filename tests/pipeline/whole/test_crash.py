"""Exactly once: real processes killed at random moments, and what is committed compared with DuckDB.

A pipeline runs in a process of its own with a budget, so that work is deferred across batches. Files are put one by
one, queries come and go between them, and now and then the driver, its JVM or one of Spark's Python workers is killed
with signal 9. `make crash` does it 25 times (MILLSTREAM_KILLS), and 25 times with little memory: then groups are
spilled and cleaned up all the time, and change slots.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.compile import compile_script
from millstream.engine.files import Files
from millstream.pipeline import manifest
from millstream.pipeline.registry import Registry
from millstream.pipeline.results import read_results, target_of
from two_streams import START

KILLS = int(os.environ.get("MILLSTREAM_KILLS", "3"))
ROWS = 1_500
SECONDS = 10
TWO = "SELECT A.n AS a, B.n AS b FROM A, B WHERE A.k = B.k"
THREE = "SELECT A.n AS a, B.n AS b, C.n AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k"
SEVERAL_KEYS = "SELECT A.n AS a, B.n AS b, C.n AS c FROM A, B, C WHERE A.k = B.k AND B.g = C.g"
QUERIES = {
    "wide": (TWO, 60),
    "narrow": (TWO, 5),
    "shared_wide": (TWO, 45),
    "shared_narrow": (TWO, 15),
    "three": (THREE, 4),
    "several_keys": (SEVERAL_KEYS, 3),
    "added": (TWO, 30),
    "for_a_while": (TWO, 20),
    "three_added": (THREE, 3),
    "several_keys_added": (SEVERAL_KEYS, 2),
}
"""The join of every query, and the seconds of its window."""
SHARED = ("shared_wide", "shared_narrow", "for_a_while")
STREAMS = "\n".join(
    f"CREATE STREAM {name} (k INT, g INT, n BIGINT, file INT, Ts TIMESTAMP) WITH (time = 'Ts', rate = 150, keys = 300);"
    for name in "ABC"
)


def query(name: str) -> str:
    shared = " WITH (results = 'shared')" if name in SHARED else ""
    select, window = QUERIES[name]
    return f"CREATE QUERY {name}{shared} AS {select} WINDOW {window} SECONDS"


SCRIPT = f"{STREAMS}\nSET budget = '20 milliseconds';\nSET heartbeat = '100 milliseconds';\n" + "".join(
    f"{query(name)};\n" for name in list(QUERIES)[:6]
)


def table(seed: int, file: int) -> pa.Table:
    rng = np.random.default_rng([seed, file])
    offsets = np.sort(rng.integers(0, SECONDS * 1_000_000, ROWS)) + file * SECONDS * 1_000_000
    times = [START + timedelta(microseconds=int(offset)) for offset in offsets]
    return pa.table(
        {
            "k": pa.array(rng.integers(0, 300, ROWS), pa.int32()),
            "g": pa.array(rng.integers(0, 100, ROWS), pa.int32()),
            "n": pa.array(np.arange(ROWS) + file * ROWS),
            "file": pa.array(np.full(ROWS, file), pa.int32()),
            "Ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


class Harness:
    """Keeps a pipeline alive by starting it again, and kills it when its time has come."""

    def __init__(self, place: Path, kills: int, script: str) -> None:
        self.place, self.kills_left = place, kills
        self.random = np.random.default_rng(kills)
        self.script = place / "script.sql"
        self.script.write_text(script, encoding="utf-8")
        self.state = Files.at(place / "state")
        self.process: subprocess.Popen[bytes] | None = None
        self.kill_at: float | None = None
        self.dies_young = False
        self.killed: list[str] = []
        self.killed_after: set[int] = set()
        for name in "ABC":
            (place / "in" / name).mkdir(parents=True)

    def start(self) -> None:
        driver = Path(__file__).with_name("crash_driver.py")
        with (self.place / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(driver), str(self.place), str(self.script)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.kill_at = None
        # Once in a while during the start, mostly when batches come.
        self.dies_young = self.random.random() < 0.2

    def tend(self) -> None:
        """Starts what has died and kills what is due. A process is given time to commit at least one batch or none."""
        process = self.process
        if process is None or process.poll() is not None:
            self.start()
            return
        if not self.kills_left:
            return
        if self.kill_at is None:
            if self.dies_young or self.has_running_spark():
                self.kill_at = time.monotonic() + self.random.uniform(0, 8)
        elif time.monotonic() >= self.kill_at:
            self.kill_at = None
            self.kill()

    def has_running_spark(self) -> bool:
        return bool(self.descendants("pyspark.daemon"))

    def kill(self) -> None:
        victim = str(self.random.choice(["driver", "driver", "jvm", "worker"]))
        if self.process is None:
            return
        if victim == "driver":
            self.process.kill()
            self.process.wait()
        else:
            found = self.descendants("pyspark.daemon" if victim == "worker" else "java")
            # The first of the daemons only starts the others, which do the work.
            if not found:
                return
            os.kill(found[-1], signal.SIGKILL)
        self.kills_left -= 1
        self.killed.append(victim)
        self.killed_after.add(self.manifest().batch)

    def descendants(self, word: str) -> list[int]:
        """Processes this driver has started, and those they have, whose command has the word in it."""
        if self.process is None:
            return []
        parents: dict[int, list[int]] = {}
        commands = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    status = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                    commands[int(folder.name)] = (folder / "cmdline").read_bytes().decode(errors="replace")
                except (FileNotFoundError, ProcessLookupError):
                    continue
                parents.setdefault(int(status[1]), []).append(int(folder.name))
        waiting, found = [self.process.pid], []
        while waiting:
            pid = waiting.pop()
            waiting += parents.get(pid, [])
            if word in commands.get(pid, "") and pid != self.process.pid:
                found.append(pid)
        return sorted(found)

    def until(self, what: str, holds: Any) -> None:
        deadline = time.monotonic() + 240
        while not holds():
            assert time.monotonic() < deadline, f"{what} takes too long, see {self.place / 'driver.log'}"
            self.tend()
            time.sleep(0.01)  # between looks at the files; nothing depends on how long it is

    def put(self, file: int) -> None:
        """A file for every stream, and wait until all are in: Spark may take them up in several batches."""
        greatest = {}
        for seed, name in enumerate("ABC"):
            folder = self.place / "in" / name
            rows = table(seed, file)
            greatest[name] = int(rows["Ts"].cast(pa.int64()).to_numpy().max())
            pq.write_table(rows, folder / ".part")
            os.utime(folder / ".part", (1_000_000_000 + file, 1_000_000_000 + file))
            (folder / ".part").rename(folder / f"{file:06}.parquet")

        def taken() -> bool:
            seen = self.manifest().greatest
            return all(name in seen and seen[name] >= last for name, last in greatest.items())

        self.until(f"file {file}", taken)

    def manifest(self) -> manifest.Manifest:
        return manifest.latest(self.state.below("manifest")) or manifest.Manifest()

    def change(self, action: str, name: str, text: str = "") -> None:
        registry = Registry(self.state.below("registry"))
        asked = registry.ask(action, name, query(name) if action == "add" else text)
        self.until(f"{action} {name}", lambda: not registry.is_waiting(asked))
        # What is out of the inbox takes effect with the batch that took it out, which may still fail.
        batch = self.manifest().batch
        self.until("the next batch", lambda: self.manifest().batch > batch)

    def catch_up(self) -> None:
        """Until no work is deferred and nothing is owed."""

        def done() -> bool:
            found = self.manifest()
            return not found.deferred and not found.owing

        self.until("the rest of the work", done)

    def spilled(self) -> int:
        """How many segments are on disk only."""
        return sum(entry.on_disk for slot in self.manifest().slots.values() for entry in slot.shard.segments)

    def finish(self) -> None:
        """Ends the run once the last batch can be seen: committed results become visible a moment after the commit."""
        self.catch_up()
        finals = [final for output in self.manifest().outputs for final in output.finals]
        self.until("the last results", lambda: all(Path(final.folder, final.name).exists() for final in finals))
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def close(self) -> None:
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


@pytest.mark.parametrize("memory", ["", "300 kB"])
def test_kills_lose_and_double_nothing(tmp_path: Path, memory: str) -> None:
    harness = Harness(tmp_path, KILLS, SCRIPT + (f"SET memory = '{memory}'; SET slots = 2;\n" if memory else ""))
    files, on_disk, tables = 0, 0, set()
    since = {"added": 3, "for_a_while": 4, "three_added": 3, "several_keys_added": 5}
    until = {"for_a_while": 6}
    try:
        while files < max(8, KILLS) or harness.kills_left:
            file, files = files, files + 1
            for name, first in since.items():
                if file == first:
                    harness.change("add", name)
            for name, last in until.items():
                if file == last:
                    harness.catch_up()  # what a dropped query still waits for is dropped with it
                    harness.change("drop", name)
            if memory and file % 2:
                harness.change("slots", "", str(harness.random.integers(1, 6)))
            harness.put(file)
            on_disk = max(on_disk, harness.spilled())
            tables.add(harness.manifest().routing)
        harness.finish()
    finally:
        harness.close()
    assert len(harness.killed) == KILLS, f"killed {harness.killed}"
    assert len(harness.killed_after) >= KILLS // 3, f"killed after batches {harness.killed_after} only"
    assert bool(memory) == (on_disk > 0), f"{on_disk} segments were on disk"
    assert bool(memory) == (len(tables) > 2), "groups have changed slots"
    check(tmp_path, files, since, until)


def check(place: Path, files: int, since: dict[str, int], until: dict[str, int]) -> None:
    """Every query's committed rows are exactly those DuckDB finds among the rows it could see."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for seed, name in enumerate("ABC"):
        rows = pa.concat_tables([table(seed, file) for file in range(files)])
        connection.register(f"{name}_rows", rows)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
    text = STREAMS + "".join(f"{query(name)};\n" for name in QUERIES)
    declared = {one.name: one for one in compile_script(text).script.queries}
    for name, (select, window) in QUERIES.items():
        names = [name for name in "ABC" if f" {name}," in select or f"{name} WHERE" in select]
        apart = [f"abs(epoch_us({a}.Ts) - epoch_us({b}.Ts)) < {window * 1_000_000}" for a, b in combinations(names, 2)]
        # From the batch of its addition on, to the one before it was dropped: by the youngest row's file.
        youngest = f"greatest({', '.join(f'{one}.file' for one in names)})"
        seen = f"{youngest} >= {since.get(name, 0)} AND {youngest} < {until.get(name, files)}"
        expected = connection.sql(f"{select} AND {' AND '.join(apart)} AND {seen} ORDER BY ALL").to_arrow_table()
        results = f"{place}/state/results"
        found = read_results(target_of(declared[name], results, "own"), declared[name])
        found = found.sort_by([(column, "ascending") for column in found.column_names])
        assert len(found) == len(expected) > 0, f"{name}: {len(found)} rows instead of {len(expected)}"
        assert found.cast(expected.schema).equals(expected), name
