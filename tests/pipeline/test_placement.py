"""Workers live on from batch to batch: what a slot has open stays open."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pyarrow as pa

from millstream.pipeline.placement import Placement
from millstream.pipeline.session import make_session, session_for
from millstream.pipeline.slot import SlotReport


def told_by_worker(slot: int, task: int, batches: Iterable[pa.RecordBatch]) -> SlotReport:
    rows = sum(some.num_rows for some in batches)
    return SlotReport(slot=slot, task=task, token="", executor=str(os.getpid()), rows_in={"some": rows})


def test_batches_without_rows_do_not_end_workers() -> None:
    spark = session_for(make_session("placement"))
    placement = Placement(spark, 2)
    rows = spark.range(10).selectExpr("id", "CAST(id % 2 AS INT) AS slot").coalesce(1)
    workers = set()
    for turn in range(6):
        reports = placement.run(rows if turn % 2 else None, told_by_worker)
        assert [report.rows_in["some"] for report in reports] == ([5, 5] if turn % 2 else [0, 0])
        workers |= {report.executor for report in reports}
    assert len(workers) <= 4, "two at a time, and now and then one more"


def test_tasks_of_a_batch_follow_each_other_and_never_come_again() -> None:
    """What lets a few ranges say from which tasks a batch was committed."""
    spark = session_for(make_session("placement"))
    placement = Placement(spark, 8)
    rows = spark.range(40).selectExpr("id", "CAST(id % 8 AS INT) AS slot")
    seen: set[int] = set()
    for turn in range(4):
        tasks = {report.task for report in placement.run(rows if turn % 2 else None, told_by_worker)}
        assert max(tasks) - min(tasks) == 7
        assert len(tasks) == 8
        assert not tasks & seen
        seen |= tasks
