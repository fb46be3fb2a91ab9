"""Streams on disk, a file per stream and batch, which every contestant can read; and the answers they are checked by.

DuckDB computes the correct answer of a query from the same files: the text of the query, with its window written as
comparisons of the time columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from millstream import sql
from millstream.errors import Errors, InternalError
from millstream.model.query import Query, TimeWindow
from millstream.model.script import Script
from millstream.model.types import Family
from millstream.pipeline import Pipeline
from millstream.testing.on_spark import write_batches

_QUERY = re.compile(r"CREATE QUERY (\w+) AS\s+(SELECT .*?)\s+WINDOW [^;]*;", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Answer:
    """The results of a query: the number of rows, and a checksum that does not depend on their order."""

    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """Streams under a folder, one file per batch each."""

    folder: Path
    batches: int
    streams: tuple[str, ...]

    @classmethod
    def save(cls, folder: Path, script: str, tables: Mapping[str, Sequence[pa.Table]]) -> StreamFiles:
        """Writes the batches of the streams that a script declares."""
        count = max(map(len, tables.values()))
        for stream in declared(script).streams:
            write_batches(folder / stream.name, stream, tables[stream.name], count)
        return cls(folder, count, tuple(tables))

    def path(self, stream: str) -> str:
        return str(self.folder / stream)

    def read_by(self, pipeline: Pipeline) -> None:
        """Makes a pipeline read these files, one of each stream in a batch."""
        for stream in self.streams:
            pipeline.read(stream, "parquet", path=self.path(stream), maxFilesPerTrigger="1")

    def rows(self) -> int:
        return int(one_row(f"SELECT count(*) FROM '{self.folder}/*/*.parquet'")[0])

    def table(self, stream: str) -> str:
        """A stream as DuckDB reads it."""
        return f"read_parquet('{self.path(stream)}/*.parquet')"

    def views(self) -> str:
        """Statements that make all streams known to DuckDB."""
        return "".join(f"CREATE VIEW {name} AS SELECT * FROM {self.table(name)};\n" for name in self.streams)


def answers_to(files: StreamFiles, script: str) -> dict[str, Answer]:
    """The correct answers to all queries of a script."""
    found = {}
    for query, select in duckdb_selects(script).items():
        sums = f"SELECT count(*), {checksum(query)} FROM ({select})"
        found[query.name] = _answer(*one_row(sums, before=files.views()))
    return found


def answers_in(results: Path, script: str, folder: str = "{}") -> dict[str, Answer]:
    """The answers a contestant has written, a folder for each query."""
    found = {}
    for query in declared(script).queries:
        place = results / folder.format(query.name)
        if any(place.glob("*.parquet")):
            found[query.name] = _answer(*one_row(f"SELECT count(*), {checksum(query)} FROM '{place}/*.parquet'"))
        else:
            found[query.name] = Answer(0, 0)
    return found


def checksum(query: Query) -> str:
    """Over whole rows. Time columns count in microseconds, since their type in a file depends on the writer."""
    row = (f"epoch_us({one.name})" if one.expr.type.family == Family.TIME else one.name for one in query.outputs)
    return f"sum(hash({', '.join(row)})::HUGEINT)"


def duckdb_selects(script: str) -> dict[Query, str]:
    """Each query as DuckDB understands it. Queries have a WHERE or no condition after their last ON, and a WINDOW."""
    queries = {query.name: query for query in declared(script).queries}
    found = {}
    for name, text in _QUERY.findall(script):
        joint = "AND" if " WHERE " in " ".join(text.split()) else "WHERE"
        found[queries[name]] = f"{text} {joint} {_within(queries[name])}"
    if len(found) != len(queries):
        raise InternalError(f"{len(queries) - len(found)} queries are not written as DuckDB's are made from")
    return found


def _within(query: Query) -> str:
    if not isinstance(query.window, TimeWindow):
        raise InternalError("windows of rows have no DuckDB text")
    times = [f"epoch_us({source.alias}.{source.stream.time})" for source in query.sources]
    return " AND ".join(
        f"{times[one.right]} - {times[one.left]} BETWEEN {one.interval.lo} AND {one.interval.hi - 1}"
        for one in query.window.bounds
    )


def declared(script: str) -> Script:
    errors = Errors()
    found = sql.read(script, errors)
    errors.raise_if_any()
    return found


def one_row(query: str, before: str = "") -> tuple[Any, ...]:
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = 'UTC';\n{before}")
        rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
    return rows[0]


def _answer(rows: int, total: int | None) -> Answer:
    return Answer(rows, int(total or 0))
