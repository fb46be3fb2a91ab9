"""A real broker, and a Spark with the connectors: `make kafka` runs these tests, other runs leave them out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from millstream.lab.workloads.broker import Broker
from millstream.lab.workloads.jars import jars
from millstream.pipeline import Pipeline
from millstream.pipeline.connectors import session_options
from millstream.pipeline.session import make_session

WANTED = "MILLSTREAM_KAFKA" in os.environ


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return None if WANTED or collection_path.suffix != ".py" or not collection_path.name.startswith("test_") else True


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as found:
        yield found


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    both = [str(jar) for name in ("kafka", "delta") for jar in jars(name)]
    small = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"}
    session = make_session("kafka", "local[2]", session_options(jars=both, conf=small))
    yield session
    session.stop()


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Pipeline]]:
    """Makes pipelines in this test's directory, which are stopped when it ends."""
    made: list[Pipeline] = []

    def make(script: str, directory: str = "state", **options: Any) -> Pipeline:
        made.append(Pipeline("kafka", tmp_path / directory, script=script, spark=spark, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()
