"""How far pools reach where memory is short and there is no disk (window-cost, section 4.3, `memory_short = 'shrink'`).

A row of a pool at some age meets later rows of other streams. So a slice of a pool, its rows between two ages, has
bytes and results per second, and it can only be kept if the nearer slices are. The reaches sought keep most results:

    maximise   sum over pools  results of the slices up to its reach
    subject to sum over pools  bytes of the slices up to its reach  <=  memory

For queries of two streams the results of a slice do not depend on what other pools keep. Where they fall with age, per
byte, taking slices in the order of results per byte is best, the last in part: any other choice has a slice that could
be exchanged for a better one. For one query this is equations 12 and 13: all memory to the slower stream, the rest, if
its window is full, to the faster.

A query that begins at some age (`BETWEEN 5 AND 10 MINUTES`) makes farther slices better than nearer ones. Then at most
one pool ends inside a slice (of two, one could give room to the other), so all ends of slices are tried for the pools
like this, and the others share what is left as above. Beyond `_TRIED` choices the slices of such a pool are taken
together as far as their mean is best (its concave hull), which loses less than the last such block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product
from math import prod

import numpy as np
import numpy.typing as npt

from millstream.plan.load import Load

_TRIED = 20_000
_CUTS = 32
"""Into how many parts a pool is cut where queries of three and more streams make slices depend on each other."""


@dataclass(frozen=True, slots=True)
class PoolSlice:
    """The rows of a pool between two ages (seconds): their bytes, and the weighted results per second they give."""

    pool: str
    start: float
    end: float
    bytes: float
    results: float


@dataclass(frozen=True, slots=True)
class _Curve:
    """A pool: ages at which slices end, with all bytes and results up to there."""

    ages: npt.NDArray[np.float64]
    bytes: npt.NDArray[np.float64]
    results: npt.NDArray[np.float64]

    @classmethod
    def of(cls, slices: Sequence[PoolSlice]) -> _Curve:
        ordered = sorted(slices, key=lambda one: one.start)
        steps = ((one.end - one.start, one.bytes, one.results) for one in ordered)
        return cls(*(np.concatenate(([0.0], np.cumsum(column))) for column in zip(*steps, strict=True)))

    def hull(self) -> list[int]:
        """The ends of slices on the concave hull of results over bytes."""
        kept = [0]
        for place in range(1, len(self.bytes)):
            while len(kept) > 1 and self._rise(kept[-2], kept[-1]) <= self._rise(kept[-1], place):
                kept.pop()
            kept.append(place)
        return kept

    def _rise(self, first: int, last: int) -> float:
        gained, paid = self.results[last] - self.results[first], self.bytes[last] - self.bytes[first]
        return float(gained / paid) if paid > 0 else float("inf")

    @property
    def concave(self) -> bool:
        worth = np.interp(self.bytes, self.bytes[self.hull()], self.results[self.hull()])
        return bool(np.all(worth <= self.results * (1 + 1e-12) + 1e-300))

    def reach(self, nbytes: float) -> float:
        """How far these bytes reach; the farthest age where more is free."""
        place = int(np.searchsorted(self.bytes, nbytes, side="right")) - 1
        if place >= len(self.bytes) - 1:
            return float(self.ages[-1])
        inside = (nbytes - self.bytes[place]) / (self.bytes[place + 1] - self.bytes[place])
        return float(self.ages[place] + inside * (self.ages[place + 1] - self.ages[place]))

    def worth(self, nbytes: float) -> float:
        return float(np.interp(nbytes, self.bytes, self.results))


def allot(slices: Iterable[PoolSlice], memory: float) -> dict[str, float]:
    """The reach of each pool, in seconds, that keeps the most results in this many bytes. Slices begin at age 0."""
    grouped: dict[str, list[PoolSlice]] = {}
    for one in slices:
        grouped.setdefault(one.pool, []).append(one)
    curves = {pool: _Curve.of(some) for pool, some in grouped.items()}
    spent = _spend(curves, max(memory, 0.0))
    return {pool: curve.reach(spent[pool]) for pool, curve in curves.items()}


def _spend(curves: Mapping[str, _Curve], memory: float) -> dict[str, float]:
    """The bytes of each pool."""
    uneven = [pool for pool, curve in curves.items() if not curve.concave]
    even = {pool: curve for pool, curve in curves.items() if pool not in uneven}
    ends = sum(len(curve.bytes) for curve in even.values()) + 1
    tried = prod(len(curves[pool].bytes) for pool in uneven) * ends
    if not uneven or tried > _TRIED:
        return _greedy(curves, memory)
    together = _merged(even)
    best, spent = -1.0, dict[str, float]()
    for choice in _choices([curves[pool] for pool in uneven], together, memory):
        left = memory - sum(choice)
        worth = sum(curves[pool].worth(nbytes) for pool, nbytes in zip(uneven, choice, strict=True))
        worth += together.worth(left)
        if worth > best:
            best, spent = worth, dict(zip(uneven, choice, strict=True))
    return spent | _greedy(even, memory - sum(spent.values()))


def _choices(uneven: Sequence[_Curve], together: _Curve, memory: float) -> Iterable[tuple[float, ...]]:
    """The bytes of the uneven pools: all at ends of slices, or all but one, which takes what the others leave."""
    for ends in product(*(curve.bytes.tolist() for curve in uneven)):
        if sum(ends) <= memory:
            yield ends
    for place, curve in enumerate(uneven):
        others = [other.bytes.tolist() for number, other in enumerate(uneven) if number != place]
        for *some, rest in product(*others, together.bytes.tolist()):
            left = memory - sum(some) - rest
            if left >= 0:
                yield (*some[:place], min(left, float(curve.bytes[-1])), *some[place:])


def _blocks(curves: Mapping[str, _Curve]) -> list[tuple[float, str, float, float]]:
    """The blocks of the concave hulls, the best first: results per byte, pool, bytes, results."""
    found = []
    for pool, curve in curves.items():
        hull = curve.hull()
        for first, last in pairwise(hull):
            nbytes, results = (float(each[last] - each[first]) for each in (curve.bytes, curve.results))
            found.append((results / nbytes if nbytes > 0 else float("inf"), pool, nbytes, results))
    return sorted(found, key=lambda block: -block[0])


def _greedy(curves: Mapping[str, _Curve], memory: float) -> dict[str, float]:
    """Blocks in the order of results per byte, the last in part. A block without results is kept if there is room."""
    spent = dict.fromkeys(curves, 0.0)
    for _, pool, nbytes, _ in _blocks(curves):
        taken = min(nbytes, memory)
        spent[pool] += taken
        memory -= taken
    return spent


def _merged(curves: Mapping[str, _Curve]) -> _Curve:
    """The best results of all these pools together, over their bytes; ages have no meaning."""
    blocks = _blocks(curves)
    nbytes, results = ([0.0, *np.cumsum([block[column] for block in blocks])] for column in (2, 3))
    return _Curve(np.array(nbytes), np.array(nbytes), np.array(results))


def pool_slices(load: Load) -> list[PoolSlice]:
    """The slices between the ages at which spans of queries begin and end, and fewer rows are kept, for queries of two
    streams.

    For more, results are those of the slice if all other pools keep what they keep in this load.
    """
    found = []
    for pool, reach in load.reaches.items():
        density = _densities(load, pool)
        changes = {age for age, _ in load.parts(pool) if age < reach}
        ages = sorted({0.0, *changes, *(age for span, _ in density for age in span)})
        for start, end in pairwise(ages):
            results = sum(worth for (low, high), worth in density if low <= start and end <= high) * (end - start)
            nbytes = load.bytes_within(pool, end) - load.bytes_within(pool, start)
            found.append(PoolSlice(pool, start, end, nbytes, results))
    return found


def _densities(load: Load, pool: str) -> list[tuple[tuple[float, float], float]]:
    """The spans of a pool, with the weighted results per second that each second of them gives."""
    found = []
    for query in load.queries:
        rates = float(np.prod([load.rates[name] for name in query.streams]))
        for place, name in enumerate(query.pools):
            if name == pool:
                others = [width for number, width in enumerate(query.widths) if number != place]
                met = sum(float(np.prod(others[:last] + others[last + 1 :])) for last in range(len(others)))
                found.append((query.spans[place], query.weight * query.selectivity * rates * met))
    return found


def shrink(load: Load) -> dict[str, float]:
    """The reach of each pool that keeps the most weighted results in `load.memory` (eq. 12, 13).

    Exact for queries of two streams. With more, what a slice gives depends on the other pools: then the least results
    per byte are given up, from the far ends, until the rest fits, and memory is moved between pools while that helps.
    """
    if load.bytes <= load.memory:
        return load.reaches
    if all(len(query.streams) == 2 for query in load.queries):
        return allot(pool_slices(load), load.memory)
    starts = (_given_up(load), allot(pool_slices(load), load.memory))
    return max((_exchanged(load, start) for start in starts), key=lambda reaches: load.within(reaches).results)


def _given_up(load: Load) -> dict[str, float]:
    """From all pools at full reach, cuts what loses least per byte, as the load then is, until the rest fits."""
    reaches = dict(load.reaches)
    parts = {pool: reach / _CUTS for pool, reach in reaches.items()}
    held, results = load.bytes, load.results
    while held > load.memory:
        options = []
        for pool, reach in reaches.items():
            for cut in range(1, _CUTS + 1):
                left = max(reach - cut * parts[pool], 0.0)
                saved = load.bytes_within(pool, reach) - load.bytes_within(pool, left)
                if saved > 0:
                    after = load.within(reaches | {pool: left}).results
                    options.append(((results - after) / saved, -saved, pool, left))
                if left == 0 or saved >= held - load.memory:
                    break
        if not options:
            break
        _, _, pool, left = min(options)
        most = load.bytes_within(pool, reaches[pool])
        reaches[pool] = max(left, min(load.reach_of(pool, most - (held - load.memory)), reaches[pool]))
        held -= most - load.bytes_within(pool, reaches[pool])
        results = load.within(reaches).results
    return reaches


def _exchanged(load: Load, start: Mapping[str, float]) -> dict[str, float]:
    """Moves memory from one pool to another while that gives more, in parts that become smaller."""
    reaches, most = dict(start), load.reaches
    sized = [pool for pool, reach in most.items() if load.bytes_within(pool, reach) > 0]
    results, part = load.within(reaches).results, load.memory / 2
    while part > load.memory / _CUTS**2:
        moved = False
        for giver, taker in permutations(sized, 2):
            has, had = (load.bytes_within(pool, reaches[pool]) for pool in (giver, taker))
            nbytes = min(part, has, load.bytes_within(taker, most[taker]) - had)
            given = {
                giver: min(load.reach_of(giver, has - nbytes), most[giver]),
                taker: min(load.reach_of(taker, had + nbytes), most[taker]),
            }
            after = load.within(reaches | given).results
            if after > results * (1 + 1e-9):
                reaches, results, moved = reaches | given, after, True
        part = part if moved else part / 2
    return reaches
