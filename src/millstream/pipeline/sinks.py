"""Where results go besides our own files: Spark's writers and Python callbacks, fed from committed batches.

Slots write such a query's rows to the outbox. Once the batch is committed each sink gets them as one DataFrame or
table, and the files go when it has taken them. After a crash in between it sees the batch again, never half of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.engine.files import Files
from millstream.errors import QueryFailed, ScriptError
from millstream.model.query import Query
from millstream.pipeline.manifest import Final, Output
from millstream.pipeline.results import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Callback = Callable[[int, pa.Table], None]
"""Takes the number of a batch and the rows it gave. It may see a batch again after a crash, under the same number."""

_FILES = ("csv", "json", "orc", "avro", "text", "xml")
_OURS = ("format", "results", "compression")
_COMPRESSION = ("lz4", "snappy", "zstd", "gzip", "brotli", "none")


@dataclass(frozen=True, slots=True)
class External:
    """A sink outside our own files. Queries with equal ones share a write."""

    format: str
    options: tuple[tuple[str, str], ...]

    @property
    def exactly_once(self) -> bool:
        """Whether a batch that comes twice is written once."""
        return self.format in _FILES or self.format in ("delta", "noop", "memory")


@dataclass(frozen=True, slots=True)
class Sinks:
    """Who takes which query's rows; queries in neither mapping have files of their own."""

    external: Mapping[str, External]
    callbacks: Mapping[str, Callback]

    def warnings(self) -> list[str]:
        """What cannot be exactly once, in words."""
        found = [
            f"query {name}: a {sink.format} sink is not idempotent: after a crash it may see its last batch twice"
            for name, sink in self.external.items()
            if not sink.exactly_once
        ]
        return found + [
            f"query {name}: after a crash the callback may see its last batch twice, under the same number"
            for name in self.callbacks
        ]

    def takes(self, query: str) -> bool:
        return query in self.external or query in self.callbacks


def external_of(query: Query) -> External | None:
    """The sink a query's options name, or None for Parquet files of our own."""
    options = {name.lower(): (name, value) for name, value in query.options}
    kind = options.get("format", ("format", "parquet"))[1].lower()
    compression = options.get("compression", ("", "lz4"))[1].lower()
    if compression not in _COMPRESSION and kind == "parquet":
        raise ScriptError(
            f"compression = '{compression}'", f"it is one of {', '.join(_COMPRESSION)}", "Choose one.", query.where
        )
    results = options.get("results", ("", "own"))[1].lower()
    if results not in ("own", "shared"):
        raise ScriptError(f"results = '{results}'", "it is 'own' or 'shared'", "Choose one.", query.where)
    if kind == "parquet":
        unknown = [name for key, (name, _) in options.items() if key not in (*_OURS, "path")]
        if unknown:
            raise ScriptError(
                f"option {unknown[0]}",
                "a query with Parquet results knows path, compression and results",
                "Remove it, or name another format.",
                query.where,
            )
        return None
    return External(kind, tuple(sorted(pair for key, pair in options.items() if key not in _OURS)))


def deliver(
    spark: SparkSession, batch: int, outputs: Iterable[Output], queries: Mapping[str, Query], sinks: Sinks, app: str
) -> None:
    """Hands a committed batch to its sinks and empties the outbox. Raises QueryFailed for a query whose sink raises."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    by_query: dict[str, list[Final]] = {}
    for final in (final for output in outputs for final in output.finals):
        if sinks.takes(final.query) and final.query in queries and Files.at(final.folder).has(final.name):
            by_query.setdefault(final.query, []).append(final)
    shared: dict[External, list[str]] = {}
    for name in by_query:
        if name in sinks.callbacks:
            _call(name, sinks.callbacks[name], batch, by_query[name])
            _empty(by_query[name])
        else:
            shared.setdefault(sinks.external[name], []).append(name)
    for sink, names in shared.items():
        frames = {name: _frame(spark, by_query[name]) for name in names}
        try:
            _write(spark, sink, batch, frames, app)
        except (PySparkException, Py4JError) as error:
            raise QueryFailed(names, f"{sink.format} sink: {str(error).splitlines()[0]}") from error
        for name in names:
            _empty(by_query[name])


def _empty(taken: Iterable[Final]) -> None:
    """At once: where a later sink raises, those before it must not see the batch again."""
    for final in taken:
        Files.at(final.folder).delete(final.name)


def _call(name: str, callback: Callback, batch: int, finals: Sequence[Final]) -> None:
    tables = []
    for final in finals:
        files = Files.at(final.folder)
        tables.append(pq.read_table(files.path(final.name), filesystem=files.system))
    try:
        callback(batch, pa.concat_tables(tables))
    except Exception as error:  # the user's own code may fail in any way
        raise QueryFailed([name], f"callback: {type(error).__name__}: {error}") from error


def _frame(spark: SparkSession, finals: Sequence[Final]) -> DataFrame:
    return spark.read.parquet(*(f"{final.folder}/{final.name}" for final in finals))


def _write(spark: SparkSession, sink: External, batch: int, frames: Mapping[str, DataFrame], app: str) -> None:
    from pyspark.sql import functions as sf

    options = dict(sink.options)
    if sink.format == "console":
        for name, frame in frames.items():
            sys.stdout.write(f"batch {batch}, query {name}\n")
            frame.show(truncate=False)
        return
    if sink.format == "memory":
        for name, frame in frames.items():
            before = spark.table(name) if spark.catalog.tableExists(name) else None
            rows = frame.withColumn("_batch", sf.lit(batch))
            if before is not None:
                rows = before.filter(sf.col("_batch") != batch).unionAll(rows)
            rows.localCheckpoint().createOrReplaceTempView(name)
        return
    if sink.format == "kafka":
        frames = {name: _messages(name, frame) for name, frame in frames.items()}
    whole = _together(list(frames.values()))
    if sink.format in _FILES:
        # A folder per batch, overwritten where it exists, makes a repeated write harmless.
        path = options.pop("path", options.pop("PATH", None))
        whole.write.format(sink.format).options(**options).mode("overwrite").save(f"{path}/batch={batch:08}")
        return
    if sink.format == "delta":
        options |= {"txnAppId": app, "txnVersion": str(batch)}
    whole.write.format(sink.format).options(**options).mode("append").save()


def _messages(name: str, frame: DataFrame) -> DataFrame:
    """What Kafka takes: `key` and `value` as they are where the query selects them, else all columns as JSON."""
    from pyspark.sql import functions as sf

    if "value" in frame.columns:
        return frame
    return frame.select(sf.lit(name).alias("key"), sf.to_json(sf.struct("*")).alias("value"))


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    return whole


def outbox(query: Query, place: str) -> Target:
    return Target(query.name, f"{place}/outbox/{query.name}", "lz4")
