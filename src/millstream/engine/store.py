"""Where segments live: in memory, or as Arrow IPC files that are mapped, so that processes share their pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import microseconds
from millstream.engine.segment import Segment

_DESCRIPTION = b"millstream.segment"


class Store(Protocol):
    """Takes segments in and lets them go."""

    def keep(self, segment: Segment) -> Segment:
        """The same segment as the store holds it."""
        ...

    def drop(self, segment: Segment) -> None: ...


class MemoryStore:
    """Segments stay as they are."""

    def keep(self, segment: Segment) -> Segment:
        return segment

    def drop(self, segment: Segment) -> None:
        """Nothing to free: the segment goes with its last reference."""


class FileStore:
    """Two files a segment: its rows, and its keys with where they begin."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def keep(self, segment: Segment) -> Segment:
        described = {
            "number": segment.number,
            "side": segment.side,
            "batch": segment.batch,
            "reach": segment.reach,
            "time": segment.time,
        }
        metadata = {**(segment.rows.schema.metadata or {}), _DESCRIPTION: json.dumps(described).encode()}
        rows, index = self._paths(segment.number)
        _write(rows, segment.rows.replace_schema_metadata(metadata))
        _write(index, pa.RecordBatch.from_pydict({"key": segment.keys, "start": segment.starts[:-1]}))
        return self.load(segment.number)

    def load(self, number: int) -> Segment:
        """A segment from its files, mapped and not read."""
        rows, index = (_mapped(path) for path in self._paths(number))
        described = json.loads(rows.schema.metadata[_DESCRIPTION])
        rest = {key: value for key, value in rows.schema.metadata.items() if key != _DESCRIPTION}
        rows = rows.replace_schema_metadata(rest or None)
        times = microseconds(rows.column(described["time"]))
        starts = np.append(np.asarray(index.column("start")), len(times))
        keys = np.asarray(index.column("key"))
        number, side, batch, reach = (described[name] for name in ("number", "side", "batch", "reach"))
        return Segment(number, side, batch, reach, rows, described["time"], times, keys, starts)

    def drop(self, segment: Segment) -> None:
        for path in self._paths(segment.number):
            path.unlink(missing_ok=True)

    def _paths(self, number: int) -> tuple[Path, Path]:
        return self._directory / f"{number}.arrow", self._directory / f"{number}.index.arrow"


def _write(path: Path, batch: pa.RecordBatch) -> None:
    partial = path.with_suffix(".partial")
    with pa.OSFile(str(partial), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    partial.rename(path)


def _mapped(path: Path) -> pa.RecordBatch:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).get_batch(0)
