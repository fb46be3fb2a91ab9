"""Pass 6: merge neighbouring slices where routing pairs is cheaper than searching boundaries (state-slice 5.2).

Each direction is a graph of its own: the nodes are the ages at which queries begin or end, an edge is a slice between
two of them, its length what that slice costs. The cheapest way to merge is the shortest path, and since edges only lead
outward one sweep finds it. All edges that end at a node are evaluated at once.

With a budget, work may be deferred: a query has its rows when all slices up to its end are done. So the cost of a slice
counts for every query that still waits for it, relative to the cost of that query alone. The shortest path is then the
chain with the least mean slowdown: small windows, which are done soon, do not wait for large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from millstream.plan.costs import Costs
from millstream.plan.cut_slices import slices_at
from millstream.plan.estimate import Ages, Borders, Flow, flows, part_of, span_of, stacked
from millstream.plan.nodes import LEFT, RIGHT, Chain, Plan

Weigh = Callable[[Ages], npt.NDArray[np.float64]]
_LEAST = 1e-12


def merge_slices(plan: Plan) -> Plan:
    if plan.script.settings.slicing == "memory":
        return plan
    return replace(plan, chains=tuple(_merge(plan, chain) for chain in plan.chains))


def _merge(plan: Plan, chain: Chain) -> Chain:
    """A slice around zero has a part in both directions; zero is a cut only where a query ends there.

    In a chain of more than two streams each slice walks from the beginning, so without a budget there is one.
    """
    if not chain.is_pairwise:
        if plan.script.settings.budget:
            return chain
        runs = list(_runs((piece.interval.lo, piece.interval.hi) for piece in chain.slices))
        return replace(chain, slices=slices_at(chain, [int(age) for run in runs for age in (run[0], run[-1])]))
    into_left, into_right = flows(plan, chain)
    intervals = [piece.interval for piece in chain.slices]
    ends = {end for interval in intervals for end in (interval.lo, interval.hi)}
    left, right = _waiting(plan, chain, LEFT, into_left), _waiting(plan, chain, RIGHT, into_right)
    kept: set[int] = set()
    for run in _runs(span for interval in intervals if (span := interval.left_span)):
        kept.update(_shortest_path(into_left, plan.costs, run, left))
    for run in _runs(span for interval in intervals if (span := interval.right_span)):
        kept.update(1 - age for age in _shortest_path(into_right, plan.costs, run, right))
    return replace(chain, slices=slices_at(chain, sorted(kept & ends)))


def _waiting(plan: Plan, chain: Chain, side: int, flow: Flow) -> Weigh:
    """The weight of the cost of slices that begin at these ages: one; or, where work may be deferred, the sum over all
    queries that end later of 1 / (cost of the query alone).
    """
    spans = sorted(
        (span for member in chain.members if (span := span_of(member.interval, side)) is not None),
        key=lambda span: span[1],
    )
    if not plan.script.settings.budget or not spans:
        return lambda ages: np.ones(len(ages))
    alone = plan.costs.price(flow.slice_work(stacked([part_of(span, [], flow) for span in spans]), plan.costs))
    weights = np.concatenate(([0.0], np.cumsum(1 / np.maximum(alone, _LEAST))))
    ends = np.array([span[1] for span in spans], dtype=np.int64)
    return lambda ages: weights[-1] - weights[np.searchsorted(ends, ages, side="right")]


def _runs(spans: Iterable[tuple[int, int]]) -> Iterator[Ages]:
    """The borders of each run of slices without a gap, in ages."""
    borders: list[int] = []
    for start, end in sorted(spans):
        if borders and borders[-1] != start:
            yield np.array(borders, dtype=np.int64)
            borders = []
        borders = [*(borders or [start]), end]
    if borders:
        yield np.array(borders, dtype=np.int64)


def _shortest_path(flow: Flow, costs: Costs, ages: Ages, waiting: Weigh) -> list[int]:
    borders, counted = Borders(ages, flow.span), waiting(ages)
    length = np.zeros(len(ages))
    before = np.zeros(len(ages), dtype=np.int64)
    for node in range(1, len(ages)):
        through = length[:node] + costs.price(flow.slice_work(borders.ending_at(node), costs)) * counted[:node]
        before[node] = np.argmin(through)
        length[node] = through[before[node]]
    path = [len(ages) - 1]
    while path[-1] > 0:
        path.append(int(before[path[-1]]))
    return [int(ages[node]) for node in path]
