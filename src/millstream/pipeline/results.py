"""Results as files: written by the slots under staged names, made visible by the driver once the batch is committed.

Rows that several queries get are written once. On a local disk the file is then linked into the folder of each of these
queries; with `results = 'shared'` it stays in one place and every query has a manifest of the folders it is made of.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.engine.arrow import arrow_type
from millstream.engine.files import Files
from millstream.model.query import Query
from millstream.pipeline.manifest import Final, Output

_ENOUGH = 1 << 17
_VIEW = 8
_MANIFEST = "manifest.json"
_STAGED = re.compile(r"\.[0-9a-f]{8}-\d{8,}-\d{3}-\d+\.[0-9a-f]{10}")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a query's rows go: a folder, and how its files are written. `shared` files go to `common` instead."""

    name: str
    folder: str
    compression: str = "lz4"
    shared: bool = False
    common: str = ""

    @property
    def links(self) -> bool:
        """Whether files can be seen in several folders at once."""
        return "://" not in self.folder


def target_of(query: Query, results: str, default: str) -> Target:
    """Where a query's own files go; `default` says whether results are shared where the query does not say."""
    options = {name.lower(): value for name, value in query.options}
    shared = options.get("results", default).lower() == "shared"
    folder = options.get("path") or f"{results}/{query.name}"
    folder = folder if "://" in folder else str(Path(folder).absolute())
    return Target(query.name, folder, options.get("compression", "lz4").lower(), shared, f"{results}/shared")


@dataclass(slots=True)
class _Open:
    """A file being written, with rows that wait to fill a row group."""

    output: Output
    writer: pq.ParquetWriter
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    held: int = 0
    rows: int = 0


class Writer:
    """The files of one slot in one batch. Names of staged files begin with a dot, so that no reader takes them up."""

    def __init__(self, pipeline: str, batch: int, slot: int, token: str) -> None:
        self._label = f"{pipeline}-{batch:08}-{slot:03}"
        self._token = token
        self._open: dict[tuple[Target, ...], _Open] = {}

    def write(self, targets: Sequence[Target], rows: pa.RecordBatch) -> None:
        """Rows that all these get; once for those that can share a file."""
        for together in _together(targets):
            file = self._open.get(together) or self._begin(together, rows.schema)
            # A small view of a large chunk would keep the whole chunk in memory until it is written.
            file.waiting.append(_copied(rows) if rows.get_total_buffer_size() > _VIEW * rows.nbytes else rows)
            file.held += rows.num_rows
            if file.held >= _ENOUGH:
                _flush(file)

    def close(self) -> list[Output]:
        """Every file, complete."""
        found = []
        for file in self._open.values():
            _flush(file)
            file.writer.close()
            done = file.output
            found.append(Output(done.folder, done.staged, done.finals, file.rows, done.shared))
        return found

    def _begin(self, targets: tuple[Target, ...], schema: pa.Schema) -> _Open:
        some, number = targets[0], len(self._open)
        folder = f"{some.common}/{_common_name(targets)}" if some.shared else some.folder
        finals = [Final(one.name, folder if some.shared else one.folder, self._name(one, number)) for one in targets]
        if some.shared:
            finals = [Final(final.query, folder, f"{self._label}-{number}.parquet") for final in finals]
        staged = f".{self._label}-{number}.{self._token}"
        files = Files.at(folder)
        files.make()
        words = [one.name for one in schema if pa.types.is_string(one.type) or pa.types.is_binary(one.type)]
        writer = pq.ParquetWriter(
            files.path(staged),
            schema,
            filesystem=files.system,
            compression=some.compression,
            # Dictionaries of numbers that hardly repeat cost more time than they save space.
            use_dictionary=words or False,
        )
        self._open[targets] = _Open(Output(folder, staged, tuple(finals), 0, some.shared), writer)
        return self._open[targets]

    def _name(self, target: Target, number: int) -> str:
        return f"{target.name.rsplit('/', 1)[-1]}-{self._label}-{number}.parquet"


def _together(targets: Sequence[Target]) -> list[tuple[Target, ...]]:
    """Targets whose rows can be one file."""
    found: dict[object, list[Target]] = {}
    for target in targets:
        alone = not (target.shared or target.links)
        key = target.name if alone else (target.shared, target.compression, target.common if target.shared else "")
        found.setdefault(key, []).append(target)
    return [tuple(some) for some in found.values()]


def _common_name(targets: Iterable[Target]) -> str:
    names = sorted(target.name for target in targets)
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]


def _flush(file: _Open) -> None:
    if file.waiting:
        for rows in pa.Table.from_batches(file.waiting).combine_chunks().to_batches():
            file.writer.write_batch(rows)
    file.rows += file.held
    file.waiting, file.held = [], 0


def _copied(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in memory of their own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


class Publisher:
    """Makes committed files visible. Doing it twice is the same as doing it once."""

    def __init__(self, results: str) -> None:
        self._results = results
        self._known: dict[str, set[str]] = {}

    def publish(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if output.shared:
                self._name_in_manifests(output)
            files = Files.at(output.folder)
            if not files.has(output.staged):
                continue
            places = {(final.folder, final.name) for final in output.finals}
            if len(places) > 1:
                for folder, name in places:
                    _link(files.path(output.staged), Path(folder) / name)
                files.delete(output.staged)
            else:
                files.move(output.staged, next(iter(places))[1])

    def _name_in_manifests(self, output: Output) -> None:
        """Every query of a shared file names the folder it lies in."""
        common = output.folder.rsplit("/", 1)[-1]
        for final in output.finals:
            folder = f"{self._results}/{final.query}"
            if final.query not in self._known:
                self._known[final.query] = set(shared_folders(folder))
            known = self._known[final.query]
            if common not in known:
                known.add(common)
                files = Files.at(folder)
                files.make()
                folders = [f"../shared/{one}" for one in sorted(known)]
                files.write(_MANIFEST, json.dumps({"query": final.query, "folders": folders}, indent=1).encode())


def shared_folders(folder: str) -> list[str]:
    """The names of the shared folders a query's manifest lists."""
    files = Files.at(folder)
    if not files.has(_MANIFEST):
        return []
    return [one.rsplit("/", 1)[-1] for one in json.loads(files.read(_MANIFEST))["folders"]]


def read_results(target: Target, query: Query) -> pa.Table:
    """The committed rows of a query, wherever they lie."""
    import pyarrow.dataset as ds  # brings pandas, which only reading needs

    schema = pa.schema([pa.field(output.name, arrow_type(output.expr.type)) for output in query.outputs])
    paths = result_files(target)
    if not paths:
        return schema.empty_table()
    return ds.dataset(paths, schema=schema, filesystem=Files.at(target.folder).system).to_table()


def count_results(target: Target, most: int) -> int | None:
    """How many rows a query has given, by what its files say of themselves; None where there are more than `most`."""
    paths, system = result_files(target), Files.at(target.folder).system
    if len(paths) > most:
        return None
    return sum(int(pq.read_metadata(path, filesystem=system).num_rows) for path in paths)


def result_files(target: Target) -> list[str]:
    """The committed files of a query: its own, and those it shares."""
    own = Files.at(target.folder)
    paths = [own.path(name) for name in own.names() if name.startswith(f"{target.name}-")]
    for common in shared_folders(f"{target.common.rsplit('/', 1)[0]}/{target.name}"):
        files = Files.at(f"{target.common}/{common}")
        paths += [files.path(name) for name in files.names() if not name.startswith(".")]
    return paths


def sweep_staged(folders: Iterable[str]) -> None:
    """Deletes what slots of batches that never happened have left in result folders."""
    for folder in folders:
        files = Files.at(folder)
        for name in files.names():
            if _STAGED.fullmatch(name):
                files.delete(name)


def _link(staged: str, final: Path) -> None:
    final.parent.mkdir(parents=True, exist_ok=True)
    if final.exists():
        return
    try:
        os.link(staged, final)
    except OSError:  # another disk, or one that knows no links
        partial = final.with_name(f".{final.name}.partial")
        shutil.copyfile(staged, partial)
        partial.rename(final)


def rows_by_query(outputs: Iterable[Output]) -> Mapping[str, int]:
    """How many rows each query got."""
    found: dict[str, int] = {}
    for output in outputs:
        for final in output.finals:
            found[final.query] = found.get(final.query, 0) + output.rows
    return found
