"""A script on rows in memory, run by Spark: every batch is a file per stream, in a temporary directory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema, conform
from millstream.model.functions import Function
from millstream.model.stream import Stream
from millstream.pipeline import Pipeline
from millstream.testing.session import Rows, table_of


def run_on_spark(
    script: str,
    batches: Mapping[str, Sequence[Rows]],
    *,
    functions: Mapping[str, Function] | None = None,
    settings: Mapping[str, str] | None = None,
) -> dict[str, pa.Table]:
    """The results of every query."""
    plan = compile_script(script, functions=functions, settings=settings)
    count = max((len(parts) for parts in batches.values()), default=0)
    with tempfile.TemporaryDirectory(prefix="millstream-") as temporary:
        place = Path(temporary)
        pipeline = Pipeline("test", place / "state", script=script, functions=functions, settings=settings)
        for stream in plan.script.streams:
            folder = place / "in" / stream.name
            write_batches(folder, stream, batches.get(stream.name, ()), count)
            pipeline.read(stream.name, "parquet", path=str(folder), maxFilesPerTrigger="1")
        pipeline.drain()
        return {query.name: pipeline.results(query.name) for query in plan.script.queries}


def write_batches(folder: Path, stream: Stream, batches: Sequence[Rows], count: int) -> None:
    """Writes one file per batch, so that Spark, which reads one file at a time, has the same batches as the test."""
    folder.mkdir(parents=True)
    schema = arrow_schema(stream)
    for number in range(count):
        rows = batches[number] if number < len(batches) else schema.empty_table()
        path = folder / f"{number:06}.parquet"
        pq.write_table(conform(stream, table_of(stream, rows)), path)
        # Spark reads files in the order of their modification times, which must differ.
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
