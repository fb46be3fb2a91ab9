"""The same queries run four ways: unshared, selection pull-up, selection push-down, and as the planned chain.

These are equations 1 to 3 of state-slice, for any number of queries, either sign of the time difference and
different rates. With two queries, equal rates and `paper(0)` they are the printed equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log2

import numpy as np
import numpy.typing as npt

from millstream.model.duration import SECOND
from millstream.model.interval import Interval
from millstream.plan.costs import Part, StepCounts
from millstream.plan.cut_slices import endpoints, slices_at
from millstream.plan.estimate import Estimate, Flow, estimate, flows, lag, part_of, selection_work, span_of, stacked
from millstream.plan.nodes import LEFT, RIGHT, Chain, Condition, Plan
from millstream.plan.push_selections import push

Floats = npt.NDArray[np.float64]
Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """State rows and cost of each way."""

    unshared: Estimate
    pull_up: Estimate
    push_down: Estimate
    state_sliced: Estimate


def compare(plan: Plan, chain: Chain) -> Comparison:
    return Comparison(_unshared(plan, chain), _pull_up(plan, chain), _push_down(plan, chain), estimate(plan, chain))


def _unshared(plan: Plan, chain: Chain) -> Estimate:
    """Every query has its own join behind its own selections."""
    left_rows, right_rows, work = 0.0, 0.0, StepCounts()
    for member in chain.members:
        alone = replace(chain, members=(member,))
        one = estimate(plan, push(replace(alone, slices=slices_at(alone, endpoints(alone)))))
        left_rows, right_rows, work = left_rows + one.left_rows, right_rows + one.right_rows, work + one.work
    return Estimate(left_rows, right_rows, work, float(plan.costs.price(work)))


def _pull_up(plan: Plan, chain: Chain) -> Estimate:
    """Equation 1: one join of the widest window, then a router, then each selection on the pairs of its queries."""
    intervals = [member.interval for member in chain.members]
    work, rows = StepCounts(), []
    for flow, side in zip(flows(plan, _without_selections(chain)), (LEFT, RIGHT), strict=True):
        part = _joined(intervals, side, flow)
        work = work + flow.fixed_work(unions=0) + flow.slice_work(part, plan.costs)
        rows.append(flow.state_rate * (part.end + lag(chain)) / SECOND)
    asked: dict[Condition, list[Interval]] = {}
    for member in chain.members:
        for condition in filter(None, (member.left, member.right)):
            asked.setdefault(condition, []).append(member.interval)
    work = work + StepCounts(filtered=sum(_pairs(plan, chain, _hull(windows)) for windows in asked.values()))
    return Estimate(rows[0], rows[1], work, float(plan.costs.price(work)))


def _push_down(plan: Plan, chain: Chain) -> Estimate:
    """Equation 2: each stream is split by the widest query whose selection a tuple passes, and every two parts are
    joined.

    A join of two parts serves the queries up to the narrower of the two, so its rank is the smaller one.
    """
    members = chain.members
    shares = {side: _shares(plan, chain, side) for side in (LEFT, RIGHT)}
    # If almost no tuple passes any selection, the part of the widest query stands for an empty stream.
    parts = [found if len(found := np.flatnonzero(shares[side])) else [len(members) - 1] for side in (LEFT, RIGHT)]
    lefts, rights = (grid.ravel() for grid in np.meshgrid(*parts, indexing="ij"))
    ranks = np.minimum(lefts, rights)
    told_apart = _told_apart(chain, LEFT, lefts, ranks) + _told_apart(chain, RIGHT, rights, ranks)
    work, rows = StepCounts(), []
    for flow, side in zip(flows(plan, _without_selections(chain)), (LEFT, RIGHT), strict=True):
        waiting, probing = (shares[LEFT][lefts], shares[RIGHT][rights])[:: 1 if side == LEFT else -1]
        split = flow.split(waiting, probing)
        by_rank = {rank: _joined([m.interval for m in members[: rank + 1]], side, flow) for rank in set(ranks.tolist())}
        part = stacked([by_rank[rank] for rank in ranks.tolist()])
        joins = split.slice_work(part, plan.costs)
        work = work + split.fixed_work(unions=0) + replace(joins, filtered=joins.pairs * told_apart)
        rows.append(float(np.sum(split.state_rate * (part.end + lag(chain)))) / SECOND)
    work = work.total() + StepCounts(filtered=selection_work(plan, chain), merged=_unions(plan, chain, ranks))
    return Estimate(rows[0], rows[1], work, float(plan.costs.price(work)))


def _without_selections(chain: Chain) -> Chain:
    bare = (replace(member, conditions=(frozenset(), frozenset())) for member in chain.members)
    return push(replace(chain, members=tuple(bare)))


def _conditions(chain: Chain, side: int) -> list[Condition]:
    return [member.left if side == LEFT else member.right for member in chain.members]


def _shares(plan: Plan, chain: Chain, side: int) -> Floats:
    """For each query, the share of a stream's tuples for which it is the widest query whose selection they pass."""
    stream = chain.streams[0] if side == LEFT else chain.streams[1]
    unions = plan.statistics.unions(stream, reversed(_conditions(chain, side)))
    return np.diff(np.array(unions))[::-1]


def _told_apart(chain: Chain, side: int, parts: Ranks, ranks: Ranks) -> Ranks:
    """How many conditions a join must still check on its pairs, besides the one that its part of the stream passes."""
    conditions = _conditions(chain, side)
    counts: dict[tuple[int, int], int] = {}
    for part, rank in set(zip(parts.tolist(), ranks.tolist(), strict=True)):
        others = {condition for condition in conditions[: rank + 1] if not condition <= conditions[part]}
        counts[part, rank] = len(others)
    return np.array([counts[pair] for pair in zip(parts.tolist(), ranks.tolist(), strict=True)], dtype=np.int64)


def _unions(plan: Plan, chain: Chain, ranks: Ranks) -> float:
    """Merging the sorted results of all joins that feed a query: one comparison per row and doubling of the joins."""
    steps = 0.0
    for rank, member in enumerate(chain.members):
        joins = int(np.count_nonzero(ranks >= rank))
        if joins > 1:
            left, right = chain.streams
            passed = plan.statistics.selectivity(left, member.left) * plan.statistics.selectivity(right, member.right)
            steps += _pairs(plan, chain, member.interval) * passed * ceil(log2(joins))
    return steps


def _pairs(plan: Plan, chain: Chain, interval: Interval) -> float:
    """Pairs per second whose times differ by this much."""
    left, right = chain.streams
    rates = plan.statistics.rate(left) * plan.statistics.rate(right)
    ages = [span[1] - span[0] for span in (interval.left_span, interval.right_span) if span]
    return rates * plan.statistics.join_selectivity(left, right, keyed=bool(chain.keys)) * sum(ages) / SECOND


def _joined(intervals: Sequence[Interval], side: int, flow: Flow) -> Part:
    """One direction of a single join of all these windows; cuts are the ages inside at which windows begin or end."""
    present = [span for interval in intervals if (span := span_of(interval, side)) is not None]
    if not present:
        return part_of((0, 0), [], flow)
    whole = min(span[0] for span in present), max(span[1] for span in present)
    return part_of(whole, sorted({age for span in present for age in span if whole[0] < age < whole[1]}), flow)


def _hull(intervals: Sequence[Interval]) -> Interval:
    return Interval(min(interval.lo for interval in intervals), max(interval.hi for interval in intervals))
