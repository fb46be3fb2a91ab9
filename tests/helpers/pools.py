"""Rows as a plan's pools take them in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from millstream.engine.intake import Intake
from millstream.engine.pairs import Conditions
from millstream.engine.segment import Segment
from millstream.plan.nodes import Chain, Lane, Plan, PoolName

TO_ALL = Lane(10**15, frozenset())
"""Keeps everything."""


def taken_in(
    plan: Plan,
    pool: PoolName,
    rows: pa.RecordBatch,
    batch: int,
    number: Callable[[], int],
    *,
    lanes: Sequence[Lane] | None = None,
    hash_bits: int = 64,
) -> list[Segment]:
    """The segments that a pool makes of rows, in its own lanes or in others."""
    found = plan.pool(pool)
    if lanes is not None:
        found = replace(found, lanes=tuple(lanes))
    intake = Intake(found, {}, readers=(), conditions=Conditions({}, {}), hash_bits=hash_bits)
    return intake.segments(rows, batch, frozenset(), number)


def one_segment(plan: Plan, pool: PoolName, rows: pa.RecordBatch, number: int, *, hash_bits: int = 64) -> Segment:
    """All rows in one segment, whatever the lanes; its number is that of its batch too."""
    (one,) = taken_in(plan, pool, rows, number, lambda: number, lanes=[TO_ALL], hash_bits=hash_bits)
    return one


def other(chain: Chain, at: int) -> PoolName:
    """The pool that tuples which arrive at a position look up in a chain of two streams."""
    return chain.walks[at][0].pool
