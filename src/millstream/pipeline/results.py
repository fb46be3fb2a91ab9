"""Results as files: written by the slots under staged names, made visible by the driver once the batch is committed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.engine.files import Files
from millstream.model.query import Query
from millstream.pipeline.manifest import Output

_ENOUGH = 1 << 17
_PINS = 8


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows under one name go: a folder, and how its files are written."""

    name: str
    folder: str
    compression: str = "lz4"


def target_of(query: Query, results: str) -> Target:
    """The folder of a query's own results."""
    options = {name.lower(): value for name, value in query.options}
    return Target(query.name, options.get("path") or f"{results}/{query.name}", options.get("compression", "lz4"))


@dataclass(slots=True)
class _Open:
    staged: str
    final: str
    files: Files
    writer: pq.ParquetWriter
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    held: int = 0
    rows: int = 0


class Writer:
    """The files of one slot in one batch. Names of staged files begin with a dot, so that no reader takes them up."""

    def __init__(self, batch: int, slot: int, token: str) -> None:
        self._label = f"{batch:08}-{slot:03}"
        self._token = token
        self._open: dict[str, _Open] = {}
        self._targets: dict[str, Target] = {}

    def write(self, target: Target, rows: pa.RecordBatch) -> None:
        """Rows are gathered to a good size for a file's row group first."""
        file = self._open.get(target.name) or self._begin(target, rows.schema)
        # A small view of a large chunk would keep the whole chunk in memory until it is written.
        small = rows.num_rows * _PINS < _ENOUGH
        file.waiting.append(_copied(rows) if small else rows)
        file.held += rows.num_rows
        if file.held >= _ENOUGH:
            _flush(file)

    def close(self) -> list[Output]:
        """Every file, complete."""
        found = []
        for name, file in self._open.items():
            _flush(file)
            file.writer.close()
            found.append(Output(name, self._targets[name].folder, file.staged, file.final, file.rows))
        return found

    def _begin(self, target: Target, schema: pa.Schema) -> _Open:
        files = Files.at(target.folder)
        files.make()
        final = f"{target.name.rsplit('/', 1)[-1]}-{self._label}.parquet"
        staged = f".{final}.{self._token}"
        words = [one.name for one in schema if pa.types.is_string(one.type) or pa.types.is_binary(one.type)]
        writer = pq.ParquetWriter(
            files.path(staged),
            schema,
            filesystem=files.system,
            compression=target.compression,
            # Dictionaries of numbers that hardly repeat cost more time than they save space.
            use_dictionary=words or False,
        )
        self._targets[target.name] = target
        self._open[target.name] = _Open(staged, final, files, writer)
        return self._open[target.name]


def _flush(file: _Open) -> None:
    if file.waiting:
        for rows in pa.Table.from_batches(file.waiting).combine_chunks().to_batches():
            file.writer.write_batch(rows)
    file.rows += file.held
    file.waiting, file.held = [], 0


def _copied(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.take(pa.array(range(rows.num_rows), pa.int32())) if rows.num_rows < 64 else _deep(rows)


def _deep(rows: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()
