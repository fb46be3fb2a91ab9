"""Rows on their way through a graph, with their arrival times."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Chunk:
    """`rows` may be a fraction where only amounts flow. `arrived` is the arrival time of the oldest row, `arrivals` the
    sum over all rows; a joined row has the later time of its two rows. `leaf` is the operator where it entered the
    graph.
    """

    rows: float
    size: float
    arrived: float
    arrivals: float
    number: int
    leaf: str = ""
    data: pa.RecordBatch | None = None

    def latency(self, now: float) -> float:
        """The latency, summed over its rows."""
        return self.rows * now - self.arrivals
