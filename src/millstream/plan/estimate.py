"""How much state a chain holds and how much work it does: the arithmetic under merging, comparing and explaining.

A chain is looked at as two flows, one per direction. In each, the share of tuples that are still needed falls with
their age, lane by lane.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from millstream.model.duration import SECOND
from millstream.model.interval import Interval
from millstream.model.stream import Stream
from millstream.plan.choose_access import access_for
from millstream.plan.costs import Amount, Costs, Part, Work
from millstream.plan.nodes import LEFT, RIGHT, Chain, Direction, Lane, Plan, Slice
from millstream.plan.statistics import Statistics


class Shares:
    """The share of a stream's tuples that some query still needs at an age."""

    def __init__(self, asked: Sequence[Lane], stream: Stream, statistics: Statistics) -> None:
        self._ages = -np.array([lane.reach for lane in asked], dtype=np.int64)
        self._shares = np.array(statistics.unions(stream, (lane.condition for lane in asked)))
        self._conditions = np.array([0, *np.cumsum([bool(lane.condition) for lane in asked])])

    def at(self, age: Amount) -> Amount:
        return self._shares[np.searchsorted(self._ages, -np.asarray(age))]

    def filters(self, age: Amount) -> Amount:
        """How many conditions must still be told apart at this age: none where all queries left ask for the same."""
        count = np.searchsorted(self._ages, -np.asarray(age))
        return np.where(count > 1, self._conditions[count], 0)

    def seconds(self, borders: Sequence[int]) -> float:
        """How long tuples stay on average, when they leave only at one of these ages."""
        return float(np.sum(self.at(borders[:-1]) * np.diff(borders))) / SECOND


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction with its rates: `probe_rate` tuples a second look into the state of the other stream."""

    state_rate: Amount
    probe_rate: Amount
    selectivity: float
    access: str
    waiting: Shares
    probing: Shares

    def slice_work(self, part: Part, costs: Costs) -> Work:
        """What one slice costs in this direction; nothing where it has no extent in it."""
        present = np.where(part.end > part.start, 1.0, 0.0)
        probes = self.probe_rate * self.probing.at(part.start) * present
        state = self.state_rate * self.waiting.at(part.start) * (part.end - part.start) / SECOND
        compared = probes * state
        pairs = compared * self.selectivity
        indexed = self.access == "index"
        return Work(
            searches=probes,
            candidates=compared if indexed else 0.0,
            scanned=0.0 if indexed else compared,
            purges=self.probe_rate * present,
            pairs=pairs,
            routed=costs.router(Part(part.start, part.end, pairs, part.cuts, part.cut_sum)),
            filtered=pairs * (self.waiting.filters(part.start) + self.probing.filters(part.start)),
            handovers=self.probe_rate * present,
        )

    def fixed_work(self, unions: int) -> Work:
        """What the direction costs however it is sliced."""
        indexed = self.access == "index"
        return Work(
            inserts=self.state_rate * self.waiting.at(0),
            probes=self.probe_rate * self.probing.at(0) if indexed else 0.0,
            merged=self.probe_rate * unions,
        )


def flows(plan: Plan, chain: Chain) -> tuple[Flow, Flow]:
    """The flow into the left state and the flow into the right state."""
    left, right = chain.streams
    statistics, access = plan.statistics, access_for(plan, chain)

    def flow(direction: Direction, waits: Stream, probes: Stream, path: str) -> Flow:
        return Flow(
            statistics.rate(waits),
            statistics.rate(probes),
            statistics.join_selectivity(left, right, keyed=bool(chain.keys)),
            path,
            Shares(direction.asked_of_waiting, waits, statistics),
            Shares(direction.asked_of_probing, probes, statistics),
        )

    return flow(chain.left_state, left, right, access.left), flow(chain.right_state, right, left, access.right)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Rows of state and work of one way to run the queries of a chain."""

    left_rows: float
    right_rows: float
    work: Work
    cost: float

    @property
    def rows(self) -> float:
        return self.left_rows + self.right_rows


def estimate(plan: Plan, chain: Chain) -> Estimate:
    """The chain as it is sliced now."""
    work = Work(filtered=selection_work(plan, chain))
    rows = []
    for flow, side in zip(flows(plan, chain), (LEFT, RIGHT), strict=True):
        parts = [part for piece in chain.slices if (part := _part(piece, side)) is not None]
        work = work + flow.fixed_work(_unions(chain, side))
        if parts:
            work = work + flow.slice_work(stacked(parts), plan.costs).total()
        ages = sorted({0, *(age for part in parts for age in (part.start, part.end))})
        rows.append(flow.state_rate * flow.waiting.seconds(ages))
    return Estimate(rows[0], rows[1], work, float(plan.costs.price(work)))


def selection_work(plan: Plan, chain: Chain) -> float:
    """Each distinct predicate is evaluated once per tuple of its stream."""
    left, right = (plan.statistics.rate(stream) for stream in chain.streams)
    return left * len(chain.predicates(LEFT)) + right * len(chain.predicates(RIGHT))


def span_of(interval: Interval, side: str) -> tuple[int, int] | None:
    return interval.left_span if side == LEFT else interval.right_span


def _unions(chain: Chain, side: str) -> int:
    """How many queries are put together from more than one slice, before any are merged."""
    spans = [span for member in chain.members if (span := span_of(member.interval, side)) is not None]
    ages = sorted({age for span in spans for age in span})
    return sum(1 for span in spans if bisect_left(ages, span[1]) > bisect_right(ages, span[0]))


def _part(piece: Slice, side: str) -> Part | None:
    span = span_of(piece.interval, side)
    if span is None:
        return None
    ages = [cut for cut in piece.cuts if cut > 0] if side == LEFT else [1 - cut for cut in piece.cuts if cut < 0]
    return part_of(span, sorted(ages))


def part_of(span: tuple[int, int], cuts: Sequence[int]) -> Part:
    """One direction of a slice, from the ages it spans and the ages at which it is cut."""
    return Part(span[0], span[1], 0.0, len(cuts), span[0] + sum(cuts[:-1]))


def stacked(parts: Sequence[Part]) -> Part:
    """Many parts as one with arrays, to be weighed at once."""
    columns = zip(*((part.start, part.end, part.pairs, part.cuts, part.cut_sum) for part in parts), strict=True)
    return Part(*(np.array(column) for column in columns))
