"""Work is counted once and priced twice: in comparisons, as the papers do, or in nanoseconds of this engine.

`Work` holds how often each elementary step happens per second of stream time. A `Costs` object is a price list for
these steps together with the way pairs are routed inside a merged slice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

Amount = Any
"""A float, or an array of floats where the merge pass weighs many slices at once."""


@dataclass(frozen=True, slots=True)
class Work:
    """Elementary steps per second."""

    inserts: Amount = 0.0
    """rows put into state"""
    probes: Amount = 0.0
    """rows looked up in the other stream's index"""
    searches: Amount = 0.0
    """rows times the slices whose boundary they search"""
    candidates: Amount = 0.0
    """probing rows times rows of indexed state: what a nested loop would compare"""
    scanned: Amount = 0.0
    """probing rows times rows of scanned state"""
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

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Work)))

    def total(self) -> Work:
        """The sum over all slices or joins weighed at once."""
        return Work(*(float(np.sum(getattr(self, f.name))) for f in fields(Work)))


@dataclass(frozen=True, slots=True)
class Part:
    """One direction of a slice: ages from start to end (us), the density of pairs, and the cuts inside."""

    start: Amount
    end: Amount
    pairs: Amount
    cuts: Amount
    cut_sum: Amount
    """start plus all cuts but the last, as ages"""


def route_every(part: Part) -> Amount:
    """state-slice 5.2 as printed: a pair is compared with every window that ends inside."""
    return part.pairs * part.cuts


def route_first(part: Part) -> Amount:
    """A router that stops at the first window that takes the pair."""
    width = np.maximum(part.end - part.start, 1)
    return np.where(part.cuts > 0, part.pairs * (part.cuts * part.end - part.cut_sum) / width, 0.0)


def route_binary(part: Part) -> Amount:
    """Our engine's router: one binary search over the cuts, then one step to bring pairs of a class together."""
    return np.where(part.cuts > 0, part.pairs * (1 + np.log2(part.cuts + 1.0)), 0.0)


@dataclass(frozen=True, slots=True)
class Costs:
    """A price list. `access_ratio` is C_h / C_n of window-cost: an indexed tuple against a scanned one."""

    name: str
    unit: str
    prices: Work
    router: Callable[[Part], Amount]
    access_ratio: float

    def price(self, work: Work) -> Amount:
        return sum(getattr(work, f.name) * getattr(self.prices, f.name) for f in fields(Work))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What elementary steps cost, in nanoseconds; by default the median of five `millstream calibrate` on an x86-64.

    `boundary_search` includes the fixed cost of a unit, spread over the rows that probe in it.
    """

    index_insert: float = 88.0
    index_probe: float = 4.0
    boundary_search: float = 69.0
    index_access: float = 16.0
    scan_compare: float = 3.1
    pair_emit: float = 34.0
    route: float = 4.4
    filter: float = 0.13


def calibrated(calibration: Calibration | None = None) -> Costs:
    """Nanoseconds on this engine, shown as milliseconds of one core per second of stream."""
    c = calibration or Calibration()
    millisecond = 1e-6
    prices = Work(
        inserts=c.index_insert * millisecond,
        probes=c.index_probe * millisecond,
        searches=c.boundary_search * millisecond,
        scanned=c.scan_compare * millisecond,
        pairs=c.pair_emit * millisecond,
        routed=c.route * millisecond,
        filtered=c.filter * millisecond,
    )
    return Costs("calibrated", "ms CPU/s", prices, route_binary, c.index_access / c.scan_compare)


def paper(c_sys: float, router: Callable[[Part], Amount] = route_every) -> Costs:
    """Comparisons per second, as state-slice counts them; window-cost measured 1.3 for the access ratio."""
    prices = Work(candidates=1, scanned=1, purges=1, routed=1, filtered=1, merged=1, handovers=c_sys)
    return Costs("paper", "comparisons/s", prices, router, 1.3)
