"""A batch of a shard: what comes in, and what goes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from millstream.engine.backlog import UNBOUNDED, Budget
from millstream.engine.judge import Late
from millstream.model.stream import Stream
from millstream.plan.nodes import Signature

Sides = Sequence[tuple[Signature, str]]
"""Chains, each with the side that a stream is of it."""


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Rows of a stream for the sides of chains that take them; several parts where one is more than columns can hold.

    On Spark a row comes once for every key it is joined by; `counted` is set for one of them, so that the row is
    counted once, and told of once where it is late.
    """

    stream: Stream
    parts: Sequence[pa.RecordBatch]
    sides: Sides
    counted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInput:
    """`watermarks` and `horizons` are what was known of event time before the batch. `finish` says that no more rows
    will come: everything that waits is done and let out.
    """

    batch: int
    rows: Sequence[StreamRows] = ()
    watermarks: Mapping[Signature, int] = field(default_factory=dict)
    horizons: Mapping[str, int] = field(default_factory=dict)
    budget: Budget = UNBOUNDED
    finish: bool = False


class Results(NamedTuple):
    """Rows for all queries that get them. `arrived` counts the rows by the batch in which their probing tuples came."""

    queries: list[str]
    rows: pa.RecordBatch
    arrived: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutput:
    """What is known of the rows at once, and `results`, which come as they are asked for: the batch is done when they
    are all taken.
    """

    results: Iterator[Results]
    rows_in: Mapping[str, int]
    late: Sequence[Late]
    greatest: Mapping[str, int]
