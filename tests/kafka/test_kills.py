"""Exactly once through kills: the driver and the broker get signal 9 while rows come in.

The driver and the broker are killed in turns, MILLSTREAM_KILLS times each (once where it does not say). Parquet files
and a Delta table have every row once; a topic may have messages twice, which their headers tell.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from test_delta import append, declared
from test_sink import once

from millstream.lab.workloads.broker import Broker
from millstream.lab.workloads.jars import jars
from topics import SELECT, expected, given, rows, stream, values

KILLS = int(os.environ.get("MILLSTREAM_KILLS", "1"))
COUNT = 100
SECONDS = 20


class Driver:
    """`millstream run` in a process group of its own."""

    def __init__(self, place: Path, *options: str) -> None:
        both = ",".join(str(jar) for name in ("kafka", "delta") for jar in jars(name))
        command = [sys.executable, "-m", "millstream", "run", "s.sql", "--directory", "state", "--json", "--jars", both]
        for pair in ("spark.sql.shuffle.partitions=2", "spark.databricks.delta.snapshotPartitions=2"):
            command += ["--conf", pair]
        with (place / "errors.txt").open("ab") as errors:
            self.process = subprocess.Popen(
                [*command, *options], cwd=place, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )

    def await_rows(self, count: int) -> None:
        """Until batches with so many rows are committed and delivered, or it ends."""
        seen = 0
        assert self.process.stdout is not None
        while seen < count:
            line = self.process.stdout.readline()
            assert line, f"it ended with {self.process.wait()}"
            seen += sum(json.loads(line).get("rows_in", {}).values())

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.mark.parametrize("source", ["kafka", "delta"])
def test_every_row_once_through_kills(broker: Broker, spark: SparkSession, tmp_path: Path, source: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    topics = {name: f"kills-{source}-{name}" for name in ("A", "B", "out")}
    for topic in topics.values():
        broker.create(topic, 2)
    is_kafka = source == "kafka"
    put: Callable[[str, list[dict[str, Any]]], None] = (
        (lambda name, some: broker.produce(topics[name], values(some)))
        if is_kafka
        else (lambda name, some: append(spark, tmp_path / name, some))
    )
    given_rows: list[dict[str, Any]] = []

    def more(number: int) -> None:
        some = rows(number, count=COUNT, keys=5)
        given_rows.extend(some)
        for name in "AB":
            put(name, some)

    more(0)
    topic = f"format = 'kafka', topic = '{topics['out']}', 'kafka.bootstrap.servers' = '{broker.address}'"
    topic += ", retry = 'forever'"
    script = "".join(stream(name, broker, topics[name]) for name in "AB") if is_kafka else declared(tmp_path)
    for name, options in (("files", ""), ("topic", topic), ("delta", f"format = 'delta', path = '{tmp_path}/out'")):
        script += (
            f"CREATE QUERY {name}{f' WITH ({options})' if options else ''} AS {SELECT} WINDOW {SECONDS} SECONDS;\n"
        )
    (tmp_path / "s.sql").write_text(script)
    driver = Driver(tmp_path)
    try:
        driver.await_rows(2 * COUNT)
        for number in range(KILLS):
            more(2 * number + 1)
            driver.kill()
            driver = Driver(tmp_path)
            driver.await_rows(1)
            if is_kafka:
                broker.kill()
                broker.start()
            more(2 * number + 2)
        driver.kill()
    finally:
        if driver.process.poll() is None:
            driver.kill()
    last = Driver(tmp_path, "--drain")
    last.process.communicate(timeout=240)
    assert last.process.returncode == 0, (tmp_path / "errors.txt").read_text()[-3_000:]
    wanted = expected(given_rows, given_rows, SECONDS)
    files = [path for path in (tmp_path / "state/results/files").glob("*.parquet") if path.name[0] != "."]
    assert given(ds.dataset(files).to_table()) == wanted
    assert given(_delta(spark, tmp_path)) == wanted
    assert once(broker.records(topics["out"]), "topic") == wanted


def _delta(spark: SparkSession, place: Path) -> pa.Table:
    return spark.read.format("delta").load(str(place / "out")).toArrow()
