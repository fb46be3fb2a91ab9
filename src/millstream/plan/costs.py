"""Costs: steps are counted once and priced in comparisons, as in the papers, or in nanoseconds of this engine.

`StepCounts` holds how often each elementary step happens per second of stream time. A `Costs` object is a price list
for these steps together with the way pairs are routed inside a merged slice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

Amount = Any
"""A float, or an array of floats where the merge pass evaluates many slices at once."""


@dataclass(frozen=True, slots=True)
class StepCounts:
    """Elementary steps per second."""

    inserts: Amount = 0.0
    """rows put into indexed state"""
    appends: Amount = 0.0
    """rows put into scanned state"""
    searches: Amount = 0.0
    """steps of binary searches: rows times the slices whose boundaries they search"""
    candidates: Amount = 0.0
    """probing rows times rows of indexed state: what a nested loop would compare"""
    scanned: Amount = 0.0
    """probing rows times rows of scanned state"""
    overscanned: Amount = 0.0
    """the same with rows outside the slice, in segments that lie across its boundaries"""
    found: Amount = 0.0
    """pairs found by scans"""
    purges: Amount = 0.0
    """rows times the slices whose state they purge"""
    pairs: Amount = 0.0
    """pairs made"""
    routed: Amount = 0.0
    """steps of routing pairs inside merged slices"""
    filtered: Amount = 0.0
    """predicates evaluated on tuples or pairs"""
    merged: Amount = 0.0
    """steps of order-preserving unions"""
    handovers: Amount = 0.0
    """rows times the operators they pass"""

    def __add__(self, other: StepCounts) -> StepCounts:
        return StepCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(StepCounts)))

    def total(self) -> StepCounts:
        """The sum over all slices or joins evaluated at once."""
        return StepCounts(*(float(np.sum(getattr(self, f.name))) for f in fields(StepCounts)))


@dataclass(frozen=True, slots=True)
class Part:
    """One direction of a slice: ages from start to end (us), the density of pairs, and the cuts inside."""

    start: Amount
    end: Amount
    pairs: Amount
    cuts: Amount
    cut_sum: Amount
    """start plus all cuts but the last, as ages"""
    near: Amount = 0.0
    """how much of it lies so near to a cut that pairs are routed (us)"""
    met: Amount = 0.0
    """how many cuts lie between the pairs of two segments"""


def route_every(part: Part) -> Amount:
    """state-slice 5.2 as printed: a pair is compared with every window that ends inside."""
    return part.pairs * part.cuts


@dataclass(frozen=True, slots=True)
class RouteByClass:
    """The engine's router: it sorts the pairs of two segments by the cuts among them, at `per_cut` for each cut in
    addition to the first step. Pairs with no cut among them are not routed.
    """

    per_cut: float

    def __call__(self, part: Part) -> Amount:
        width = np.maximum(part.end - part.start, 1)
        return part.pairs * (part.near / width + part.met * self.per_cut)


@dataclass(frozen=True, slots=True)
class Costs:
    """A price list. `access_ratio` is C_h / C_n of window-cost, an indexed tuple against a scanned one; without it,
    access paths are chosen by the prices.
    """

    name: str
    unit: str
    prices: StepCounts
    router: Callable[[Part], Amount]
    access_ratio: float | None = None

    def price(self, work: StepCounts) -> Amount:
        return sum(getattr(work, f.name) * getattr(self.prices, f.name) for f in fields(StepCounts))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The costs of elementary steps in nanoseconds; the defaults are medians of five `millstream calibrate` on an
    x86-64.

    `index_insert` includes merging segments, `search_step` the fixed costs of a unit, spread over the rows that probe.
    `scan_append` is a row of scanned state, which also costs more when it probes, because it is not sorted; `scan_find`
    is a match that a scan has found, in addition to `pair_emit`.
    """

    index_insert: float = 115.0
    scan_append: float = 85.0
    search_step: float = 13.8
    index_access: float = 2.95
    scan_compare: float = 0.64
    scan_find: float = 76.0
    pair_emit: float = 4.8
    route: float = 4.8
    route_cut: float = 1.1
    filter: float = 0.11


def calibrated(calibration: Calibration | None = None) -> Costs:
    """Nanoseconds on this engine, shown as milliseconds of one core per second of stream."""
    c = calibration or Calibration()
    millisecond = 1e-6
    prices = StepCounts(
        inserts=c.index_insert * millisecond,
        appends=c.scan_append * millisecond,
        searches=c.search_step * millisecond,
        scanned=c.scan_compare * millisecond,
        overscanned=c.scan_compare * millisecond,
        found=c.scan_find * millisecond,
        pairs=c.pair_emit * millisecond,
        routed=c.route * millisecond,
        filtered=c.filter * millisecond,
    )
    return Costs("calibrated", "ms CPU/s", prices, RouteByClass(c.route_cut / c.route))


def paper(c_sys: float, router: Callable[[Part], Amount] = route_every) -> Costs:
    """Comparisons per second, as state-slice counts them; window-cost measured 1.3 for the access ratio."""
    prices = StepCounts(candidates=1, scanned=1, purges=1, routed=1, filtered=1, merged=1, handovers=c_sys)
    return Costs("paper", "comparisons/s", prices, router, 1.3)
