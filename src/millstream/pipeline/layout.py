"""The columns in which all streams travel together.

Streams share columns by type: the first INT of every stream is one column, the second another. So a hundred streams are
as wide as the widest of them, and no row carries a place for every other stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import arrow_schema
from millstream.model.stream import Stream

STREAM, BAD = "stream", "bad"


def in_order(streams: Iterable[Stream]) -> tuple[Stream, ...]:
    """Streams as they are numbered, whatever the order they are declared in: Spark knows its sources by number."""
    return tuple(sorted(streams, key=lambda stream: stream.name))


@dataclass(frozen=True, slots=True)
class Layout:
    """`columns` are the shared ones with their types; `places` says for each stream in which of them its own lie."""

    streams: tuple[Stream, ...]
    columns: tuple[tuple[str, str], ...]
    places: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, streams: Iterable[Stream]) -> Layout:
        ordered = in_order(streams)
        names: dict[tuple[str, int], str] = {}
        places = []
        for stream in ordered:
            met: Counter[str] = Counter()
            own = []
            for column in stream.columns:
                kind = str(column.type)
                own.append(names.setdefault((kind, met[kind]), f"c{len(names)}"))
                met[kind] += 1
            places.append(tuple(own))
        return cls(ordered, tuple((name, kind) for (kind, _), name in names.items()), tuple(places))

    def place(self, stream: int, column: str) -> str:
        """The shared column in which a stream's column lies."""
        names = [one.name for one in self.streams[stream].columns]
        return self.places[stream][names.index(column)]

    def rows(self, batch: pa.RecordBatch, stream: int) -> pa.RecordBatch:
        """Rows that are all of one stream, with just its own columns in the declared types."""
        schema = arrow_schema(self.streams[stream])
        columns = [
            _typed(batch.column(name), kind.type) for name, kind in zip(self.places[stream], schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else pc.cast(column, kind)
