"""Results as files: the slots write them under staged names, and the driver publishes them once the batch is committed.

Rows that several queries get are written once. On a local disk the file is then linked into the folder of each of these
queries; with `results = 'shared'` it stays in one place and every query has a manifest of the folders that hold its
rows.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.engine import widths
from millstream.engine.arrow import arrow_type
from millstream.engine.files import Files, begin_sync, damaged, sync_paths
from millstream.errors import ScriptError, Where
from millstream.model.query import Query
from millstream.pipeline.durable import is_local
from millstream.pipeline.locations import placed
from millstream.pipeline.manifest import PublishedFile, StagedFile
from millstream.pipeline.shared_results import note_folders, note_queries, shared_folders

_ENOUGH = 1 << 17
_VIEW = 8
_GROUP, _MANY = 2, 8
"""Limits as multiples of the gathered bytes: of one row group, and of the rows waiting in all files together."""
# A file staged by a slot, and an unfinished copy.
_STAGED = re.compile(r"\.(?:\w+-)?([0-9a-f]{8})-\d{8,}-\d{3,}-\d+\.(?:[0-9a-f]{10}|parquet\.partial)")
_FINAL = re.compile(r"(?:(\w+)-)?([0-9a-f]{8})-(\d{8,})-\d{3,}-\d+\.parquet")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a query's rows are written: a folder, and the file options. `shared` files go to `common` instead."""

    name: str
    folder: str
    _: KW_ONLY
    compression: str = "lz4"
    shared: bool = False
    common: str = ""

    @property
    def links(self) -> bool:
        """Whether one file can be linked into several folders."""
        return "://" not in self.folder


def target_of(query: Query, results: str, default: str, base: str = "") -> Target:
    """The target of a query's own files; `default` says whether results are shared where the query does not say.

    A relative path counts from `base`.
    """
    options = {name.lower(): value for name, value in query.options}
    shared = options.get("results", default).lower() == "shared"
    folder = placed(options.get("path") or f"{results}/{query.name}", base)
    return Target(
        query.name,
        folder,
        compression=options.get("compression", "lz4").lower(),
        shared=shared,
        common=f"{results}/shared",
    )


@dataclass(slots=True)
class _Open:
    """A file being written, with rows that wait to fill a row group."""

    output: StagedFile
    writer: pq.ParquetWriter
    _: KW_ONLY
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    held: int = 0
    nbytes: int = 0
    rows: int = 0


class Writer:
    """The files of one slot in one batch. Names of staged files begin with a dot, so that readers skip them."""

    def __init__(self, pipeline: str, batch: int, slot: int, token: str, *, sync: bool = True) -> None:
        self._label = f"{pipeline}-{batch:08}-{slot:03}"
        self._token, self._sync = token, sync
        self._open: dict[tuple[Target, ...], _Open] = {}
        self._waiting = 0
        self.syncing: list[Future[None]] = []

    def write(self, targets: Sequence[Target], rows: pa.RecordBatch) -> None:
        """Writes rows for all these targets; once for those that can share a file."""
        for together in _together(targets):
            file = self._open.get(together) or self._begin(together, rows.schema)
            # A small view of a large chunk would keep the whole chunk in memory until it is written.
            nbytes = rows.nbytes
            file.waiting.append(_copied(rows) if rows.get_total_buffer_size() > _VIEW * nbytes else rows)
            file.held += rows.num_rows
            file.nbytes += nbytes
            self._waiting += nbytes
            if file.held >= _ENOUGH or file.nbytes >= widths.CHUNK_BYTES:
                self._flush(file)
            if self._waiting >= _MANY * widths.CHUNK_BYTES:
                self._flush(max(self._open.values(), key=lambda one: one.nbytes))

    def close(self) -> list[StagedFile]:
        """Closes and returns all files; local ones are on disk when `syncing` is done."""
        found = []
        for file in self._open.values():
            self._flush(file)
            file.writer.close()
            if self._sync and is_local(file.output.folder):
                self.syncing.append(begin_sync(f"{file.output.folder}/{file.output.staged}"))
            size = Files.at(file.output.folder).size(file.output.staged)
            found.append(replace(file.output, rows=file.rows, size=size or 0))
        return found

    def _begin(self, targets: tuple[Target, ...], schema: pa.Schema) -> _Open:
        some, number = targets[0], len(self._open)
        folder = f"{some.common}/{_common_name(targets)}" if some.shared else some.folder
        finals = [
            PublishedFile(one.name, folder if some.shared else one.folder, self._name(one, number)) for one in targets
        ]
        if some.shared:
            finals = [PublishedFile(final.query, folder, f"{self._label}-{number}.parquet") for final in finals]
        staged = f".{self._label}-{number}.{self._token}"
        files = Files.at(folder)
        files.make()
        words = [one.name for one in schema if pa.types.is_string(one.type) or pa.types.is_binary(one.type)]
        writer = pq.ParquetWriter(
            files.path(staged),
            schema,
            filesystem=files.system,
            compression=some.compression,
            # Dictionary encoding of numbers that rarely repeat costs time and saves little space.
            use_dictionary=words or False,
            # Needed after a crash, to check whether a staged file is complete.
            write_page_checksum=True,
        )
        self._open[targets] = _Open(
            StagedFile(folder=folder, staged=staged, finals=tuple(finals), rows=0, shared=some.shared), writer
        )
        return self._open[targets]

    def _flush(self, file: _Open) -> None:
        for rows in _row_groups(file.waiting):
            file.writer.write_batch(rows)
        self._waiting -= file.nbytes
        file.rows += file.held
        file.waiting, file.held, file.nbytes = [], 0, 0

    def _name(self, target: Target, number: int) -> str:
        return f"{target.name.rsplit('/', 1)[-1]}-{self._label}-{number}.parquet"


def _together(targets: Sequence[Target]) -> list[tuple[Target, ...]]:
    """Groups targets whose rows can be written to one file."""
    found: dict[object, list[Target]] = {}
    for target in targets:
        alone = not (target.shared or target.links)
        key = target.name if alone else (target.shared, target.compression, target.common if target.shared else "")
        found.setdefault(key, []).append(target)
    return [tuple(some) for some in found.values()]


def _common_name(targets: Iterable[Target]) -> str:
    names = sorted(target.name for target in targets)
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]


def _row_groups(waiting: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows in batches small enough to be encoded, and read again, as one row group."""
    for rows in widths.together(waiting, _GROUP * widths.CHUNK_BYTES):
        parts = -(-rows.nbytes // (_GROUP * widths.CHUNK_BYTES))
        step = max(1, rows.num_rows // max(1, parts))
        for start in range(0, rows.num_rows, step):
            yield rows.slice(start, step)


def _copied(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A copy of the rows in memory of its own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


class Publisher:
    """Publishes committed files. Publishing is idempotent."""

    def __init__(self, results: str) -> None:
        self._results = results
        self._known: dict[str, set[str]] = {}

    def publish(self, outputs: Iterable[StagedFile]) -> None:
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

    def _name_in_manifests(self, output: StagedFile) -> None:
        """Adds the folder of a shared file to the manifest of each of its queries, and the queries to the folder's
        list.
        """
        common = output.folder.rsplit("/", 1)[-1]
        if any(common not in self._of(final.query) for final in output.finals):
            note_queries(output.folder, {final.query for final in output.finals})
        for final in output.finals:
            known = self._of(final.query)
            if common not in known:
                known.add(common)
                note_folders(self._results, final.query, known)

    def _of(self, query: str) -> set[str]:
        if query not in self._known:
            self._known[query] = set(shared_folders(f"{self._results}/{query}"))
        return self._known[query]


def check_staged(output: StagedFile, *, published: bool) -> None:
    """Raises DamagedFileError where a file that is yet to be published is lost or differs from what its slot wrote.

    A `published` file belongs to the user, who may have moved it.
    """
    files = Files.at(output.folder)
    size, path = files.size(output.staged), files.path(output.staged)
    if size is None:
        if published or all(Files.at(final.folder).has(final.name) for final in output.finals):
            return
        raise damaged(path, "the file is missing, and it was not published")
    if size != output.size:
        raise damaged(path, f"the file has {size:,} bytes instead of {output.size:,}")
    try:
        with pq.ParquetFile(path, filesystem=files.system, page_checksum_verification=True) as file:
            rows = sum(batch.num_rows for batch in file.iter_batches())
    except (OSError, pa.ArrowInvalid) as error:
        raise damaged(path, f"the file holds other bytes than were written ({error})") from None
    if rows != output.rows:
        raise damaged(path, f"the file has {rows:,} rows instead of {output.rows:,}")


def read_results(target: Target, query: Query, since: int = 0) -> pa.Table:
    """The committed rows of a query from all its folders, from its first batch on."""
    import pyarrow.dataset as ds  # imports pandas, which only reading needs

    schema = pa.schema([pa.field(output.name, arrow_type(output.expr.type)) for output in query.outputs])
    paths = result_files(target, since)
    if not paths:
        return schema.empty_table()
    system = Files.at(target.folder).system
    try:
        return ds.dataset(paths, schema=schema, filesystem=system).to_table()
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(target, str(error)) from None


def newest_results(target: Target, query: Query, since: int, limit: int) -> pa.Table:
    """The last `limit` rows of the newest batches; no more files are read than that takes."""
    by_name = sorted(result_files(target, since), key=_batch_of, reverse=True)
    schema = pa.schema([pa.field(output.name, arrow_type(output.expr.type)) for output in query.outputs])
    try:
        return _newest(by_name, Files.at(target.folder), limit) or schema.empty_table()
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(target, str(error)) from None


def late_files(folder: str) -> list[str]:
    """The published files of late rows in a folder, in the order of their batches."""
    return sorted((name for name in Files.at(folder).names() if _FINAL.fullmatch(name)), key=_batch_of)


def newest_late(folder: str, names: Sequence[str], limit: int) -> pa.Table:
    """The last `limit` of these files' rows."""
    files = Files.at(folder)
    found = _newest([files.path(name) for name in reversed(names)], files, limit)
    return pa.table({}) if found is None else found


def _newest(paths: Iterable[str], files: Files, limit: int) -> pa.Table | None:
    """Rows of these files, the newest first in the list and last in the table."""
    found: list[pa.Table] = []
    for path in paths:
        if sum(one.num_rows for one in found) >= limit:
            break
        found.insert(0, pq.read_table(path, filesystem=files.system))
    table = pa.concat_tables(found) if found else None
    return None if table is None else table.slice(max(0, table.num_rows - limit))


def _batch_of(path: str) -> tuple[int, str]:
    match = _FINAL.fullmatch(path.rsplit("/", 1)[-1])
    return (int(match[3]) if match else 0), path


def count_results(target: Target, most: int, since: int = 0) -> int | None:
    """How many rows a query has given, by its files' footers; None where there are more than `most` files."""
    paths, system = result_files(target, since), Files.at(target.folder).system
    if len(paths) > most:
        return None
    try:
        return sum(int(pq.read_metadata(path, filesystem=system).num_rows) for path in paths)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(target, str(error)) from None


def _unreadable(target: Target, why: str) -> ScriptError:
    return ScriptError(
        f"the results of query {target.name} cannot be read: {why.splitlines()[0]}",
        "published results are yours, and the pipeline does not make them again",
        "Put the file back from a backup, or move it away and go on without its rows.",
        Where(file=target.folder),
    )


def result_files(target: Target, since: int = 0) -> list[str]:
    """The committed files of a query: its own, and those it shares.

    An earlier query of the same name has its files in the same folder, with batch numbers below `since`.
    """
    own = Files.at(target.folder)
    names = {own.path(name): name for name in own.names()}
    wanted = dict.fromkeys(names, target.name)
    for common in shared_folders(f"{target.common.rsplit('/', 1)[0]}/{target.name}"):
        files = Files.at(f"{target.common}/{common}")
        names |= {files.path(name): name for name in files.names()}
    found = {path: _FINAL.fullmatch(name) for path, name in names.items()}
    return [path for path, match in found.items() if match and match[1] == wanted.get(path) and int(match[3]) >= since]


def sweep_staged(folders: Iterable[str], pipeline: str | None = None) -> None:
    """Deletes staged files of uncommitted batches from result folders: of one pipeline, or of any."""
    for folder in folders:
        files = Files.at(folder)
        for name in files.names():
            if (match := _STAGED.fullmatch(name)) and pipeline in (None, match[1]):
                files.delete(name)


def has_results(folder: str) -> bool:
    """Whether any pipeline has published files there."""
    return any(_FINAL.fullmatch(name) for name in Files.at(folder).names())


def remove_later(folders: Iterable[str], pipeline: str, batch: int) -> int:
    """Deletes the files of a pipeline's later batches, which will be repeated; returns how many there were."""
    found = 0
    for folder in folders:
        files = Files.at(folder)
        for name in files.names():
            if (match := _FINAL.fullmatch(name)) and match[2] == pipeline and int(match[3]) > batch:
                files.delete(name)
                found += 1
    return found


def _link(staged: str, final: Path) -> None:
    final.parent.mkdir(parents=True, exist_ok=True)
    if final.exists():
        return
    try:
        os.link(staged, final)
    except OSError:  # another disk, or a file system without links
        partial = final.with_name(f".{final.name}.partial")
        shutil.copyfile(staged, partial)
        sync_paths([str(partial)])
        partial.rename(final)
        sync_paths([str(final.parent)])  # the source of the copy is deleted next
