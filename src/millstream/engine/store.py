"""Where segments live: in memory, or as Arrow IPC files that are mapped, so that processes share their pages."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from millstream.engine.chain_manifest import SegmentEntry
from millstream.engine.files import Files
from millstream.engine.frame import Frame
from millstream.engine.segment import Segment

_TIME = b"millstream.time"
# A smaller segment stays in memory as it is: to open its files again would take longer than to write them.
_WORTH_MAPPING = 1 << 18


class Store(Protocol):
    """Takes segments in and lets them go."""

    def keep(self, segment: Segment) -> Segment:
        """The same segment as the store holds it."""
        ...

    def name(self, segment: Segment) -> str:
        """What to ask for to get a kept segment again."""
        ...

    def load(self, entry: SegmentEntry) -> Segment: ...

    def drop(self, segment: Segment) -> None: ...


class MemoryStore:
    """Segments stay as they are."""

    def __init__(self) -> None:
        self._segments: dict[str, Segment] = {}

    def keep(self, segment: Segment) -> Segment:
        self._segments[self.name(segment)] = segment
        return segment

    def name(self, segment: Segment) -> str:
        return str(segment.number)

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
        files.make()

    def keep(self, segment: Segment) -> Segment:
        name = self._names[segment.number] = f"{self.prefix}{segment.number}"
        rows, index = files_of(name)
        metadata = {**(segment.rows.schema.metadata or {}), _TIME: segment.time.encode()}
        self._files.write_arrow(rows, segment.rows.replace_schema_metadata(metadata))
        self._files.write_arrow(index, pa.RecordBatch.from_pydict({"key": segment.keys, "start": segment.starts[:-1]}))
        if segment.nbytes < _WORTH_MAPPING:
            return segment
        return self._opened(name, segment)

    def name(self, segment: Segment) -> str:
        return self._names[segment.number]

    def load(self, entry: SegmentEntry) -> Segment:
        self._names[entry.number] = entry.name
        return self._opened(entry.name, entry)

    def drop(self, segment: Segment) -> None:
        for name in files_of(self._names.pop(segment.number)):
            self._files.delete(name)

    def _opened(self, name: str, known: Segment | SegmentEntry) -> Segment:
        rows, index = (self._files.read_arrow(file) for file in files_of(name))
        time = rows.schema.metadata[_TIME].decode()
        rest = {key: value for key, value in rows.schema.metadata.items() if key != _TIME}
        frame = Frame.of(rows.replace_schema_metadata(rest or None))
        return Segment(
            known.number,
            known.side,
            known.batch,
            known.reach,
            frame,
            time,
            known.first,
            known.last,
            frame.values[time],
            np.asarray(index.column("key")),
            np.append(np.asarray(index.column("start")), rows.num_rows),
        )


def files_of(name: str) -> tuple[str, str]:
    """The files a segment of this name is made of."""
    return f"{name}.arrow", f"{name}.index.arrow"
