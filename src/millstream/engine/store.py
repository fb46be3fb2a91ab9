"""Where segments live: in memory, or as Arrow IPC files that are mapped, so that processes share their pages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from millstream.engine.columns import Columns
from millstream.engine.files import Files, Stamp, stamp_of
from millstream.engine.on_disk import Piece
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

    def name(self, segment: Piece) -> str:
        """The name under which a kept segment can be loaded again."""
        ...

    def stamps(self, segment: Piece) -> tuple[Stamp, ...]:
        """The stamps of the files of a kept segment."""
        ...

    def share(self, segment: Piece, number: int) -> None:
        """A part of a kept segment gets this number, and has the same files."""
        ...

    def expect(self, entry: SegmentEntry) -> None:
        """Notes an entry without loading it."""
        ...

    def load(self, entry: SegmentEntry) -> Segment:
        """All rows of an entry's files, whichever of them are its own."""
        ...

    def release(self, segment: Piece) -> None:
        """A kept segment is spilled: the store does not keep it open."""
        ...

    def drop(self, segment: Piece) -> None: ...


class HeldRows(Protocol):
    """Where rows that strict order holds back are stored."""

    def keep(self, query: str, rows: pa.Table) -> str:
        """Stores rows and returns the name under which they can be loaded."""
        ...

    def load(self, name: str) -> pa.Table: ...


class MemoryStore:
    """Segments stay as they are; those that are spilled too."""

    def __init__(self) -> None:
        self._segments: dict[str, Segment] = {}
        self._names = Names()

    def keep(self, segment: Segment) -> Segment:
        name = str(segment.number)
        self._names.add(segment.number, name)
        self._segments[name] = segment
        return segment

    def name(self, segment: Piece) -> str:
        return self._names[segment.number]

    def stamps(self, _: Piece) -> tuple[Stamp, ...]:
        return ()

    def share(self, segment: Piece, number: int) -> None:
        self._names.add(number, self.name(segment))

    def release(self, _: Piece) -> None:
        """Does nothing."""

    def load(self, entry: SegmentEntry) -> Segment:
        self.expect(entry)
        return self._segments[entry.name]

    def expect(self, entry: SegmentEntry) -> None:
        self._names.add(entry.number, entry.name)

    def drop(self, segment: Piece) -> None:
        name, is_last = self._names.drop(segment.number)
        if is_last:
            del self._segments[name]


class Names:
    """The names of segments by their numbers. Parts of one segment have numbers of their own and the same name."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._parts: Counter[str] = Counter()

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    def add(self, number: int, name: str) -> None:
        """A number may be given again, after a batch that was not committed."""
        if self._names.get(number) == name:
            return
        if number in self._names:
            self.drop(number)
        self._names[number] = name
        self._parts[name] += 1

    def drop(self, number: int) -> tuple[str, bool]:
        """The name a number had, and whether no other number has it."""
        name = self._names.pop(number)
        self._parts[name] -= 1
        is_last = not self._parts[name]
        if is_last:
            del self._parts[name]
        return name, is_last


class FileStore:
    """Two files a segment: its rows, and its keys with where they begin, or the codes of its rows where it is not
    indexed. Names of new segments begin with `prefix`.
    """

    def __init__(self, files: Files, prefix: str = "") -> None:
        self._files = files
        self.prefix = prefix
        self._names = Names()
        self._stamps: dict[str, tuple[Stamp, ...]] = {}
        self._checked: set[str] = set()
        """The segments whose files have been compared with their stamps, or written here."""
        files.make()

    def keep(self, segment: Segment) -> Segment:
        name = f"{self.prefix}{segment.number}"
        self._names.add(segment.number, name)
        rows, index = files_of(name)
        metadata = {**(segment.rows.schema.metadata or {}), _TIME: segment.time.encode()}
        keys = {"key": segment.keys, **({"start": segment.starts[:-1]} if segment.is_indexed else {})}
        self._stamps[name] = (
            self._files.write_arrow(rows, segment.rows.replace_schema_metadata(metadata)),
            self._files.write_arrow(index, pa.RecordBatch.from_pydict(keys)),
        )
        self._checked.add(name)
        if segment.nbytes < _WORTH_MAPPING:
            return segment
        return self._opened(name, segment)

    def name(self, segment: Piece) -> str:
        return self._names[segment.number]

    def stamps(self, segment: Piece) -> tuple[Stamp, ...]:
        return self._stamps[self.name(segment)]

    def share(self, segment: Piece, number: int) -> None:
        self._names.add(number, self.name(segment))

    def release(self, _: Piece) -> None:
        """Does nothing."""

    def load(self, entry: SegmentEntry) -> Segment:
        """Raises DamagedFileError where the files do not match the entry."""
        self.expect(entry)
        stamps = () if entry.name in self._checked else entry.stamps
        found = self._opened(entry.name, entry, stamps)
        self._checked.add(entry.name)
        return found

    def expect(self, entry: SegmentEntry) -> None:
        """Notes the name of an entry without opening its files."""
        self._names.add(entry.number, entry.name)
        self._stamps[entry.name] = entry.stamps

    def drop(self, segment: Piece) -> None:
        name = self._forgotten(segment)
        for file in files_of(name) if name else ():
            self._files.delete(file)

    def _forgotten(self, segment: Piece) -> str | None:
        """The name of a segment that is gone; None where another part of it is still there."""
        name, is_last = self._names.drop(segment.number)
        if not is_last:
            return None
        self._stamps.pop(name, None)
        self._checked.discard(name)
        return name

    def _opened(self, name: str, known: Segment | SegmentEntry, stamps: tuple[Stamp, ...] = ()) -> Segment:
        rows, index = (
            self._files.read_arrow(file, stamp)
            for file, stamp in zip(files_of(name), stamps or (None, None), strict=True)
        )
        time = rows.schema.metadata[_TIME].decode()
        rest = {key: value for key, value in rows.schema.metadata.items() if key != _TIME}
        frame = Columns.of(rows.replace_schema_metadata(rest or None))
        is_indexed = "start" in index.schema.names
        starts = np.append(np.asarray(index.column("start")), rows.num_rows) if is_indexed else np.empty(0, np.int64)
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
            starts,
            frozenset(known.hidden_from),
            is_indexed=is_indexed,
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
