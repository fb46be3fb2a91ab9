"""Files below one root, on any file system Arrow reaches: a local path, hdfs://, s3:// and the like.

Local Arrow files are mapped, so that all processes of a machine share their pages; others are read. A stamp records
what an Arrow file holds, so that a changed file is never taken for state. On a local disk `write` and `sync` return
when the data would survive a power cut; other file systems ensure that themselves.
"""

from __future__ import annotations

import errno
import io
import os
import zlib
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from millstream.errors import ScriptError, Where

_AT_ONCE = 8


class DamagedFileError(ScriptError):
    """A file is missing or differs from what was written."""


def damaged(path: str, why: str) -> DamagedFileError:
    return DamagedFileError(
        why,
        "what a pipeline has written stays as it was",
        "Start it again: it goes on from the newest batch whose files are whole.",
        Where(file=path),
    )


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file was when it was written: its length and the checksum (CRC-32) of its bytes."""

    size: int
    crc: int


@dataclass(frozen=True)
class Files:
    """A root on a file system. Names are relative to it, with / between folders."""

    system: fs.FileSystem
    root: str

    @classmethod
    def at(cls, place: str | Path) -> Files:
        """`place` is a path or an address with a scheme."""
        if "://" in str(place):
            return cls(*fs.FileSystem.from_uri(str(place)))
        return cls(fs.LocalFileSystem(), str(Path(place).absolute()))

    @property
    def is_local(self) -> bool:
        return isinstance(self.system, fs.LocalFileSystem)

    def below(self, folder: str) -> Files:
        return Files(self.system, f"{self.root}/{folder}")

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def make(self, folder: str = "") -> None:
        self.system.create_dir(self.path(folder) if folder else self.root, recursive=True)

    def names(self, folder: str = "") -> list[str]:
        """The files of a folder, without those of folders in it; none where there is no such folder."""
        return self._named(folder, fs.FileType.File)

    def folders(self, folder: str = "") -> list[str]:
        """The folders in a folder."""
        return self._named(folder, fs.FileType.Directory)

    def _named(self, folder: str, kind: fs.FileType) -> list[str]:
        selector = fs.FileSelector(self.path(folder) if folder else self.root, allow_not_found=True)
        return sorted(info.base_name for info in self.system.get_file_info(selector) if info.type == kind)

    def has(self, name: str) -> bool:
        return bool(self.system.get_file_info(self.path(name)).type != fs.FileType.NotFound)

    def size(self, name: str) -> int | None:
        """The length of a file in bytes; None where there is no such file."""
        info = self.system.get_file_info(self.path(name))
        return int(info.size) if info.type == fs.FileType.File else None

    def modified(self, name: str) -> float | None:
        """When a file was written, in seconds since 1970 by the clock of the file system, where it says so."""
        info = self.system.get_file_info(self.path(name))
        if info.type != fs.FileType.File or info.mtime_ns is None:
            return None
        return float(info.mtime_ns) / 1e9

    def read(self, name: str) -> bytes:
        with self.system.open_input_stream(self.path(name)) as source:
            content: bytes = source.read()
        return content

    def write(self, name: str, content: bytes, *, sync: bool = True) -> None:
        """Writes atomically: readers never see a part of a file. With `sync`, a file on a local disk is durable on
        return.
        """
        if not isinstance(self.system, fs.LocalFileSystem | fs.HadoopFileSystem):
            # Object stores show an object when it is complete, and cannot rename one.
            with self.system.open_output_stream(self.path(name)) as sink:
                sink.write(content)
            return
        partial = f"{name}.partial"
        if self.is_local:
            with Path(self.path(partial)).open("wb") as file:
                file.write(content)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
        else:
            with self.system.open_output_stream(self.path(partial)) as sink:
                sink.write(content)
            self.delete(name)  # HDFS does not rename onto an existing file
        self.move(partial, name)
        if self.is_local and sync:
            _sync(str(Path(self.path(name)).parent))

    def move(self, old: str, new: str) -> None:
        self.system.move(self.path(old), self.path(new))

    def delete(self, name: str) -> None:
        """Does nothing where there is no such file."""
        try:
            self.system.delete_file(self.path(name))
        except FileNotFoundError:
            return

    def write_arrow(self, name: str, rows: pa.RecordBatch | pa.Table) -> Stamp:
        """Does not wait until the file is on the disk: see `sync`."""
        with self.system.open_output_stream(self.path(name)) as out:
            stamped = _Stamped(out)
            with pa.PythonFile(stamped, mode="w") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write(rows)
        return stamped.stamp()

    def read_arrow(self, name: str, stamp: Stamp | None = None) -> pa.RecordBatch:
        """The rows of a file that was written as one batch."""
        found = self._opened(name, stamp)
        if found.num_record_batches != 1:
            raise damaged(self.path(name), f"holds {found.num_record_batches} batches instead of one")
        return found.get_batch(0)

    def read_table(self, name: str, stamp: Stamp | None = None) -> pa.Table:
        """The rows of a file in as many batches as were written."""
        return self._opened(name, stamp).read_all()

    def _opened(self, name: str, stamp: Stamp | None) -> pa.ipc.RecordBatchFileReader:
        """Raises DamagedFileError where there is no such file, or it does not match the stamp."""
        try:
            content = self._content(name)
            if stamp is not None:
                _check(self.path(name), content, stamp)
            return pa.ipc.open_file(pa.BufferReader(content))
        except FileNotFoundError:
            raise damaged(self.path(name), "is missing") from None
        except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
            raise damaged(self.path(name), f"is no Arrow file ({error})") from None

    def check(self, name: str, stamp: Stamp) -> None:
        """Raises DamagedFileError where a file does not match the stamp."""
        try:
            _check(self.path(name), self._content(name), stamp)
        except FileNotFoundError:
            raise damaged(self.path(name), "is missing") from None

    def check_size(self, name: str, stamp: Stamp) -> None:
        """Compares the length only, without reading the file."""
        size = self.size(name)
        if size != stamp.size:
            raise damaged(self.path(name), "is missing" if size is None else f"has {size:,} bytes, not {stamp.size:,}")

    def _content(self, name: str) -> pa.Buffer:
        if not self.is_local:
            with self.system.open_input_file(self.path(name)) as source:
                return source.read_buffer()
        if not Path(self.path(name)).stat().st_size:
            return pa.py_buffer(b"")  # an empty file cannot be mapped
        with pa.memory_map(self.path(name)) as source:
            return source.read_buffer()


class _Stamped(io.RawIOBase):
    """Passes bytes on and computes their stamp."""

    def __init__(self, out: pa.NativeFile) -> None:
        self._out, self._size, self._crc = out, 0, 0

    def writable(self) -> bool:
        return True

    def write(self, piece: pa.Buffer | bytes) -> int:
        self._out.write(piece)
        self._crc = zlib.crc32(piece, self._crc)
        self._size += len(piece)
        return len(piece)

    def stamp(self) -> Stamp:
        return Stamp(self._size, self._crc)


def stamp_of(content: pa.Buffer | bytes) -> Stamp:
    return Stamp(len(content), zlib.crc32(content))


def _check(path: str, content: pa.Buffer, stamp: Stamp) -> None:
    if len(content) != stamp.size:
        raise damaged(path, f"has {len(content):,} bytes instead of {stamp.size:,}")
    if zlib.crc32(content) != stamp.crc:
        raise damaged(path, "holds other bytes than were written")


def begin_sync(path: str) -> Future[None]:
    """Starts to sync a local file to the disk, while other work goes on."""
    return _pool(os.getpid()).submit(_sync, path)


def sync_paths(paths: Iterable[str]) -> None:
    """Syncs local files and folders, several at a time, which is faster (bench tricks)."""
    for one in [begin_sync(path) for path in paths]:
        one.result()


@cache
def _pool(_: int) -> ThreadPoolExecutor:
    """One for each process: threads do not survive a fork."""
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="millstream-sync")


def above(folder: str) -> list[str]:
    """The parent folders of a new local folder. A folder that cannot be read was not made by Millstream."""
    return [str(parent) for parent in Path(folder).parents if os.access(parent, os.R_OK)]


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some mounts cannot sync a folder
            raise
    finally:
        os.close(descriptor)
