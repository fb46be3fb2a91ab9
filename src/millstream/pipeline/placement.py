"""Where slots run.

On one machine a shuffle is enough. On a cluster a slot should stay with the executor that has its segments open, so
each batch is grouped together with an anchor: a cached table of one row per slot, whose partitions Spark prefers to
process where they are cached. Only speed depends on it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from millstream.pipeline.packing import packed, unpacked
from millstream.pipeline.routing import SLOT
from millstream.pipeline.shedding import METRICS
from millstream.pipeline.slot import SlotReport

Run = Callable[[int, int, Iterable[pa.RecordBatch]], SlotReport]
"""Runs a slot, in a task of this id, on its rows."""
_SCHEMA = StructType([StructField("report", BinaryType())])
_TRIES = 5


class Placement:
    """Sends rows, each with its slot, to the slots and brings their reports back."""

    def __init__(self, spark: SparkSession, slots: int) -> None:
        self._spark, self.slots = spark, slots
        self._anchor: DataFrame | None = None
        self._tries = 0
        self.observed: dict[str, Any] = {}
        """What the last batch was observed to have, where it asked for that."""
        self.on_cluster = not str(spark.sparkContext.master).startswith("local[")

    def run(self, rows: DataFrame | None, work: Run, *, observe: bool = False) -> list[SlotReport]:
        """One report from every slot, whether it has rows or not. The rows may be observed on their way."""
        reports = self._on_cluster(rows, work) if self.on_cluster else self._here(rows, work)
        found = [row.report for row in reports.collect()]
        if observe:
            self.observed = _observed(reports)
        if len(found) < self.slots:
            # If Spark sees in advance that a batch is empty, it runs no slot at all.
            if observe and rows is not None and not self.observed:
                rows.collect()
                self.observed = _observed(rows)
            return self.run(None, work)
        return sorted(map(unpacked, found), key=lambda report: int(report.slot))

    def _here(self, rows: DataFrame | None, work: Run) -> DataFrame:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            report = packed(work(_task().partitionId(), _task().taskAttemptId(), batches if has_rows else ()))
            for _ in batches:  # Spark ends a worker that leaves rows unread, and the worker's cached shards with it
                pass
            yield pa.RecordBatch.from_pydict({"report": [report]})

        has_rows = rows is not None
        if rows is None:
            sent = self._spark.range(0, self.slots, 1, self.slots)
        else:
            sent = rows.repartitionById(self.slots, SLOT)
        return sent.mapInArrow(run, _SCHEMA)

    def _on_cluster(self, rows: DataFrame | None, work: Run) -> DataFrame:
        anchor = self._anchored()
        if rows is None:
            rows = self._spark.range(0).selectExpr(f"CAST(id AS INT) AS {SLOT}")

        def run(key: tuple[pa.Scalar, ...], _: pa.Table, batch: pa.Table) -> pa.Table:
            return pa.table({"report": [packed(work(key[0].as_py(), _task().taskAttemptId(), batch.to_batches()))]})

        grouped = rows.repartitionById(self.slots, SLOT).groupBy(SLOT)
        return anchor.groupBy(SLOT).cogroup(grouped).applyInArrow(run, _SCHEMA)

    def _anchored(self) -> DataFrame:
        if self._anchor is None:
            slots = self._spark.createDataFrame([(slot,) for slot in range(self.slots)], f"{SLOT} INT")
            self._anchor = slots.repartitionById(self.slots, SLOT).persist()
            self._anchor.count()
        return self._anchor

    def balance(self, places: Mapping[int, str]) -> None:
        """Rebuilds the anchor where one executor has more than its share of the slots."""
        if self._anchor is None or self._tries >= _TRIES:
            return
        executors = max(1, len(self._spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1)
        most = max(Counter(places.values()).values())
        if most > -(-self.slots // executors):
            self._tries += 1
            self._anchor.unpersist()
            self._anchor = None
        else:
            self._tries = 0


def _observed(done: DataFrame) -> dict[str, Any]:
    """What was observed while this was computed."""
    metrics = done._jdf.queryExecution().observedMetrics().get(METRICS)
    return dict(json.loads(metrics.get().json())) if metrics.isDefined() else {}


def _task() -> TaskContext:
    """The task that runs in this worker."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this is no worker of Spark")
    return context
