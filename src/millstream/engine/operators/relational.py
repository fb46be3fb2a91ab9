"""Operators on Arrow batches: selection, projection, and a symmetric window join over the engine's own segments.

Rows have a key `k`, a time `ts`, and values. Each operator is timed by the CPU it takes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import microseconds
from millstream.engine.keys import codes
from millstream.engine.operators.chunk import Chunk
from millstream.engine.probe import matches
from millstream.engine.segment import Segment, build, merge
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, RIGHT

KEY, TIME = "k", "ts"
_SECOND = 1_000_000
_MANY = 12


@dataclass(frozen=True, slots=True)
class Select:
    """Keeps rows whose value in a column is below a limit."""

    column: str
    below: float

    def process(self, port: int, chunk: Chunk, low: float) -> tuple[Chunk | None, float]:
        del port, low
        began = time.thread_time()
        rows = _data(chunk)
        kept = rows.filter(pc.less(rows.column(self.column), self.below))
        return made_of(chunk, kept), time.thread_time() - began


@dataclass(frozen=True, slots=True)
class Project:
    """Keeps some columns and computes one from another: `made` is the root of `source`, rounded."""

    columns: tuple[str, ...]
    source: str

    def process(self, port: int, chunk: Chunk, low: float) -> tuple[Chunk | None, float]:
        del port, low
        began = time.thread_time()
        rows = _data(chunk)
        value = pc.round(pc.sqrt(rows.column(self.source)), 3)
        columns = [rows.column(name) if name != self.source else value for name in self.columns]
        return made_of(chunk, pa.RecordBatch.from_arrays(columns, names=list(self.columns))), time.thread_time() - began


@dataclass(slots=True)
class Join:
    """Rows with equal keys whose times differ by less than the window.

    A result has the columns of the left row and the later of the two times, whichever side came last.
    """

    window: float
    _state: tuple[list[Segment], list[Segment]] = field(default_factory=lambda: ([], []))
    _made: int = 0

    def process(self, port: int, chunk: Chunk, low: float) -> tuple[Chunk | None, float]:
        began = time.thread_time()
        rows = _data(chunk)
        self._made += 1
        side = LEFT if port == 0 else RIGHT
        reach = round(self.window * _SECOND)
        probe = build(self._made, side, self._made, reach, rows, TIME, codes([rows.column(KEY)], rows.num_rows))
        others = self._state[1 - port]
        self._let_go(port, low)
        found = [
            self._joined(probe, state, probe_rows, state_rows)
            for state in others
            for probe_rows, state_rows in matches(probe, state, Interval(1 - reach, reach), "index")
        ]
        self._keep(port, probe)
        if not found:
            return None, time.thread_time() - began
        table = pa.Table.from_batches(found).combine_chunks().to_batches()[0]
        return made_of(chunk, table), time.thread_time() - began

    def _joined(self, probe: Segment, state: Segment, probe_rows: np.ndarray, state_rows: np.ndarray) -> pa.RecordBatch:
        times = np.maximum(probe.times[probe_rows], state.times[state_rows])
        left, rows = (probe, probe_rows) if probe.side == LEFT else (state, state_rows)
        names = [name for name in left.rows.schema.names if name != TIME]
        columns = [left.gather(name, rows) for name in names]
        return pa.RecordBatch.from_arrays([*columns, pa.array(times).view(pa.timestamp("us"))], names=[*names, TIME])

    def _let_go(self, port: int, low: float) -> None:
        """Rows of this side that nothing on the other side can match any more."""
        mine = self._state[port]
        if low > float("-inf"):
            mine[:] = [segment for segment in mine if segment.last / _SECOND + self.window > low]

    def _keep(self, port: int, segment: Segment) -> None:
        mine = self._state[port]
        mine.append(segment)
        if len(mine) > _MANY:
            self._made += 1
            mine[_MANY // 2 :] = [merge(self._made, mine[_MANY // 2 :])]


def made_of(chunk: Chunk, rows: pa.RecordBatch) -> Chunk | None:
    """Rows that have become of a chunk, or None if there are none."""
    if not rows.num_rows:
        return None
    times = microseconds(rows.column(TIME)) / _SECOND
    return replace(
        chunk,
        rows=float(rows.num_rows),
        size=float(rows.nbytes),
        arrived=float(times.min()),
        arrivals=float(times.sum()),
        data=rows,
    )


def _data(chunk: Chunk) -> pa.RecordBatch:
    if chunk.data is None:
        raise TypeError("an operator on rows was given an amount")
    return chunk.data
