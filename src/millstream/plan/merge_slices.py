"""Pass 5: merge neighbouring slices where routing pairs is cheaper than searching boundaries (state-slice 5.2).

Each direction is a graph of its own: the nodes are the ages at which queries begin or end, an edge is a slice
between two of them, its length what that slice costs. The cheapest way to merge is the shortest path, and since
edges only lead outward one sweep finds it. All edges that end at a node are weighed at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from millstream.plan.costs import Costs, Part
from millstream.plan.cut_slices import slices_at
from millstream.plan.estimate import Flow, flows
from millstream.plan.nodes import Chain, Plan
from millstream.plan.push_selections import push

Ages = npt.NDArray[np.int64]


def merge_slices(plan: Plan) -> Plan:
    if plan.script.settings.slicing == "memory":
        return plan
    return replace(plan, chains=tuple(_merge(plan, chain) for chain in plan.chains))


def _merge(plan: Plan, chain: Chain) -> Chain:
    """A slice around zero has a part in both directions; zero is a cut only where a query ends there."""
    into_left, into_right = flows(plan, chain)
    intervals = [piece.interval for piece in chain.slices]
    ends = {end for interval in intervals for end in (interval.lo, interval.hi)}
    kept: set[int] = set()
    for run in _runs(span for interval in intervals if (span := interval.left_span)):
        kept.update(_shortest_path(into_left, plan.costs, run))
    for run in _runs(span for interval in intervals if (span := interval.right_span)):
        kept.update(1 - age for age in _shortest_path(into_right, plan.costs, run))
    return push(replace(chain, slices=slices_at(chain, sorted(kept & ends))))


def _runs(spans: Iterable[tuple[int, int]]) -> Iterator[Ages]:
    """The borders of each stretch of slices without a gap, in ages."""
    borders: list[int] = []
    for start, end in sorted(spans):
        if borders and borders[-1] != start:
            yield np.array(borders, dtype=np.int64)
            borders = []
        borders = [*(borders or [start]), end]
    if borders:
        yield np.array(borders, dtype=np.int64)


def _shortest_path(flow: Flow, costs: Costs, ages: Ages) -> list[int]:
    sums = np.concatenate(([0], np.cumsum(ages)))
    length = np.zeros(len(ages))
    before = np.zeros(len(ages), dtype=np.int64)
    for node in range(1, len(ages)):
        first = np.arange(node)
        inside = node - 1 - first
        all_but_last = sums[node - 1] - sums[np.minimum(first + 1, node - 1)]
        part = Part(ages[:node], np.full(node, ages[node]), 0.0, inside, ages[:node] + all_but_last)
        through = length[:node] + costs.price(flow.slice_work(part, costs))
        before[node] = np.argmin(through)
        length[node] = through[before[node]]
    path = [len(ages) - 1]
    while path[-1] > 0:
        path.append(int(before[path[-1]]))
    return [int(ages[node]) for node in path]
