"""Files below one root, on any file system Arrow reaches: a local path, hdfs://, s3:// and the like.

Local Arrow files are mapped, so that all processes of a machine share their pages; others are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs


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

    def read(self, name: str) -> bytes:
        with self.system.open_input_stream(self.path(name)) as source:
            content: bytes = source.read()
        return content

    def write(self, name: str, content: bytes) -> None:
        """The whole file or none of it: readers never see a part."""
        if not isinstance(self.system, fs.LocalFileSystem | fs.HadoopFileSystem):
            # Object stores show an object when it is complete, and cannot rename one.
            with self.system.open_output_stream(self.path(name)) as sink:
                sink.write(content)
            return
        partial = f"{name}.partial"
        with self.system.open_output_stream(self.path(partial)) as sink:
            sink.write(content)
        self.move(partial, name)

    def move(self, old: str, new: str) -> None:
        self.system.move(self.path(old), self.path(new))

    def delete(self, name: str) -> None:
        """Nothing happens where there is no such file."""
        try:
            self.system.delete_file(self.path(name))
        except FileNotFoundError:
            return

    def write_arrow(self, name: str, batch: pa.RecordBatch) -> None:
        with self.system.open_output_stream(self.path(name)) as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)

    def read_arrow(self, name: str) -> pa.RecordBatch:
        if self.is_local:
            with pa.memory_map(self.path(name)) as source:
                return pa.ipc.open_file(source).get_batch(0)
        with self.system.open_input_file(self.path(name)) as source:
            return pa.ipc.open_file(pa.BufferReader(source.read_buffer())).get_batch(0)
