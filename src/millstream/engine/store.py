"""Where segments live: in memory, or as Arrow IPC files that are mapped, so that processes share their pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from millstream.engine.columns import Columns
from millstream.engine.files import Files, Stamp, stamp_of
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.segment import Segment

_TIME = b"millstream.time"
# A smaller segment stays in memory as it is: opening its files would take as long as writing them (bench tricks).
_WORTH_MAPPING = 1 << 18


class Store(Protocol):
    """Stores and drops segments."""

    def keep(self, segment: Segment) -> Segment:
        """The same segment as the store holds it."""
        ...

    def name(self, segment: Segment) -> str:
        """The name under which a kept segment can be loaded again."""
        ...

    def stamps(self, segment: Segment) -> tuple[Stamp, ...]:
        """The stamps of the files of a kept segment."""
        ...

    def load(self, entry: SegmentEntry) -> Segment: ...

    def drop(self, segment: Segment) -> None: ...


class HeldRows(Protocol):
    """Where rows that strict order holds back are stored."""

    def keep(self, query: str, rows: pa.Table) -> str:
        """Stores rows and returns the name under which they can be loaded."""
        ...

    def load(self, name: str) -> pa.Table: ...


class MemoryStore:
    """Segments stay as they are."""

    def __init__(self) -> None:
        self._segments: dict[str, Segment] = {}

    def keep(self, segment: Segment) -> Segment:
        self._segments[self.name(segment)] = segment
        return segment

    def name(self, segment: Segment) -> str:
        return str(segment.number)

    def stamps(self, _: Segment) -> tuple[Stamp, ...]:
        return ()

    def load(self, entry: SegmentEntry) -> Segment:
        return self._segments[entry.name]

    def drop(self, segment: Segment) -> None:
        del self._segments[self.name(segment)]


class FileStore:
    """Two files a segment: its rows, and its keys with where they begin. Names of new segments begin with `prefix`."""

    def __init__(self, files: Files, prefix: str = "") -> None:
        self._files = files
        self.prefix = prefix
        self._names: dict[int, str] = {}
        self._stamps: dict[str, tuple[Stamp, ...]] = {}
        files.make()

    def keep(self, segment: Segment) -> Segment:
        name = self._names[segment.number] = f"{self.prefix}{segment.number}"
        rows, index = files_of(name)
        metadata = {**(segment.rows.schema.metadata or {}), _TIME: segment.time.encode()}
        keys = pa.RecordBatch.from_pydict({"key": segment.keys, "start": segment.starts[:-1]})
        self._stamps[name] = (
            self._files.write_arrow(rows, segment.rows.replace_schema_metadata(metadata)),
            self._files.write_arrow(index, keys),
        )
        if segment.nbytes < _WORTH_MAPPING:
            return segment
        return self._opened(name, segment)

    def name(self, segment: Segment) -> str:
        return self._names[segment.number]

    def stamps(self, segment: Segment) -> tuple[Stamp, ...]:
        return self._stamps[self.name(segment)]

    def load(self, entry: SegmentEntry) -> Segment:
        """Raises DamagedFileError where the files do not match the entry."""
        self._names[entry.number], self._stamps[entry.name] = entry.name, entry.stamps
        return self._opened(entry.name, entry, entry.stamps)

    def drop(self, segment: Segment) -> None:
        for name in files_of(self._forgotten(segment)):
            self._files.delete(name)

    def _forgotten(self, segment: Segment) -> str:
        name = self._names.pop(segment.number)
        self._stamps.pop(name, None)
        return name

    def _opened(self, name: str, known: Segment | SegmentEntry, stamps: tuple[Stamp, ...] = ()) -> Segment:
        rows, index = (
            self._files.read_arrow(file, stamp)
            for file, stamp in zip(files_of(name), stamps or (None, None), strict=True)
        )
        time = rows.schema.metadata[_TIME].decode()
        rest = {key: value for key, value in rows.schema.metadata.items() if key != _TIME}
        frame = Columns.of(rows.replace_schema_metadata(rest or None))
        return Segment(
            known.number,
            known.batch,
            known.reach,
            frame,
            time,
            known.first,
            known.last,
            frame.values[time],
            np.asarray(index.column("key")),
            np.append(np.asarray(index.column("start")), rows.num_rows),
            frozenset(known.hidden_from),
        )


def files_of(name: str) -> tuple[str, str]:
    """The names of the files of a segment."""
    return f"{name}.arrow", f"{name}.index.arrow"


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """Held rows as files, whose names begin with `prefix`."""

    files: Files
    prefix: str

    def keep(self, query: str, rows: pa.Table) -> str:
        return keep_rows(self.files, f"{self.prefix}held-{query}", rows)

    def load(self, name: str) -> pa.Table:
        return load_rows(self.files, name)


def keep_rows(files: Files, name: str, rows: pa.Table) -> str:
    """Stores rows as one file; the name it returns ends with their stamp."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write(rows)
    content = sink.getvalue()
    stamp = stamp_of(content)
    kept = f"{name}-{stamp.size:x}-{stamp.crc:08x}"
    with files.system.open_output_stream(files.path(f"{kept}.arrow")) as out:
        out.write(content)
    return kept


def load_rows(files: Files, kept: str) -> pa.Table:
    """Raises DamagedFileError where the file is not the one that was kept."""
    return files.read_table(f"{kept}.arrow", stamp_in(kept))


def stamp_in(kept: str) -> Stamp:
    """The stamp in the name of kept rows."""
    size, crc = kept.rsplit("-", 2)[-2:]
    return Stamp(int(size, 16), int(crc, 16))
