"""A standalone cluster of two executors, from the pip package alone, gives what the engine gives, also when partition
groups move from one to the other.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from millstream.compile import compile_script
from millstream.lab.workloads.generators import Sensors
from millstream.pipeline.results import read_results, target_of
from millstream.testing import run
from millstream.testing.on_spark import write_batches

SCRIPT = "\n".join(
    [
        *(
            f"CREATE STREAM {name} (LocationId INT, Value DOUBLE, Reading BIGINT, Ts TIMESTAMP) WITH (time = 'Ts');"
            for name in ("Warm", "Wet")
        ),
        *(
            f"CREATE QUERY w{window} AS SELECT T.Reading AS t, H.Reading AS h FROM Warm T, Wet H"
            f" WHERE T.LocationId = H.LocationId WINDOW {window} SECONDS;"
            for window in (2, 10, 30)
        ),
        "SET slots = 4;",
    ]
)
MOVING = "SET memory = '1 MB'; SET move_threshold = 1; SET move_interval = '0 seconds'; SET move_least = '1 B';"
BATCHES = 4


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and two workers of one core, on this machine only."""
    home = Path(pyspark.__file__).parent
    spark_class = str(home / "bin" / "spark-class")
    settings = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    port, deploy = free_port(), "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [[spark_class, f"{deploy}.master.Master", *here, "--port", str(port)]]
    for number in range(2):
        work = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work{number}"), address]
        commands.append([spark_class, f"{deploy}.worker.Worker", *here, *work])
    with ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context((tmp_path / f"daemon{number}.log").open("wb"))
            process = subprocess.Popen(command, env=settings, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            if number == 0:
                _await_port(port)
        yield address


def _await_port(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as some:
            if some.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)  # between tries
    raise TimeoutError("the master does not answer")


def test_two_executors(master: str, tmp_path: Path) -> None:
    plan = compile_script(SCRIPT)
    sensors = Sensors(rate=100, locations=50, seconds=60)
    rows = {name: list(sensors.batches(seed, BATCHES)) for seed, name in enumerate(("Warm", "Wet"))}
    for stream in plan.script.streams:
        write_batches(tmp_path / "in" / stream.name, stream, rows[stream.name], BATCHES)
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT + MOVING, encoding="utf-8")
    driver = Path(__file__).with_name("cluster_driver.py")
    command = [sys.executable, str(driver), master, str(tmp_path), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(set(told["executors"].values())) == 2, f"both executors work: {told}"
    assert any("memory is not balanced" in said and " go " in said for said in told["said"]), told["said"]
    expected = run(SCRIPT, rows)
    for query in plan.script.queries:
        found = read_results(target_of(query, f"{tmp_path}/state/results", "own"), query)
        assert len(found) > 0
        assert _sorted(found).equals(_sorted(expected[query.name])), query.name


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by([("t", "ascending"), ("h", "ascending")]).combine_chunks()
