"""Rows on their way through a graph, together with when they came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Chunk:
    """`rows` may be a fraction where only amounts flow. `arrived` is when the oldest row came in, `arrivals` the sum
    over all rows; a joined row came in with the later of its two. `leaf` is the operator it entered the graph by."""

    rows: float
    size: float
    arrived: float
    arrivals: float
    number: int
    leaf: str = ""
    data: pa.RecordBatch | None = None

    def latency(self, now: float) -> float:
        """Summed over its rows."""
        return self.rows * now - self.arrivals


def together(chunks: Sequence[Chunk]) -> Chunk:
    """Several chunks of one queue as one."""
    if len(chunks) == 1:
        return chunks[0]
    tables = [chunk.data for chunk in chunks if chunk.data is not None]
    data = pa.Table.from_batches(tables).combine_chunks().to_batches()[0] if tables else None
    return Chunk(
        sum(chunk.rows for chunk in chunks),
        sum(chunk.size for chunk in chunks),
        min(chunk.arrived for chunk in chunks),
        sum(chunk.arrivals for chunk in chunks),
        min(chunk.number for chunk in chunks),
        chunks[0].leaf,
        data,
    )
