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
from millstream.model.stream import Stream
from millstream.plan.choose_access import access_for
from millstream.plan.costs import Amount, Costs, Part, Work
from millstream.plan.nodes import LEFT, RIGHT, Chain, Direction, Lane, Plan, Slice
from millstream.plan.statistics import Statistics


class Shares:
    """The share of a stream's tuples that some query still needs at an age."""

    def __init__(self, lanes: Sequence[Lane], asked: Sequence[Lane], stream: Stream, statistics: Statistics) -> None:
        missed, shares = 1.0, [0.0]
        for lane in lanes:
            missed *= 1 - statistics.selectivity(stream, lane.condition)
            shares.append(1 - missed)
        self._shares = np.array(shares)
        self._reaches = np.array([lane.reach for lane in lanes], dtype=np.int64)
        self._asked = np.array([lane.reach for lane in asked], dtype=np.int64)
        self._nontrivial = np.array([0, *np.cumsum([bool(lane.condition) for lane in asked])])

    def at(self, age: Amount) -> Amount:
        return self._shares[np.searchsorted(-self._reaches, -np.asarray(age))]

    def filters(self, age: Amount) -> Amount:
        """How many conditions must still be told apart at this age: none where all queries left ask for the same."""
        count = np.searchsorted(-self._asked, -np.asarray(age))
        return np.where(count > 1, self._nontrivial[count], 0)

    def seconds(self) -> float:
        """How long tuples stay on average."""
        return float(np.sum(self._shares[1:] * -np.diff(self._reaches, append=0))) / SECOND


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
            statistics.join_selectivity(left, right),
            path,
            Shares(direction.waiting, direction.asked[0], waits, statistics),
            Shares(direction.probing, direction.asked[1], probes, statistics),
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
    into_left, into_right = flows(plan, chain)
    work = fixed_work(plan, chain)
    for piece in chain.slices:
        work = work + slice_work(plan, (into_left, into_right), piece)
    return Estimate(
        into_left.state_rate * into_left.waiting.seconds(),
        into_right.state_rate * into_right.waiting.seconds(),
        work,
        float(plan.costs.price(work)),
    )


def fixed_work(plan: Plan, chain: Chain) -> Work:
    """Inserting, looking up and selecting tuples, and uniting slices: the same however slices are merged."""
    work = Work()
    ends = {end for member in chain.members for end in (member.interval.lo, member.interval.hi)}
    spans = [[m.interval.left_span for m in chain.members], [m.interval.right_span for m in chain.members]]
    borders = [sorted(end for end in ends if end > 0), sorted(1 - end for end in ends if end < 0)]
    for flow, own_spans, own_borders in zip(flows(plan, chain), spans, borders, strict=True):
        inside = [
            bisect_left(own_borders, span[1]) - bisect_right(own_borders, span[0])
            for span in own_spans
            if span is not None
        ]
        work = work + flow.fixed_work(unions=sum(1 for count in inside if count > 0))
    rates = [plan.statistics.rate(stream) for stream in chain.streams]
    selected = sum(rate * len(chain.predicates(side)) for rate, side in zip(rates, (LEFT, RIGHT), strict=True))
    return work + Work(filtered=selected)


def slice_work(plan: Plan, both: tuple[Flow, Flow], piece: Slice) -> Work:
    """Both directions of one slice."""
    left_span, right_span = piece.interval.left_span, piece.interval.right_span
    work = Work()
    if left_span is not None:
        work = work + both[0].slice_work(part_of(left_span, [cut for cut in piece.cuts if cut > 0]), plan.costs)
    if right_span is not None:
        ages = sorted(1 - cut for cut in piece.cuts if cut < 0)
        work = work + both[1].slice_work(part_of(right_span, ages), plan.costs)
    return work


def part_of(span: tuple[int, int], cuts: Sequence[int]) -> Part:
    """One direction of a slice, from the ages it spans and the ages at which it is cut."""
    return Part(span[0], span[1], 0.0, len(cuts), span[0] + sum(cuts[:-1]))
