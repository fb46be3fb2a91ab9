"""External sinks: Spark's writers and Python callbacks, which get the results of committed batches.

Slots write such a query's rows to the outbox. Once the batch is committed each sink gets them as one DataFrame or
table, and the files are deleted when the sink has returned. After a crash in between, the sink gets the whole batch
again. Here are the options of sinks, and what is wrong with them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from millstream.engine.files import Files
from millstream.errors import ScriptError, did_you_mean, listing
from millstream.model import duration
from millstream.model.query import Query
from millstream.model.script import Script
from millstream.model.stream import Stream, check_hint
from millstream.model.types import STRING, Family
from millstream.pipeline.connectors import missing_package
from millstream.pipeline.kafka import check_topics
from millstream.pipeline.locations import is_read, located
from millstream.pipeline.manifest import StagedFile
from millstream.pipeline.results import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Callback = Callable[[int, pa.Table], None]
"""Takes the number of a batch and the rows it gave. It may see a batch again after a crash, under the same number."""

_FILES = ("csv", "json", "orc", "avro", "text", "xml")
_KNOWN = ("parquet", *_FILES, "delta", "kafka", "console", "memory", "noop", "jdbc", "iceberg")
_OURS = ("format", "results", "compression", "weight")
_RETRY, _FOREVER = "1 minute", "forever"
_READ_BY_US = ("path", "table")
_MESSAGE = {"key": ("STRING", "BINARY"), "value": ("STRING", "BINARY"), "topic": ("STRING",)}
_CODECS = {
    "parquet": ("lz4", "snappy", "zstd", "gzip", "brotli", "none"),
    **dict.fromkeys(("csv", "json", "text", "xml"), ("none", "bzip2", "deflate", "gzip", "lz4", "snappy")),
    "orc": ("none", "snappy", "zlib", "lzo", "zstd", "lz4", "brotli"),
    "avro": ("uncompressed", "deflate", "snappy", "bzip2", "xz", "zstandard"),
}


@dataclass(frozen=True, slots=True)
class External:
    """An external sink. Queries with equal sinks share a write."""

    format: str
    options: tuple[tuple[str, str], ...]

    @property
    def is_files(self) -> bool:
        """Whether it writes files, with a folder for every batch."""
        return self.format in _FILES

    @property
    def retry(self) -> int | None:
        """For how many microseconds a failing sink is tried again; None for as long as it takes."""
        given = self._ours().get("retry", _RETRY)
        return None if given.lower() == _FOREVER else duration.parse(given)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that are the key of a Kafka message."""
        return tuple(name.strip() for name in self._ours().get("key", "").split(",") if name.strip())

    @property
    def writer_options(self) -> dict[str, str]:
        """The options that go to Spark's writer."""
        return {name: value for name, value in self.options if name.lower() not in self._ours()}

    def _ours(self) -> dict[str, str]:
        known = ("retry", "key") if self.format == "kafka" else ("retry",)
        return {name.lower(): value for name, value in self.options if name.lower() in known}

    @property
    def exactly_once(self) -> bool:
        """Whether a batch that is delivered twice is written once."""
        return self.is_files or self.format in ("delta", "noop", "memory")


@dataclass(frozen=True, slots=True)
class Sinks:
    """The sink of each query; queries in neither mapping have Parquet files of our own."""

    external: Mapping[str, External]
    callbacks: Mapping[str, Callback]

    def warnings(self) -> list[str]:
        """Messages about sinks that are not exactly once."""
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


def external_of(query: Query, base: str = "") -> External | None:
    """The sink named by a query's options, or None for Parquet files of our own. A relative path counts from `base`."""
    options = {name.lower(): value for name, value in query.options}
    kind = options.get("format", "parquet").lower()
    _check_options(query, kind, options)
    if kind == "parquet":
        return None
    # Spark's option names are case-insensitive; those that are read here become lower case.
    given = [(name.lower() if name.lower() in _READ_BY_US else name, value) for name, value in query.options]
    rest = ((name, value) for name, value in located(tuple(given), base) if name.lower() not in ("format", "results"))
    return External(kind, tuple(sorted(rest)))


def wrong_sinks(script: Script, base: str = "") -> list[ScriptError]:
    """The errors in sinks that can be found without Spark."""
    found: list[ScriptError] = []
    writers: dict[str, Query] = {}
    for query in script.queries:
        try:
            sink = external_of(query, base)
            folder = folder_of(query, base)
            if folder is not None:
                check_not_read(query, folder, script.streams, base)
                first = writers.setdefault(folder, query)
                if external_of(first, base) != sink or not _same_types(first, query):
                    raise ScriptError(
                        f"{query.name} and {first.name} write to '{folder}' in different ways",
                        "queries may share a path if format, options and the types of columns of one name are the same",
                        "Give one of them another path.",
                        query.where,
                    )
        except ScriptError as error:
            found.append(error)
    return found


def check_not_read(query: Query, folder: str, streams: Iterable[Stream], base: str) -> None:
    """Refuses a query that writes to the folder of a stream, since it would read its own results."""
    for stream in streams:
        if is_read(folder, located(stream.options, base)):
            raise ScriptError(
                f"{query.name} writes to '{folder}', where stream {stream.name} reads",
                "results would come back as rows, and make ever more of them",
                "Give the query another path.",
                query.where,
            )


def _same_types(one: Query, other: Query) -> bool:
    """Whether columns of one name have one type, so that rows of both can be read as one table."""
    kinds = {output.name.lower(): output.expr.type for output in one.outputs}
    return all(kinds.get(output.name.lower(), output.expr.type) == output.expr.type for output in other.outputs)


def check_formats(spark: SparkSession, queries: Iterable[Query], base: str, tell: Callable[[str], None]) -> None:
    """Asks Spark for every format, and Kafka for its topics, before anything runs."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if spark._jvm is None:
        raise RuntimeError("Spark has been stopped")
    sources = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource
    for query in queries:
        sink = external_of(query, base)
        if sink is None or sink.format in ("memory", "console"):  # these are implemented here
            continue
        try:
            sources.lookupDataSource(sink.format, spark._jsparkSession.sessionState().conf())
        except (PySparkException, Py4JJavaError) as error:
            missing = missing_package(sink.format)
            if missing is not None:
                raise missing.at(query.where) from None
            said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
            raise ScriptError(
                f"Spark knows no format '{sink.format}' ({str(said).splitlines()[0]})",
                "format and options of a query go to Spark's writer as they are",
                "Correct the format, or give Spark the package it is in.",
                query.where,
            ) from None
        if sink.format == "kafka":
            check_topics(spark, f"query {query.name}", {name.lower(): value for name, value in sink.options}, tell)


def folder_of(query: Query, base: str) -> str | None:
    """The folder outside the directory that a query's files go to, if it names one."""
    options = {name.lower(): value for name, value in located(query.options, base)}
    return options.get("path") if options.get("format", "parquet").lower() in ("parquet", *_FILES) else None


def _check_options(query: Query, kind: str, options: Mapping[str, str]) -> None:
    def refuse(found: str, valid: str, todo: str) -> ScriptError:
        return ScriptError(found, valid, todo, query.where)

    near = difflib.get_close_matches(kind, _KNOWN, n=1, cutoff=0.66)
    if kind not in _KNOWN and near:
        raise refuse(f"format = '{kind}'", f"formats of Spark's are {', '.join(_KNOWN)}", f'Did you mean "{near[0]}"?')
    if kind == "parquet" and query.name.lower() == "shared":
        valid = "results/shared/ holds the rows that queries share"
        raise refuse(f'a query named "{query.name}"', valid, "Choose another name.")
    if not options.get("path", "given").strip():
        raise refuse("path = ''", "a path names a folder", "Name one, or leave it out.")
    results = options.get("results", "own").lower()
    if results not in ("own", "shared"):
        raise refuse(f"results = '{results}'", "it is 'own' or 'shared'", "Choose one.")
    compression, codecs = options.get("compression", "").lower(), _CODECS.get(kind)
    if compression and codecs and compression not in codecs:
        raise refuse(f"compression = '{compression}'", f"it is one of {', '.join(codecs)}", "Choose one.")
    if kind == "parquet":
        unknown = [name for name, _ in query.options if name.lower() not in (*_OURS, "path")]
        if unknown:
            valid = "a query with Parquet results knows path, compression, results and weight"
            raise refuse(f"option {unknown[0]}", valid, "Remove it, or name another format.")
    elif results == "shared":
        raise refuse(f"results = 'shared' with format = '{kind}'", "Parquet files are shared", "Remove one of the two.")
    missing = _missing(query, kind, options)
    if missing:
        raise refuse(f"format = '{kind}' without {missing}", f"a {kind} sink needs it", "Add it to WITH.")
    retry = options.get("retry", _FOREVER)
    if retry.lower() != _FOREVER:
        try:
            check_hint("delay", duration.parse(retry))
        except ScriptError as error:
            valid = "it says how long a sink that fails is tried again: a length of time, or 'forever'"
            raise refuse(f"retry = '{retry}': {error.found}", valid, "Write for example '5 minutes'.") from None
    _check_columns(query, kind)
    _check_key(query, kind, options)


def _check_key(query: Query, kind: str, options: Mapping[str, str]) -> None:
    if kind != "kafka" or "key" not in options:
        return
    columns = [output.name for output in query.outputs]
    names = [name.strip() for name in options["key"].split(",")]
    unknown = [name for name in names if name not in columns]
    if unknown:
        found, valid = f"key = '{options['key']}'", f"the key is made of columns of the query: {listing(columns)}"
        raise ScriptError(found, valid, did_you_mean(unknown[0], columns, "Name one of these."), query.where)
    if "value" in columns and "key" in columns and names != ["key"]:
        found, valid = "a column key, and an option key", "a message has one key"
        raise ScriptError(found, valid, "Leave one of both out.", query.where)


def _missing(query: Query, kind: str, options: Mapping[str, str]) -> str:
    """The required option that is missing for a format, if any."""
    columns = {output.name for output in query.outputs}
    if kind in _FILES and "path" not in options:
        return "a path"
    if kind == "delta" and not options.keys() & {"path", "table"}:
        return "a path or a table"
    if kind == "kafka" and "kafka.bootstrap.servers" not in options:
        return "kafka.bootstrap.servers"
    if kind == "kafka" and "topic" not in options and "topic" not in columns:
        return "a topic, or a column of that name"
    return ""


def _check_columns(query: Query, kind: str) -> None:
    """Refuses types that a format cannot hold; Spark would report them only when it writes."""
    if kind == "text" and [output.expr.type for output in query.outputs] != [STRING]:
        valid = "a line of text is one STRING column"
        raise ScriptError(f"{query.name} selects something else", valid, "Select it, or take csv.", query.where)
    whole = "value" not in {output.name for output in query.outputs}
    for output in query.outputs:
        # Without a `value` column the message is all columns as JSON, of any type.
        kinds = _MESSAGE.get(output.name) if kind == "kafka" and not (whole and output.name == "key") else None
        if kinds and str(output.expr.type) not in kinds:
            found = f"column {output.name} is {output.expr.type}"
            raise ScriptError(found, f"in a message it is {' or '.join(kinds)}", "Use CAST, or rename it.", query.where)
        if kind == "csv" and output.expr.type.family == Family.NESTED:
            found, valid = f"column {output.name} is {output.expr.type}", "csv holds plain values"
            raise ScriptError(found, valid, "Select its parts, or take json.", query.where)


def left_over(outputs: Iterable[StagedFile], sinks: Sinks, location: str) -> list[str]:
    """The queries with rows in the outbox that no sink takes: those that are gone, or that have no sink any more."""
    finals = [final for output in outputs for final in output.finals if final.folder.startswith(f"{location}/outbox/")]
    return sorted({one.query for one in finals if not sinks.takes(one.query) and Files.at(one.folder).has(one.name)})


def outbox(query: Query, place: str) -> Target:
    return Target(query.name, f"{place}/outbox/{query.name}", compression="lz4")
