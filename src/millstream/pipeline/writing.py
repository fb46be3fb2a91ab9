"""How the rows of a batch are written by each kind of external sink."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.column import Column

from millstream.engine.blame import cause_of
from millstream.engine.files import Files
from millstream.errors import QueryFailed
from millstream.pipeline.kafka import PATIENCE, check_servers
from millstream.pipeline.manifest import PublishedFile
from millstream.pipeline.sinks import Callback, External
from millstream.pipeline.sources import quoted

_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_JSON = {**_TIMES, "ignoreNullFields": "false"}
_MESSAGE = ("key", "value", "headers", "topic", "partition")
_LOSSLESS = {"json": _JSON, "csv": _TIMES}
"""Options without which microseconds, and columns that are null, would be left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows that a query gave in a batch, in files of the outbox, sorted by name."""

    spark: SparkSession
    query: str
    batch: int
    finals: tuple[PublishedFile, ...]

    def frame(self) -> DataFrame:
        return self.spark.read.parquet(*(f"{final.folder}/{final.name}" for final in self.finals))

    def number(self) -> Column:
        """The number of a row, from 0: the same whenever the batch is delivered."""
        starts: list[Column] = []
        count = 0
        for final in self.finals:
            files = Files.at(final.folder)
            starts += [sf.lit(final.name), sf.lit(count)]
            count += pq.read_metadata(files.path(final.name), filesystem=files.system).num_rows
        return sf.create_map(*starts)[sf.col("_metadata.file_name")] + sf.col("_metadata.row_index")


def call(query: str, callback: Callback, batch: int, finals: Sequence[PublishedFile]) -> None:
    tables = []
    for final in finals:
        files = Files.at(final.folder)
        tables.append(pq.read_table(files.path(final.name), filesystem=files.system))
    try:
        callback(batch, pa.concat_tables(tables))
    except (Exception, SystemExit) as error:  # the user's own code may fail in any way
        raise QueryFailed([query], f"callback: {cause_of(error)}") from error


def write(sink: External, batch: int, rows: Mapping[str, Rows], app: str) -> None:
    """Writes a batch of one query, or of several that share a folder. `app` is the same whenever it is written."""
    options = {**_LOSSLESS.get(sink.format, {}), **sink.writer_options}
    if sink.format == "console":
        for query, one in rows.items():
            sys.stdout.write(f"batch {batch}, query {query}\n")
            one.frame().show(truncate=False)
    elif sink.format == "memory":
        for one in rows.values():
            _keep(one)
    elif sink.is_files:
        # A folder per batch, overwritten if it exists, makes the write idempotent.
        path = options.pop("path")
        whole = reduce(_beside, (one.frame() for one in rows.values()))
        whole.write.format(sink.format).options(**options).mode("overwrite").save(f"{path}/batch={batch:08}")
    else:
        for one in rows.values():
            _append(sink, one, options, app)


def _append(sink: External, rows: Rows, options: dict[str, str], app: str) -> None:
    frame, table = rows.frame(), None
    if sink.format == "kafka":
        lower = {name.lower(): value for name, value in options.items()}
        check_servers(f"query {rows.query}", lower["kafka.bootstrap.servers"])
        options = options if PATIENCE.keys() & lower.keys() else {**PATIENCE, **options}
        frame = _messages(rows, sink.key)
    if sink.format == "delta":
        options |= {"txnAppId": app, "txnVersion": str(rows.batch)}
        table = options.pop("table", None)
    writer = frame.write.format(sink.format).options(**options).mode("append")
    if table is None:
        writer.save()
    else:
        writer.saveAsTable(table)


def _keep(rows: Rows) -> None:
    """Adds the rows to a view named like the query; a batch that is there already is replaced."""
    spark, name = rows.spark, rows.query
    before = spark.table(name) if spark.catalog.tableExists(name) else None
    found = rows.frame().withColumn("_batch", sf.lit(rows.batch))
    if before is not None:
        found = before.filter(sf.col("_batch") != rows.batch).unionAll(found)
    found.localCheckpoint().createOrReplaceTempView(name)


def _messages(rows: Rows, key: Sequence[str]) -> DataFrame:
    """The messages for Kafka: `value` where the query selects one, else all columns as JSON.

    Headers have the query, the batch and the number of the row, by which a reader knows a message that comes twice.
    """
    frame = rows.frame()
    own = [name for name in frame.columns if name in _MESSAGE] if "value" in frame.columns else []
    made = {name: sf.col(name) for name in own}
    made.setdefault("value", _as_json(frame.columns))
    made.setdefault("headers", _headers(rows))
    if key:
        made["key"] = sf.col(quoted(key[0])) if len(key) == 1 else _as_json(key)
        if dict(frame.dtypes)[key[0]] != "binary":
            made["key"] = made["key"].cast("string")
    if "topic" in frame.columns:
        made["topic"] = sf.col("topic")
    return frame.select(*(value.alias(name) for name, value in made.items()))


def _headers(rows: Rows) -> Column:
    values = {"query": sf.lit(rows.query), "batch": sf.lit(rows.batch), "row": rows.number()}
    return sf.array(
        *(
            sf.struct(sf.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
            for name, value in values.items()
        )
    )


def _as_json(names: Sequence[str]) -> Column:
    return sf.to_json(sf.struct(*(sf.col(quoted(name)) for name in names)), _JSON)


def _beside(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)
