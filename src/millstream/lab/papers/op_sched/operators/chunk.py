"""Rows on their way through a graph, together with when they came in."""

from __future__ import annotations

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
