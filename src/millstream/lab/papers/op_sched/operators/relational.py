"""Operators on Arrow batches: selection, projection, and a symmetric window join over the engine's own segments.

Rows have a key `k`, a time `ts`, and values. Each operator's CPU time is measured.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import floor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import microseconds
from millstream.engine.compaction import run_to_merge
from millstream.engine.gathered_rows import GatheredRows, MatchRanges
from millstream.engine.keys import codes
from millstream.engine.probe import ranges
from millstream.engine.segment import Lot, Segment, build, merge
from millstream.lab.papers.op_sched.operators.chunk import Chunk
from millstream.model.interval import Interval

KEY, TIME = "k", "ts"
_SECOND = 1_000_000


@dataclass(frozen=True)
class Select:
    """Keeps rows whose value in a column is below a limit."""

    column: str
    below: float

    def process(self, port: int, chunk: Chunk, low: float) -> tuple[Chunk | None, float]:
        del port, low
        began = time.thread_time()
        rows = _data(chunk)
        kept = rows.filter(pc.less(self._values(rows.column(self.column)), self.below))
        return made_of(chunk, kept), time.thread_time() - began

    def _values(self, column: pa.Array) -> pa.Array:
        return column


@dataclass(frozen=True)
class SelectText(Select):
    """The same for a number that a pattern's one group finds in a text."""

    pattern: str

    def _values(self, column: pa.Array) -> pa.Array:
        (values,) = _numbers(column, self.pattern).values()
        return values


@dataclass(frozen=True, slots=True)
class ProjectText:
    """Keeps some columns, and the numbers that a pattern finds in a text, named after its groups."""

    columns: tuple[str, ...]
    text: str
    pattern: str

    def process(self, port: int, chunk: Chunk, low: float) -> tuple[Chunk | None, float]:
        del port, low
        began = time.thread_time()
        rows = _data(chunk)
        columns = {name: rows.column(name) for name in self.columns} | _numbers(rows.column(self.text), self.pattern)
        return made_of(chunk, pa.RecordBatch.from_pydict(columns)), time.thread_time() - began


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
        reach = round(self.window * _SECOND)
        probe = build(self._made, self._made, Lot(reach), rows, TIME, codes([rows.column(KEY)], rows.num_rows))
        within = Interval(1 - reach, reach)
        states = list(self._state[1 - port])
        met = MatchRanges(states, [ranges(probe, port, state, within) for state in states]) if states else None
        self._keep(port, probe, low)
        found = met.stacked(len(met)) if met else None
        state = next(found, None) if found else None
        if state is None:
            return None, time.thread_time() - began
        return made_of(chunk, _joined(probe, state, probe if port == 0 else states[0])), time.thread_time() - began

    def _keep(self, port: int, segment: Segment, low: float) -> None:
        """Drops rows of this side that nothing on the other side can match any more, and merges small neighbours."""
        expired = floor((low - self.window) * _SECOND) if low > float("-inf") else -(2**62)
        mine = [other for other in self._state[port] if other.last > expired]
        mine.append(segment)
        while (run := run_to_merge(mine, ())) is not None:
            self._made += 1
            mine[run] = [merge(self._made, mine[run], expired)]
        self._state[port][:] = mine


def _joined(probe: Segment, state: GatheredRows, left: Segment) -> pa.RecordBatch:
    """A row for each pair, with the columns that `left` has."""
    rows, positions = state.rows, state.positions
    times = np.maximum(probe.times.take(rows), state.times.take(positions))
    names = [name for name in left.frame.kinds if name != TIME]
    columns = [probe.gather(name, rows) if left is probe else state.gather(name, positions) for name in names]
    return pa.RecordBatch.from_arrays([*columns, pa.array(times).view(pa.timestamp("us"))], names=[*names, TIME])


def _numbers(texts: pa.Array, pattern: str) -> dict[str, pa.Array]:
    found = pc.extract_regex(texts, pattern)
    return {group.name: pc.cast(each, pa.float64()) for group, each in zip(found.type, found.flatten(), strict=True)}


def made_of(chunk: Chunk, rows: pa.RecordBatch) -> Chunk | None:
    """A chunk of the rows made from another chunk, or None if there are none."""
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
