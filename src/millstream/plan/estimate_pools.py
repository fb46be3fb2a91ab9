"""Estimates of pools: the rows they hold, beside those that a state of its own per chain would hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millstream.model.stream import Stream
from millstream.plan.estimate import Shares, lag
from millstream.plan.nodes import Chain, Lane, Plan, Pool


@dataclass(frozen=True, slots=True)
class PoolEstimate:
    """A pool, the numbers of the chains that read it, and its rows; those in every slot count once."""

    pool: Pool
    readers: tuple[int, ...]
    rows: float


def estimate_pools(plan: Plan) -> list[PoolEstimate]:
    numbers = {chain.signature: number for number, chain in enumerate(plan.chains, 1)}
    found = []
    for pool in plan.pools:
        readers = plan.readers(pool.name)
        rows = _rows(plan, pool.stream, pool.lanes, max(map(lag, readers)))
        found.append(PoolEstimate(pool, tuple(numbers[chain.signature] for chain in readers), rows))
    return found


def rows_per_chain(plan: Plan, chain: Chain) -> float:
    """The rows of a state that a chain has for itself, one for every position and key it looks up."""
    read = chain.read_at()
    return sum(_rows(plan, chain.streams[at], chain.kept[at], lag(chain)) for at, _ in read)


def _rows(plan: Plan, stream: Stream, lanes: Sequence[Lane], behind: int) -> float:
    return plan.statistics.rate(stream) * Shares(lanes, stream, plan.statistics).seconds(behind)
