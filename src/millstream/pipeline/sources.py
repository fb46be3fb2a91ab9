"""From declared streams to one streaming DataFrame.

A row has the number of its stream, and its values in the columns of the layout. Rows that do not parse have their text
in `bad`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyarrow import parquet
from pyspark.errors import AnalysisException, PySparkException, PySparkTypeError
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types
from pyspark.sql.column import Column
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.readwriter import DataStreamReader

from millstream.errors import ScriptError, Where
from millstream.model.known_options import FILE_FORMATS
from millstream.model.stream import Stream, StreamColumn
from millstream.pipeline.connectors import missing_package
from millstream.pipeline.kafka import RECORD, check_topics
from millstream.pipeline.layout import BAD, STREAM, Layout
from millstream.pipeline.preflight import UNITS, check_path

CORRUPT = "_corrupt_record"
_MAY_BE_CORRUPT = ("json", "csv", "xml")
_OURS = ("format", "value", "epoch")
_WITH_TYPES = ("parquet", "orc")
_NUMBER, _MICROS = "DECIMAL(29, 9)", 1_000_000
_NO_VALUE = "(no value)"
_NOT_FOUND = re.compile("Failed to find (the )?data source")


def united(
    spark: SparkSession,
    streams: Sequence[Stream],
    given: Mapping[str, DataFrame],
    tell: Callable[[str], None] = lambda _: None,
) -> DataFrame:
    """All streams as one DataFrame; `given` holds the DataFrames that a user passed."""
    layout = Layout.of(streams)
    parts = []
    for number, stream in enumerate(layout.streams):
        frame = given[stream.name] if stream.name in given else _read(spark, stream, tell)
        bad = sf.col(CORRUPT) if _is_corrupt_column(frame, stream) else sf.lit(None).cast("string")
        own = dict(zip(layout.places[number], _columns(frame, stream), strict=True))
        shared = [
            own[name].cast(kind).alias(name) if name in own else sf.lit(None).cast(kind).alias(name)
            for name, kind in layout.columns
        ]
        parts.append(frame.select(sf.lit(number).alias(STREAM), bad.alias(BAD), *shared))
    return reduce(DataFrame.unionAll, parts)


def _is_corrupt_column(frame: DataFrame, stream: Stream) -> bool:
    """Whether this is Spark's column for rows that do not parse, and not a column of the user's."""
    return CORRUPT in frame.columns and stream.find(CORRUPT) is None


def _columns(frame: DataFrame, stream: Stream) -> list[Column]:
    have = {name.lower(): name for name in frame.columns}
    columns = []
    for column in stream.columns:
        found = have.get(column.name.lower())
        if found is None:
            raise ScriptError(
                f'{stream.name} has no column "{column.name}"',
                f"the source has {', '.join(frame.columns)}",
                "Declare the stream with these columns.",
                Where(),
            )
        value, per_second = sf.col(quoted(found)), _per_second(stream)
        columns.append(_since_1970(value, per_second) if per_second and column.name == stream.time else value)
    return columns


def _read(spark: SparkSession, stream: Stream, tell: Callable[[str], None]) -> DataFrame:
    lower = {name.lower(): value for name, value in stream.options}
    kind = lower.get("format", "parquet").lower()
    check_path(stream)
    try:
        frame = rows_of(spark.readStream, stream)
        if kind == "kafka":
            check_topics(spark, f"stream {stream.name}", lower, tell)
        _check_files(spark, stream, kind, lower, frame.schema)
    except (PySparkException, Py4JJavaError) as error:
        missing = missing_package(kind) if _NOT_FOUND.search(str(error)) else None
        raise missing.at(stream.where) if missing else refused(stream, error) from None
    return frame


def rows_of(
    reader: DataFrameReader | DataStreamReader, stream: Stream, files: Sequence[str] | None = None
) -> DataFrame:
    """The rows of a stream, parsed; of these files alone, or of all its source holds."""
    lower = {name.lower(): value for name, value in stream.options}
    kind = lower.get("format", "parquet").lower()
    reader = reader.format(kind)
    for name, value in stream.options:
        if name.lower() not in (*_OURS, *(() if files is None else ("path",))):
            reader = reader.option(name, value)
    corrupt = kind in _MAY_BE_CORRUPT and "mode" not in lower
    if kind in FILE_FORMATS:
        schema = ", ".join(f"{quoted(column.name)} {_read_type(stream, column, kind)}" for column in stream.columns)
        reader = reader.schema(f"{schema}, {CORRUPT} STRING" if corrupt else schema)
        if corrupt:
            reader = reader.option("columnNameOfCorruptRecord", CORRUPT)
    # A stream's reader cannot be given files.
    frame = reader.load(list(files)) if files is not None and isinstance(reader, DataFrameReader) else reader.load()
    return _parsed(frame, stream) if lower.get("value", "").lower() == "json" else frame


def _parsed(frame: DataFrame, stream: Stream) -> DataFrame:
    """Parses JSON text in the column `value`, as in Kafka topics. Rows without a value do not parse."""
    record = [column for column in stream.columns if RECORD.get(column.name.lower()) in frame.columns]
    inside = [column for column in stream.columns if column not in record]
    schema = ", ".join(f"{quoted(column.name)} {_read_type(stream, column)}" for column in inside)
    text = sf.col("value").cast("string")
    options = {"columnNameOfCorruptRecord": CORRUPT}
    parsed = sf.from_json(text, f"{schema + ', ' if schema else ''}{CORRUPT} STRING", options).alias("parsed")
    beside = [sf.col(RECORD[column.name.lower()]).cast(str(column.type)).alias(column.name) for column in record]
    unread = sf.when(sf.col("text").isNull(), _NO_VALUE).when(sf.col("parsed").isNull(), sf.col("text"))
    return (
        frame.select(parsed, text.alias("text"), sf.struct(*beside, sf.lit(0).alias("0")).alias("record"))
        .select("parsed.*", *(sf.col(f"record.{quoted(column.name)}") for column in record), unread.alias("\x01"))
        .withColumn(CORRUPT, sf.coalesce(CORRUPT, "\x01"))
        .drop("\x01")
    )


def _read_type(stream: Stream, column: StreamColumn, kind: str = "json") -> str:
    """The type a column is read as: a time that is a number is converted later."""
    if column.name != stream.time or _per_second(stream) is None:
        return str(column.type)
    return "BIGINT" if kind in _WITH_TYPES else _NUMBER


def _per_second(stream: Stream) -> int | None:
    """Where the source has numbers since 1970 in the time column: how many of its units are a second."""
    unit = {name.lower(): value for name, value in stream.options}.get("epoch")
    return None if unit is None else UNITS[unit.lower()]


def _since_1970(number: Column, per_second: int) -> Column:
    """Microseconds; null where the number is too large for a time."""
    exact = number.try_cast(_NUMBER)
    scaled = exact * (_MICROS // per_second) if per_second <= _MICROS else exact / (per_second // _MICROS)
    return sf.timestamp_micros(sf.floor(scaled).try_cast("BIGINT"))


def _check_files(
    spark: SparkSession, stream: Stream, kind: str, options: Mapping[str, str], declared: spark_types.StructType
) -> None:
    """Refuses existing files whose own schema does not fit the declaration."""
    if kind not in ("parquet", "orc"):
        return
    try:
        path = options["path"]
        found = _schema_of_footer(kind, path) or spark.read.format(kind).load(path).schema
    except AnalysisException:
        return  # there is no file yet
    have = {field.name.lower(): field.dataType for field in found.fields}
    for field in declared.fields:
        kind_found = have.get(field.name.lower())
        if kind_found is None or not _fits(kind_found, field.dataType):
            shown = "not in the files" if kind_found is None else f"{kind_found.simpleString().upper()} in the files"
            raise ScriptError(
                f"{stream.name}.{field.name} is {shown}",
                f"it is declared as {field.dataType.simpleString().upper()}, and the files in '{options['path']}' have "
                + ", ".join(f"{one.name} {one.dataType.simpleString().upper()}" for one in found.fields),
                "Change the declaration.",
            )


def _schema_of_footer(kind: str, path: str) -> spark_types.StructType | None:
    """The schema of a local folder with Parquet files directly in it, from one footer; Spark would start a job for it.

    None where Spark is needed: other formats and file systems, partitioned folders, unusual types.
    """
    if kind != "parquet" or "://" in path or not Path(path).is_dir():
        return None
    files = (file for file in sorted(Path(path).iterdir()) if file.suffix == ".parquet" and file.name[0] not in "._")
    first = next(files, None)
    try:
        return from_arrow_schema(parquet.read_schema(first)) if first else None
    except (pa.ArrowInvalid, PySparkTypeError):
        return None


_WIDER = {"tinyint": 1, "smallint": 2, "int": 3, "bigint": 4}


def _fits(found: spark_types.DataType, declared: spark_types.DataType) -> bool:
    """Whether Spark's readers convert one type into the other by themselves."""
    one, other = found.simpleString(), declared.simpleString()
    if one in _WIDER and other in _WIDER:
        return _WIDER[one] <= _WIDER[other]
    if {one, other} == {"timestamp", "timestamp_ntz"} or (one, other) in (("float", "double"), ("int", "double")):
        return True
    return one == other or isinstance(found, spark_types.StructType | spark_types.ArrayType | spark_types.MapType)


def refused(stream: Stream, error: PySparkException | Py4JJavaError) -> ScriptError:
    said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
    first = str(said).split("\n", 1)[0]
    return ScriptError(
        f"Spark cannot read stream {stream.name}: {first}",
        "format and options go to spark.readStream as they are",
        "Correct the options in WITH.",
    )


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
