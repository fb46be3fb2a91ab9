"""The input and the output of a shard for one batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from millstream.engine.backlog import UNBOUNDED, Budget
from millstream.engine.judge import Late
from millstream.engine.memory import MemoryLimit
from millstream.model.stream import Stream
from millstream.plan.nodes import PoolName, Signature


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Rows of a stream for the pools that take them; several parts where columns cannot hold all rows.

    On Spark a row comes once for every key it is spread by; `counted` is set for one of these copies, so that the row
    is counted once, and reported once if it is late.
    """

    stream: Stream
    parts: Sequence[pa.RecordBatch]
    pools: Sequence[PoolName]
    counted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInput:
    """`watermarks` and `horizons` are those from before the batch. `finish` says that no more rows will come: all
    deferred units are done and all held rows are released. `memory` is how much state may be held in memory.
    `unfinished` is, for each chain, the earliest time of a result row that any shard has deferred or owes: in strict
    order the others wait for it. `reaches` are pools whose rows are kept no longer than this, in microseconds, because
    memory is short.
    """

    batch: int
    rows: Sequence[StreamRows] = ()
    watermarks: Mapping[Signature, int] = field(default_factory=dict)
    horizons: Mapping[str, int] = field(default_factory=dict)
    budget: Budget = UNBOUNDED
    finish: bool = False
    memory: MemoryLimit | None = None
    unfinished: Mapping[Signature, int] = field(default_factory=dict)
    reaches: Mapping[PoolName, int] = field(default_factory=dict)


class Results(NamedTuple):
    """Rows for all queries that get them. `arrived` counts the rows by the batch their probing rows arrived in."""

    queries: list[str]
    rows: pa.RecordBatch
    arrived: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutput:
    """What is known before any join, and `results`, which are computed as they are consumed: the batch is done when all
    are consumed.
    """

    results: Iterator[Results]
    rows_in: Mapping[str, int]
    late: Sequence[Late]
    greatest: Mapping[str, int]
    least: Mapping[str, int]
