"""Joins of two and more streams as a Spark user writes them: native stream-stream joins, one after the other.

A join of m streams is m - 1 native joins: each keeps the rows of the next stream and all combinations found so far.
Spark allows one column with a watermark on each side of a join, so of a combination only the first stream's time keeps
its own; the other times are plain columns, and every bound is still checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.column import Column

from millstream.lab.bench.native_joins import Ran, awaited, session_beside, stream
from millstream.lab.workloads.stream_files import StreamFiles
from millstream.lab.workloads.window_joins import KEY, WindowJoin


@dataclass(frozen=True, slots=True)
class NativeMultiway:
    """Native joins over the files; results and checkpoints go under a folder."""

    spark: SparkSession
    files: StreamFiles

    @classmethod
    def beside(cls, spark: SparkSession, files: StreamFiles, store: str = "memory") -> NativeMultiway:
        return cls(session_beside(spark, store), files)

    def run(self, joins: Sequence[WindowJoin], place: Path, tell: Callable[[str], None]) -> Ran:
        """A query and a Parquet sink for each join, all at once."""
        began = time.perf_counter()
        queries = [
            self._join(join)
            .writeStream.format("parquet")
            .option("path", str(place / "results" / join.name))
            .option("checkpointLocation", str(place / "checkpoint" / join.name))
            .trigger(availableNow=True)
            .start()
            for join in joins
        ]
        return awaited(queries, self.files.batches, began, tell)

    def _join(self, join: WindowJoin) -> DataFrame:
        first = join.streams[0]
        found, before = self._stream(first), first
        for name in join.streams[1:]:
            near = (_near(one, name, join.seconds) for one in before)
            same = sf.col(f"{first}_{KEY}") == sf.col(f"{name}_{KEY}")
            found = found.join(self._stream(name), reduce(Column.__and__, near, same))
            # A computed column has no watermark.
            found = found.withColumn(f"{name}_Ts", sf.timestamp_micros(sf.unix_micros(f"{name}_Ts")))
            before += name
        return found

    def _stream(self, name: str) -> DataFrame:
        return stream(self.spark, self.files, name, name)


def _near(one: str, other: str, seconds: int) -> Column:
    wide = sf.expr(f"INTERVAL {seconds} SECONDS")
    first, second = sf.col(f"{one}_Ts"), sf.col(f"{other}_Ts")
    return (second > first - wide) & (second < first + wide)
