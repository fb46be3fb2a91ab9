"""Seven windows from two Kafka topics: Millstream against a native Spark join for each window, from the same topics.

The broker is started for the benchmark, on loopback. Every contestant's rows are compared with DuckDB's.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from millstream.lab.bench.native_joins import NativeJoins, session_beside
from millstream.lab.workloads.broker import Broker
from millstream.lab.workloads.jars import jars
from millstream.lab.workloads.sensor_files import SensorFiles, answer
from millstream.lab.workloads.sensor_queries import SCHEMA, STREAMS, windows_script
from millstream.lab.workloads.windows import UNIFORM
from millstream.pipeline import Pipeline
from millstream.pipeline.connectors import session_options
from millstream.pipeline.session import make_session

_MEMORY = "6g"
GOAL = 15


@dataclass(frozen=True, slots=True)
class KafkaJoins(NativeJoins):
    """The same native joins, from topics; `options` are those of Spark's reader, by stream."""

    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def read(self, name: str) -> DataFrame:
        read = self.spark.readStream.format("kafka").options(**self.options[name]).load()
        parsed = sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("row")
        return read.select(parsed).select("row.*")


def report(
    seconds: int = 1_000, batches: int = 20, place: Path | None = None, tell: Callable[[str], None] = lambda _: None
) -> Iterator[str]:
    """The lines of `millstream bench kafka`."""
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        work = Path(temporary)
        with Broker(work / "broker") as broker:
            conf = {"spark.driver.memory": _MEMORY}
            spark = make_session("kafka", options=session_options(jars=map(str, jars("kafka")), conf=conf))
            small = _Topics(broker, SensorFiles.write(work / "warm", 20, 2), "warm")
            topics = _Topics(broker, SensorFiles.write(work / "in", seconds, batches), "all")
            for label, run in (("Millstream", _millstream), ("native joins", _native)):
                tell(f"warming up: {label}")
                run(spark, small, work / "warm-out" / label, tell)
            cores = spark.sparkContext.defaultParallelism
            yield f"{topics.files.rows():,} rows of two topics, JSON, in {batches} batches"
            yield f"windows {', '.join(map(str, UNIFORM))} s; Spark {spark.version}, {cores} cores"
            ours = _millstream(spark, topics, work / "ours", tell)
            yield f"  Millstream, seven windows: {ours:.1f} s, {_verdict(topics, work / 'ours/results', 'w{}')}"
            theirs = _native(spark, topics, work / "theirs", tell)
            verdict = _verdict(topics, work / "theirs/results", "query=w{}")
            yield f"  seven native joins, state in memory: {theirs:.1f} s, {verdict}"
            again = _millstream(spark, topics, work / "again", tell)
            yield f"  Millstream once more: {again:.1f} s"
            yield f"Millstream is {theirs / ((ours + again) / 2):.1f} times as fast (goal {GOAL})."


class _Topics:
    """The rows of the workload in two topics of one partition, in the order of their times."""

    def __init__(self, broker: Broker, files: SensorFiles, name: str) -> None:
        self.files = files
        self.options: dict[str, dict[str, str]] = {}
        for stream in STREAMS:
            topic = f"{name}-{stream}"
            broker.create(topic)
            count = 0
            for path in sorted(Path(files.path(stream)).glob("*.parquet")):
                values = _values(path)
                count += len(values)
                broker.produce(topic, values)
            self.options[stream] = {
                "kafka.bootstrap.servers": broker.address,
                "subscribe": topic,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(-(-count // files.batches)),
            }


def _values(path: Path) -> list[bytes]:
    """Rows as JSON, with times to the microsecond."""
    table = pq.read_table(path)
    times = pc.strftime(table.column("Ts"), format="%Y-%m-%dT%H:%M:%SZ").to_pylist()
    rest = (table.column(name).to_pylist() for name in ("LocationId", "Value", "Reading"))
    return [
        b'{"LocationId": %d, "Value": %r, "Reading": %d, "Ts": "%s"}' % (location, value, reading, at.encode())
        for location, value, reading, at in zip(*rest, times, strict=True)
    ]


def _millstream(spark: SparkSession, topics: _Topics, place: Path, tell: Callable[[str], None]) -> float:
    began = time.perf_counter()
    pipeline = Pipeline(
        "kafka",
        place,
        script=windows_script(UNIFORM),
        spark=spark,
        on_batch=lambda batch: tell(f"Millstream: batch {batch.batch}, {time.perf_counter() - began:.0f} s"),
    )
    for stream, options in topics.options.items():
        pipeline.read(stream, "kafka", value="json", **options)
    pipeline.drain()
    return time.perf_counter() - began


def _native(spark: SparkSession, topics: _Topics, place: Path, tell: Callable[[str], None]) -> float:
    joins = KafkaJoins(session_beside(spark, "memory"), topics.files, place, "memory", options=topics.options)
    return joins.separate(UNIFORM, lambda text: tell(f"native joins: {text}")).seconds


def _verdict(topics: _Topics, results: Path, name: str) -> str:
    answers = topics.files.answers(UNIFORM)
    right = all(answer(results / name.format(size)) == answers[size] for size in UNIFORM)
    return "the right rows" if right else "WRONG ROWS"
