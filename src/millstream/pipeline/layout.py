"""The columns in which all streams travel together.

Streams share columns by type: the first INT of every stream is one column, the second another. So a hundred streams
together need about as many columns as the widest of them, not columns for each stream.
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
    """Streams in the order of their numbers, independent of the order of declaration: Spark identifies sources by
    number.
    """
    return tuple(sorted(streams, key=lambda stream: stream.name))


@dataclass(frozen=True, slots=True)
class Layout:
    """`columns` are the shared columns with their types; `places` maps each stream's columns to them."""

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
        """The shared column that holds a stream's column."""
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
