"""A look at the sources of a script before it runs: what is there, whether it fits, and how many rows could be used.

Rows of a sample are judged as the engine judges them, in the batches in which Spark would read their files. The
watermark is that of the stream alone: a join waits for the slowest of its streams, so that fewer rows may be late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from millstream.engine.arrow import conform, microseconds
from millstream.engine.judge import UNREAD, Late, Limits, judged
from millstream.engine.watermark import NEVER, StreamClock
from millstream.model.known_options import FILE_FORMATS, format_of
from millstream.model.stream import Stream
from millstream.pipeline.likely import BEHIND, Evidence, likely_reason
from millstream.pipeline.sources import CORRUPT, refused, rows_of, united

_MOST_FILES, _MOST_BYTES, _MOST_ROWS = 100, 1 << 25, 100_000
_NOT_SAMPLED = ("rate", "rate-micro-batch", "socket")
_INFERRED = {"csv": {"inferSchema": "true"}}
_FILE = "\x01file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a stream's source holds. `found` are its columns with their types, as far as they show; `late` counts the
    unusable rows of the sample by reason, and `alone` how many would be late if every file came as a batch of its own.
    """

    stream: Stream
    files: int = 0
    sampled: int = 0
    rows: int | None = None
    found: tuple[tuple[str, str], ...] = ()
    first: int | None = None
    last: int | None = None
    late: Mapping[str, int] = field(default_factory=dict)
    alone: int = 0
    likely: str = ""

    @property
    def differences(self) -> list[str]:
        """Where the declaration and the source differ, in words."""
        have = {name.lower(): kind for name, kind in self.found}
        if not have:
            return []
        told = []
        for column in self.stream.columns:
            kind = have.pop(column.name.lower(), None)
            if kind is None:
                told.append(f"{column.name} is declared and not found")
            elif not _may_be(kind, str(column.type), format_of(self.stream.options)):
                told.append(f"{column.name} is declared as {column.type} and looks like {kind}")
        undeclared = [f"{name} {kind}" for name, kind in self.found if name.lower() in have]
        return [*told, *([f"not declared, and not read: {', '.join(undeclared)}"] if undeclared else [])]


def _may_be(found: str, declared: str, format_: str) -> bool:
    """Whether values that look like one type may be of another: what is inferred from text is the widest type."""
    if found == declared or {found, declared} == {"TIMESTAMP", "TIMESTAMP_NTZ"}:
        return True
    if format_ in ("parquet", "orc", "avro"):
        return False
    whole = found in ("INT", "BIGINT") and declared in ("TINYINT", "SMALLINT", "INT", "BIGINT")
    number = found in ("INT", "BIGINT", "DOUBLE") and (
        declared in ("FLOAT", "DOUBLE") or declared.startswith("DECIMAL")
    )
    text = found == "STRING" and declared in ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "BINARY")
    return whole or number or text or declared == "STRING" or "<" in declared


def look(spark: SparkSession, stream: Stream, future: int) -> Look:
    """Opens a stream's source, which raises what a start would raise, and reads a sample of its rows."""
    united(spark, [stream], {})
    kind = format_of(stream.options)
    try:
        if kind in FILE_FORMATS:
            return _files(spark, stream, kind, future)
        if kind in _NOT_SAMPLED:
            return Look(stream=stream)
        return _source(spark, stream, future)
    except (PySparkException, Py4JJavaError) as error:
        raise refused(stream, error) from None


def _files(spark: SparkSession, stream: Stream, kind: str, future: int) -> Look:
    options = {name.lower(): value for name, value in stream.options}
    listing = {name: value for name, value in options.items() if name in ("pathglobfilter", "recursivefilelookup")}
    listed = spark.read.format("binaryFile").options(**listing).load(options["path"])
    files = sorted(tuple(row) for row in listed.select("modificationTime", "path", "length").collect())
    if options.get("latestfirst", "").lower() == "true":
        files.reverse()
    chosen: list[str] = []
    total = 0
    for _, path, length in files[:_MOST_FILES]:
        if chosen and total + length > _MOST_BYTES:
            break
        chosen.append(path)
        total += length
    if not chosen:
        return Look(stream=stream)
    frame = rows_of(spark.read, stream, chosen).withColumn(_FILE, sf.col("_metadata.file_path"))
    table = _table(frame)
    position = {_plain(path): number for number, path in enumerate(chosen)}
    of_file = [position.get(_plain(name), 0) for name in table.column(_FILE).to_pylist()]
    by_file = [_rows(stream, table.filter(pa.array([one == n for one in of_file]))) for n in range(len(chosen))]
    size = int(options.get("maxfilespertrigger") or len(chosen))
    batches = [pa.concat_tables(by_file[first : first + size]) for first in range(0, len(chosen), size)]
    found = {**options, **_INFERRED.get(kind, {})}
    inferred = spark.read.format(kind).options(**{k: v for k, v in found.items() if k not in ("path", "format")})
    columns = [(one.name, one.dataType.simpleString().upper()) for one in inferred.load(chosen).schema.fields]
    if kind == "csv" and options.get("header", "").lower() != "true":  # columns go by their position
        names = [column.name for column in stream.columns]
        columns = [(names[n] if n < len(names) else name, one) for n, (name, one) in enumerate(columns)]
    looked = Look(
        stream=stream,
        files=len(files),
        sampled=len(chosen),
        rows=table.num_rows,
        found=tuple(columns),
        alone=_judged(stream, by_file, future).counts.get(BEHIND, 0),
    )
    return _with_lateness(looked, batches, future)


def _source(spark: SparkSession, stream: Stream, future: int) -> Look:
    """The first rows of another source, as far as it can be read as a table."""
    table = _table(rows_of(spark.read, stream, None).limit(_MOST_ROWS))
    return _with_lateness(Look(stream=stream, rows=table.num_rows), [_rows(stream, table)], future)


def _with_lateness(looked: Look, batches: Sequence[pa.Table], future: int) -> Look:
    stream = looked.stream
    times = pa.chunked_array([one for batch in batches for one in batch.column(stream.time).chunks] or [[]])
    known = pc.min_max(times.drop_null().cast(pa.int64())) if len(times) - times.null_count else None
    evidence = _judged(stream, batches, future)
    return replace(
        looked,
        first=known["min"].as_py() if known else None,
        last=known["max"].as_py() if known else None,
        late=evidence.counts,
        likely=likely_reason(stream, evidence) if evidence.counts else "",
    )


def _judged(stream: Stream, batches: Sequence[pa.Table], future: int) -> Evidence:
    """The rows that could not be used if these batches came one after the other."""
    clock = StreamClock(stream)
    late: list[Late] = []
    for batch in batches:
        limits = Limits(clock.horizon(future), [(stream.name, clock.watermark)])
        for part in batch.combine_chunks().to_batches():
            rows, found = judged(stream, part, limits)
            late += found
            if rows.num_rows:
                clock.saw(int(microseconds(rows.column(stream.time)).max()))
    return evidence_of(stream, late, clock.greatest)


def evidence_of(stream: Stream, late: Sequence[Late], greatest: int = NEVER) -> Evidence:
    counts: Counter[str] = Counter()
    texts: list[str] = []
    times: dict[str, tuple[int, int]] = {}
    for part in late:
        counts[part.reason] += part.rows.num_rows
        if part.text is not None:
            texts += part.text[:3].to_pylist()
        known = part.rows.column(stream.time).drop_null()
        if len(known):
            low, high = int(microseconds(known).min()), int(microseconds(known).max())
            first, last = times.get(part.reason, (low, high))
            times[part.reason] = min(low, first), max(high, last)
    return Evidence(counts=counts, texts=texts[:3], times=times, greatest=greatest)


def _rows(stream: Stream, table: pa.Table) -> pa.Table:
    """The declared columns, and the text of rows that do not parse."""
    rows = conform(stream, table)
    if CORRUPT in table.column_names and stream.find(CORRUPT) is None:
        rows = rows.append_column(UNREAD, table.column(CORRUPT).cast(pa.string()))
    return rows


def _table(frame: DataFrame) -> pa.Table:
    table = frame.toArrow()
    return table if isinstance(table, pa.Table) else pa.Table.from_batches(table)


def _plain(path: str) -> str:
    """A path without what differs between the ways in which Spark writes it."""
    return path.split(":", 1)[-1].lstrip("/")
