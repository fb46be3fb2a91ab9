"""The fixed cost of a batch with almost no rows, and where that time goes."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from millstream.lab.workloads.sensor_files import SensorFiles
from millstream.lab.workloads.sensor_queries import SCHEMA, STREAMS, windows_script
from millstream.lab.workloads.windows import UNIFORM
from millstream.pipeline import Pipeline
from millstream.pipeline.progress import BatchProgress
from millstream.pipeline.session import make_session

_GOAL = 300
_COLD = 10
_PARTS = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


def report(batches: int = 120, place: Path | None = None) -> Iterator[str]:
    """Medians over batches of a hundred rows, without the first ten batches, in which Spark and Java warm up."""
    spark = make_session("overhead", master="local[2]")
    batches = max(batches, _COLD + 5)
    seen: list[BatchProgress] = []
    queries: list[StreamingQuery] = []

    def on_batch(progress: BatchProgress) -> None:
        seen.append(progress)
        if not queries:
            queries.extend(spark.streams.active or pipeline.spark.streams.active)

    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        files = SensorFiles.write(Path(temporary) / "in", batches, batches, rate=50)
        pipeline = Pipeline(
            "overhead", Path(temporary) / "state", script=windows_script(UNIFORM), spark=spark, on_batch=on_batch
        )
        files.read_by(pipeline)
        pipeline.drain()
        floor = sorted(one["triggerExecution"] for one in _triggers(_idle(pipeline, files, Path(temporary) / "idle")))
    triggers = _triggers(queries[0])
    steps = seen[_COLD:batches]
    whole = sorted(one["triggerExecution"] for one in triggers)
    yield f"{len(whole)} batches of about 100 rows, seven windows, local[2]; medians in ms"
    yield f"  a batch, from trigger to commit {statistics.median(whole):>6.0f}   (goal {_GOAL} or less; {_tail(whole)})"
    for part in _PARTS:
        yield f"    {part:<29} {statistics.median(one.get(part, 0) for one in triggers):>6.0f}"
    yield f"  of which our step, in addBatch  {_ms(one.seconds for one in steps):>6.0f}"
    for part in steps[0].split:
        yield f"    {part:<29} {_ms(one.split[part] for one in steps):>6.0f}"
    yield f"  Spark alone, doing nothing      {statistics.median(floor):>6.0f}   (next in the same session, same files)"


def _idle(pipeline: Pipeline, files: SensorFiles, place: Path) -> StreamingQuery:
    """The same files read by a query that does nothing with them: Spark's own time per batch."""
    left, right = (
        pipeline.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").parquet(files.path(name))
        for name in STREAMS
    )
    writer = left.unionAll(right).writeStream.foreachBatch(lambda _rows, _batch: None)
    query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def _triggers(query: StreamingQuery) -> list[dict[str, Any]]:
    found = [json.loads(one.json)["durationMs"] for one in query.recentProgress]
    return [one for one in found if "addBatch" in one][_COLD:]


def _ms(seconds: Any) -> float:
    return float(statistics.median(seconds)) * 1000


def _tail(whole: list[int]) -> str:
    return f"nine in ten within {whole[len(whole) * 9 // 10]}"
