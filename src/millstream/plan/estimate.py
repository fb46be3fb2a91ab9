"""Estimates of a chain's state and work, which merging, comparing and explaining use.

A chain is modelled as two flows, one per direction. In each, the share of tuples that are still needed falls with their
age, lane by lane.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from millstream.model.duration import SECOND
from millstream.model.interval import Interval
from millstream.model.stream import Stream
from millstream.plan.costs import Amount, Costs, Part, StepCounts
from millstream.plan.nodes import LEFT, RIGHT, Chain, Direction, Lane, Plan, Slice
from millstream.plan.statistics import Statistics

Ages = npt.NDArray[np.int64]
_SPAN = 0.4
"""How much of the widest window the pairs of two segments cover: large segments span a quarter of it, and a batch."""
_STEPS = 3.0
"""The fixed cost of searching a slice's boundary, in steps of its binary search."""


class Shares:
    """The share of a stream's tuples that some query still needs at an age."""

    def __init__(self, asked: Sequence[Lane], stream: Stream, statistics: Statistics) -> None:
        self._ages = -np.array([lane.reach for lane in asked], dtype=np.int64)
        self._shares = np.array(statistics.unions(stream, (lane.condition for lane in asked)))
        self._conditions = np.array([0, *np.cumsum([bool(lane.condition) for lane in asked])])

    def at(self, age: Amount) -> Amount:
        return self._shares[np.searchsorted(self._ages, -np.asarray(age))]

    def filters(self, age: Amount) -> Amount:
        """How many conditions must still be checked at this age: none where all remaining queries have the same."""
        count = np.searchsorted(self._ages, -np.asarray(age))
        return np.where(count > 1, self._conditions[count], 0)

    def ends(self) -> list[int]:
        """The ages above zero at which a share ends, from the nearest to the farthest."""
        return [-age for age in self._ages[::-1].tolist() if age < 0]

    def seconds(self, lag: int) -> float:
        """How long tuples stay on average, with a watermark that lags this far behind."""
        stays = np.maximum(lag - self._ages, 0)
        return float(np.sum(np.diff(self._shares) * stays)) / SECOND


class Flow:
    """One direction with its rates: `probe_rate` tuples a second probe the state of the other stream."""

    def __init__(
        self, state_rate: Amount, probe_rate: Amount, selectivity: float, access: str, waiting: Shares, probing: Shares
    ) -> None:
        self.state_rate, self.probe_rate, self.selectivity = state_rate, probe_rate, selectivity
        self.access, self.waiting, self.probing = access, waiting, probing
        ends = np.array(sorted({0, *waiting.ends(), *probing.ends()}), dtype=np.int64)
        wanted = waiting.at(ends[:-1]) * probing.at(ends[:-1]) * np.diff(ends) / SECOND
        self._ends, self._wanted = ends, np.concatenate(([0.0], np.cumsum(wanted)))
        self.span = int(_SPAN * int(ends[-1]))
        rows_per_key = state_rate * (int(ends[-1]) / SECOND) * selectivity
        self._search_steps = _STEPS + np.log2(1 + rows_per_key)

    def split(self, waiting: Amount, probing: Amount) -> Flow:
        """The flows between parts of the two streams."""
        rates = self.state_rate * waiting, self.probe_rate * probing
        return Flow(*rates, self.selectivity, self.access, self.waiting, self.probing)

    def slice_work(self, part: Part, costs: Costs) -> StepCounts:
        """The work of one slice in this direction; none where it has no extent in it.

        Tuples that no query needs any more are not compared, however far the slice reaches.
        """
        present = np.where(part.end > part.start, 1.0, 0.0)
        probes = self.probe_rate * self.probing.at(part.start) * present
        wanted = np.interp(part.end, self._ends, self._wanted) - np.interp(part.start, self._ends, self._wanted)
        compared = self.probe_rate * self.state_rate * wanted
        pairs = compared * self.selectivity
        indexed = self.access == "index"
        width, reach = part.end - part.start, int(self._ends[-1])
        beside = np.maximum(np.minimum(width + self.span, reach) - width, 0) / SECOND
        return StepCounts(
            searches=probes * self._search_steps,
            candidates=compared if indexed else 0.0,
            scanned=0.0 if indexed else compared,
            overscanned=0.0 if indexed else probes * self.state_rate * beside,
            found=0.0 if indexed else pairs,
            purges=self.probe_rate * present,
            pairs=pairs,
            routed=costs.router(replace(part, pairs=pairs)),
            filtered=pairs * (self.waiting.filters(part.start) + self.probing.filters(part.start)),
            handovers=self.probe_rate * present,
        )

    def fixed_work(self, unions: int) -> StepCounts:
        """The work of the direction that does not depend on slicing."""
        arriving = self.state_rate * self.waiting.at(0)
        return StepCounts(
            inserts=arriving if self.access == "index" else 0.0,
            appends=0.0 if self.access == "index" else arriving,
            merged=self.probe_rate * unions,
        )


def flows(plan: Plan, chain: Chain) -> tuple[Flow, Flow]:
    """The flow into the left state and the flow into the right state."""
    left, right = chain.streams
    statistics = plan.statistics

    def flow(direction: Direction, waits: Stream, probes: Stream, path: str) -> Flow:
        return Flow(
            statistics.rate(waits),
            statistics.rate(probes),
            statistics.join_selectivity(left, right, keyed=bool(chain.keys), chain=chain.signature),
            path,
            Shares(direction.waiting, waits, statistics),
            Shares(direction.probing, probes, statistics),
        )

    access = chain.access
    return flow(chain.left_state, left, right, access.left), flow(chain.right_state, right, left, access.right)


@dataclass(frozen=True, slots=True)
class Estimate:
    """State rows and work of one way to run the queries of a chain."""

    left_rows: float
    right_rows: float
    work: StepCounts
    cost: float

    @property
    def rows(self) -> float:
        return self.left_rows + self.right_rows


def estimate(plan: Plan, chain: Chain) -> Estimate:
    """The estimate of the chain as it is sliced."""
    work = StepCounts(filtered=selection_work(plan, chain))
    rows = []
    for flow, side, stream in zip(flows(plan, chain), (LEFT, RIGHT), chain.streams, strict=True):
        parts = [part for piece in chain.slices if (part := _part(piece, side, flow)) is not None]
        work = work + flow.fixed_work(_unions(chain, side))
        if parts:
            work = work + flow.slice_work(stacked(parts), plan.costs).total()
        kept = Shares(chain.kept[side], stream, plan.statistics)
        rows.append(flow.state_rate * kept.seconds(lag(chain)))
    return Estimate(rows[0], rows[1], work, float(plan.costs.price(work)))


def lag(chain: Chain) -> int:
    """How far the watermark lags behind the newest tuples: state is kept for that much longer."""
    return max(stream.delay for stream in chain.streams)


def selection_work(plan: Plan, chain: Chain) -> float:
    """Each distinct predicate is evaluated when a tuple of its stream arrives, for all queries at once."""
    left, right = (plan.statistics.rate(stream) for stream in chain.streams)
    return left * len(chain.predicates(LEFT)) + right * len(chain.predicates(RIGHT))


def span_of(interval: Interval, side: int) -> tuple[int, int] | None:
    return interval.left_span if side == LEFT else interval.right_span


def _unions(chain: Chain, side: int) -> int:
    """How many queries are unions of more than one slice, before slices are merged."""
    spans = [span for member in chain.members if (span := span_of(member.interval, side)) is not None]
    ages = sorted({age for span in spans for age in span})
    return sum(1 for span in spans if bisect_left(ages, span[1]) > bisect_right(ages, span[0]))


def _part(piece: Slice, side: int, flow: Flow) -> Part | None:
    span = span_of(piece.interval, side)
    if span is None:
        return None
    ages = [cut for cut in piece.cuts if cut > 0] if side == LEFT else [1 - cut for cut in piece.cuts if cut < 0]
    return part_of(span, sorted(ages), flow)


def part_of(span: tuple[int, int], cuts: Sequence[int], flow: Flow) -> Part:
    """One direction of a slice, from the ages it spans and the ages at which it is cut."""
    every = Borders(np.array([span[0], *cuts, span[1]], dtype=np.int64), flow.span).ending_at(len(cuts) + 1)
    return Part(*(float(getattr(every, f.name)[0]) for f in fields(Part)))


class Borders:
    """Ages at which one direction may be sliced. `span` is how much of the axis the pairs of two segments cover."""

    def __init__(self, ages: Ages, span: int) -> None:
        self.ages, self._span = ages, span
        self._sums = np.concatenate(([0], np.cumsum(ages)))
        self._gaps = np.concatenate(([0], np.cumsum(np.minimum(np.diff(ages), span))))

    def ending_at(self, node: int) -> Part:
        """All slices that end at one of the ages, one for each earlier age as start, with the ages between as cuts."""
        ages, first = self.ages, np.arange(node)
        start, end = ages[:node], np.full(node, ages[node])
        inside = node - 1 - first
        all_but_last = self._sums[node - 1] - self._sums[np.minimum(first + 1, node - 1)]
        half = self._span // 2
        edges = np.minimum(ages[1 : node + 1] - start, half) + min(int(ages[node] - ages[node - 1]), half)
        near = np.where(inside > 0, self._gaps[node - 1] - self._gaps[first + 1] + edges, 0)
        met = self._around(node, start, half) / np.maximum(end - start, 1)
        return Part(start, end, np.zeros(node), inside, start + all_but_last, near, met)

    def _around(self, node: int, start: Ages, half: int) -> Ages:
        """For slices that begin at these ages and end at a node: the sum of the widths around all cuts inside."""
        first, end = np.arange(node) + 1, int(self.ages[node])
        low = np.clip(np.searchsorted(self.ages, start + half), first, node)
        high = np.clip(np.searchsorted(self.ages, end - half), first, node)
        sums = self._sums
        below: Ages = start * (low - first) + sums[node] - sums[low] - half * (node - low)
        above: Ages = sums[high] - sums[first] + half * (high - first) + end * (node - high)
        return above - below


def stacked(parts: Sequence[Part]) -> Part:
    """Many parts as one part of arrays, to be evaluated at once."""
    return Part(*(np.array([getattr(part, f.name) for part in parts]) for f in fields(Part)))
