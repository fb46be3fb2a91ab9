"""The same queries as a Spark user writes them today: native stream-stream joins, with settings that suit them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.column import Column
from pyspark.sql.streaming.query import StreamingQuery

from millstream.lab.workloads.sensor_files import SensorFiles
from millstream.lab.workloads.sensor_queries import COLUMNS, DELAY, SCHEMA
from millstream.lab.workloads.stream_files import StreamFiles

_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
STORES: Mapping[str, Mapping[str, str]] = {
    "memory": {"spark.sql.streaming.stateStore.providerClass": f"{_PROVIDERS}.HDFSBackedStateStoreProvider"},
    "rocksdb": {
        "spark.sql.streaming.stateStore.providerClass": f"{_PROVIDERS}.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    },
}
BOUNDED, BOUND = "rocksdb-bounded", 16
"""A store that may use so many megabytes of memory for all its instances."""
STORES = {
    **STORES,
    BOUNDED: {
        **STORES["rocksdb"],
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": str(BOUND),
    },
}
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "lz4_raw",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


@dataclass(frozen=True, slots=True)
class Ran:
    """A contestant's run. The peak of its state: rows, bytes of memory, and bytes on disk where it is stored there."""

    seconds: float
    batches: int
    state_rows: int
    state_bytes: int
    disk_bytes: int = 0


def settings(store: str, cores: int) -> dict[str, str]:
    return {**_SETTINGS, "spark.sql.shuffle.partitions": str(cores), **STORES[store]}


@dataclass(frozen=True, slots=True)
class NativeJoins:
    """Native joins over the files with one state store; results and checkpoints go under `place`. `also` is a further
    condition on the columns of the result.
    """

    spark: SparkSession
    files: SensorFiles
    place: Path
    store: str
    also: str = "TRUE"

    @classmethod
    def beside(cls, spark: SparkSession, files: SensorFiles, place: Path, store: str) -> NativeJoins:
        """Native joins in a Spark session of their own."""
        return cls(session_beside(spark, store), files, place, store)

    def results(self, window: int) -> Path:
        return self.place / "results" / f"query=w{window}"

    def separate(self, windows: Sequence[int], tell: Callable[[str], None]) -> Ran:
        """A join and a Parquet sink per window, all running at once."""
        began = time.perf_counter()
        queries = [
            self._join(window)
            .writeStream.format("parquet")
            .option("path", str(self.results(window)))
            .option("checkpointLocation", str(self.place / "checkpoint" / f"w{window}"))
            .trigger(availableNow=True)
            .start()
            for window in windows
        ]
        return awaited(queries, self.files.batches, began, tell)

    def filtered(self, windows: Sequence[int], tell: Callable[[str], None]) -> Ran:
        """One join of the widest window; every batch of it is filtered and written once for each window."""
        apart = sf.abs(sf.unix_micros("H_Ts") - sf.unix_micros("T_Ts"))
        within: list[Column] = [sf.when(apart < size * 1_000_000, sf.lit(f"w{size}")) for size in windows]

        def write(pairs: DataFrame, _: int) -> None:
            copies = pairs.withColumn("query", sf.explode(sf.array_compact(sf.array(*within))))
            copies.write.partitionBy("query").mode("append").parquet(str(self.place / "results"))

        began = time.perf_counter()
        query = (
            self._join(max(windows))
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self.place / "checkpoint" / "filtered"))
            .trigger(availableNow=True)
            .start()
        )
        return awaited([query], self.files.batches, began, tell)

    def _join(self, window: int) -> DataFrame:
        left, right = (
            stream(self.spark, self.files, name, prefix) for name, prefix in (("Temperature", "T"), ("Humidity", "H"))
        )
        wide = sf.expr(f"INTERVAL {window} SECONDS")
        near = (sf.col("H_Ts") > sf.col("T_Ts") - wide) & (sf.col("H_Ts") < sf.col("T_Ts") + wide)
        return left.join(right, (sf.col("T_LocationId") == sf.col("H_LocationId")) & near).where(self.also)


def session_beside(spark: SparkSession, store: str) -> SparkSession:
    """A session in the same application, with the settings of native joins."""
    own = spark.newSession()
    for key, value in settings(store, spark.sparkContext.defaultParallelism).items():
        own.conf.set(key, value)
    return own


def stream(spark: SparkSession, files: StreamFiles, name: str, prefix: str) -> DataFrame:
    """A stream whose columns have a prefix, with a watermark."""
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").parquet(files.path(name))
    return read.select(*(sf.col(column).alias(f"{prefix}_{column}") for column in COLUMNS)).withWatermark(
        f"{prefix}_Ts", f"{DELAY} seconds"
    )


def awaited(queries: Sequence[StreamingQuery], batches: int, began: float, tell: Callable[[str], None]) -> Ran:
    """Waits until all queries have read their `batches`."""
    while any(query.isActive for query in queries):
        for query in queries:
            if query.isActive:
                query.awaitTermination(2)
                break
        done = sum(len(query.recentProgress) for query in queries)
        tell(f"{done} of {batches * len(queries)} batches, {time.perf_counter() - began:.0f} s")
    taken = time.perf_counter() - began
    for query in queries:
        query.awaitTermination()  # raises the error that ended it
    peaks = [_peak(query) for query in queries]
    most = max(len(_with_rows(query)) for query in queries)
    return Ran(taken, most, *(sum(peak[place] for peak in peaks) for place in range(3)))


def _with_rows(query: StreamingQuery) -> list[dict[str, Any]]:
    return [progress for progress in _progress(query) if progress["numInputRows"]]


def _peak(query: StreamingQuery) -> tuple[int, int, int]:
    """The peak rows, bytes of memory and bytes of files of a query's state."""
    seen: Iterable[tuple[int, int, int]] = (
        (
            sum(max(0, one["numRowsTotal"]) for one in progress["stateOperators"]),
            sum(one["memoryUsedBytes"] for one in progress["stateOperators"]),
            sum(one["customMetrics"].get("rocksdbSstFileSize", 0) for one in progress["stateOperators"]),
        )
        for progress in _progress(query)
    )
    rows, memory, disk = zip(*seen, strict=True)
    return max(rows), max(memory), max(disk)


def _progress(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(progress.json) for progress in query.recentProgress]
