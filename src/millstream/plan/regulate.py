"""Which share of rows, or of keys, to keep where rows come faster than they can be joined (window-cost, section 4.2).

With shares p of the streams' rows kept one by one, a query of streams S gives the product of p over S of its results.
Results and work are sums of such products, and the shares sought give the most results for the work there is:

    maximise   sum over queries  weight x results x product of p over its streams
    subject to sum over streams  row work x p  +  sum over joins  pair work x product of p  <=  capacity,  0 <= p <= 1

For one query of two streams this is equation 10 and its solution equation 11: each stream gets half of the service,
and where one does not need its half, the other gets the rest.

In logarithms the results are a convex function, which lies above its tangents. A tangent is a weighted sum of log p,
whose best point gives each stream as much of the work as it has part in the results. Going from best point to best
point never gives fewer results. Such a function has many maxima, which serve some queries and leave others, so the
steps begin near all unions of queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.plan.load import Load

Array = npt.NDArray[np.float64]
_NOTHING = -300.0
"""The logarithm of a share that counts as zero: products of several are still numbers."""
_ZERO = 1e-12
_FACES = 64
_TILT = 3.0
_SEMIFINALISTS, _FINALISTS, _LEAPS, _CLOSE, _ENLARGED = 16, 4, 20, 1e-7, 2


@dataclass(frozen=True, slots=True)
class _Products:
    """A sum of products of shares: `amounts` times the product of shares to the power of `powers`, row by row."""

    amounts: Array
    powers: Array

    @classmethod
    def of(cls, terms: Iterable[tuple[Sequence[str], float]], places: dict[str, int]) -> _Products:
        found: dict[tuple[int, ...], float] = {}
        for streams, amount in terms:
            powers = [0] * len(places)
            for name in streams:
                powers[places[name]] += 1
            if amount > 0:
                found[tuple(powers)] = found.get(tuple(powers), 0.0) + amount
        powers_of = np.array(list(found), dtype=float).reshape(len(found), len(places))
        return cls(np.array(list(found.values())), powers_of)

    def at(self, logs: Array) -> Array:
        """Each product, for each row of logarithms of shares."""
        return np.asarray(self.amounts * np.exp(logs @ self.powers.T))


def keep_rows(load: Load) -> dict[str, float]:
    """The share of each stream's rows to keep so that the weighted results of all queries are most (eq. 10, 11).

    A stream may get nothing: where queries compete, serving one well gives more than serving two by half.
    """
    names = [stream.name for stream in load.streams]
    if load.work <= load.capacity:
        return dict.fromkeys(names, 1.0)
    places = {name: place for place, name in enumerate(names)}
    results = _Products.of(((q.streams, q.weight * load.results_of(q)) for q in load.queries), places)
    if not len(results.amounts) or load.capacity <= 0:
        return dict.fromkeys(names, 0.0)
    rows = [((name,), work) for name, work in load.row_work.items()]
    pairs = [(made.streams, made.per_second * load.pair_cost) for made in load.pairs]
    shares = _Search(results, _Products.of([*rows, *pairs], places), load.capacity).best()
    return dict(zip(names, shares.tolist(), strict=True))


def keep_keys(load: Load) -> float:
    """One share of the keys of all streams: rows, pairs and results all become this share of what they were."""
    return min(1.0, max(load.capacity, 0.0) / load.work) if load.work > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Shedding:
    """Both ways to shed at equal work, with the share of weighted results that each keeps."""

    rows: dict[str, float]
    rows_results: float
    keys: float
    keys_results: float

    @property
    def better(self) -> str:
        """'shed_keys' unless rows give more.

        For queries of the same streams keys never give fewer: the product of shares is at most the least, and so at
        most the share of work. Rows can give more where queries of different streams are worth different amounts, as
        they can serve some queries only.
        """
        return "shed_rows" if self.rows_results > self.keys_results * (1 + 1e-9) else "shed_keys"


def compare_shedding(load: Load) -> Shedding:
    """What shedding rows and shedding keys keep at equal work, if keys are alike."""
    rows, keys, whole = keep_rows(load), keep_keys(load), load.results
    return Shedding(rows, load.kept(rows).results / whole if whole else 1.0, keys, keys if whole else 1.0)


class _Search:
    """Steps from many starts at once; a row of an array is a point of the search, in logarithms of shares."""

    def __init__(self, results: _Products, work: _Products, capacity: float) -> None:
        self._results, self._work, self._capacity = results, work, capacity
        degrees = work.powers.sum(axis=1)
        self._degree = float(degrees.max())
        self._slack, self._joint = 1 - degrees / self._degree, degrees > 1

    def best(self) -> Array:
        points = self._leap(self._starts())
        points = self._leap(points[np.argsort(-self._value(points), kind="stable")[:_SEMIFINALISTS]])
        points = points[np.argsort(-self._value(points), kind="stable")[:_FINALISTS]]
        for _ in range(_LEAPS):
            before, points = points, self._leap(points)
            if float(np.max(np.abs(points - before))) < _CLOSE:
                break
        # Where numbers are many orders of magnitude apart the search may end nowhere; one share for all always fits.
        same = np.full_like(points[:1], min(0.0, float(np.log(self._capacity / self._work.amounts.sum()))))
        points = self._scaled(np.vstack([points, same]))
        winner: Array = np.exp(points[int(np.argmax(self._value(points)))])
        return np.where(winner < _ZERO, 0.0, winner)

    def _value(self, points: Array) -> Array:
        return np.asarray(self._results.at(points).sum(axis=1))

    def _starts(self) -> Array:
        """Even shares, and even work tilted to each query and to each union of queries."""
        sets = self._results.powers > 0
        bits = 1 << np.arange(sets.shape[1])
        queries = [int(one) for one in sets @ bits]
        faces = set(queries)
        for one in queries:
            if len(faces) < _FACES:
                faces |= {one | face for face in faces}
        used = sets.any(axis=0)
        faces.add(int(used @ bits))
        alone = -np.log(np.maximum(self._work.amounts @ self._work.powers, 1e-300))
        tilted = alone + _TILT * ((np.array(sorted(faces))[:, None] & bits) > 0)
        wanted = np.vstack([tilted, np.zeros(len(alone))])
        wanted = wanted - wanted.max(axis=1, keepdims=True, where=used, initial=_NOTHING)
        return self._scaled(np.where(used, wanted, _NOTHING))

    def _scaled(self, points: Array) -> Array:
        """The shares that are not zero, enlarged or lessened until all work is used (Newton's method).

        Where that goes too far, shares are divided by the excess: as a product has a power of one or more, they fit.
        """
        for _ in range(_ENLARGED):
            work = self._work.at(points)
            total = work.sum(axis=1, keepdims=True)
            left = np.log(self._capacity / total)
            free = (points < 0) | (left < 0)
            slope = ((work @ self._work.powers) * free).sum(axis=1, keepdims=True) / total
            points = np.clip(points + np.where(free, left / np.maximum(slope, 0.1), 0.0), _NOTHING, 0.0)
        excess = np.log(np.maximum(self._work.at(points).sum(axis=1, keepdims=True) / self._capacity, 1.0))
        return np.asarray(np.maximum(points - excess, _NOTHING))

    def _leap(self, points: Array) -> Array:
        """A step, or where it gives more a leap to where pairs are charged to the results they lead to.

        At the best point a unit of work is worth as many results everywhere. With this price of work, results less the
        price of their pairs remain to be set against the work of rows alone: for one query, whatever pairs cost, the
        work of rows is split evenly.
        """
        step = self._step(points)
        if self._degree == 1:
            return step
        part, work = self._results.at(step) @ self._results.powers, self._work.at(step)
        free = (step < 0) & (step > _NOTHING)
        price = (part * free).sum(axis=1) / np.maximum(((work @ self._work.powers) * free).sum(axis=1), 1e-300)
        net = part - price[:, None] * (work[:, self._joint] @ self._work.powers[self._joint])
        rows = work[:, ~self._joint] @ self._work.powers[~self._joint]
        wanted = step + np.log(np.maximum(net, 1e-300)) - np.log(np.maximum(rows, 1e-300))
        wanted = np.where(free, wanted - (wanted - step).max(axis=1, keepdims=True, where=free, initial=-1e9), step)
        far = self._scaled(np.clip(wanted, _NOTHING, 0.0))
        better = self._value(far) > self._value(step)
        return np.where(better[:, None], far, step)

    def _step(self, points: Array) -> Array:
        """To the best point of the tangent of the results, under a bound of the work that is a sum over streams.

        With x = (new share / share) ** degree, each product of shares is at most a mean of the x of its streams.
        """
        part = self._results.at(points) @ self._results.powers
        work = self._work.at(points)
        spent = work @ self._work.powers / self._degree
        room = self._capacity - work @ self._slack
        most = np.exp(np.minimum(-self._degree * points, 700.0))
        x = _water_filled(part, np.maximum(spent, 1e-300), most, room)
        moved = points + np.log(np.maximum(x, 1e-300)) / self._degree
        return np.where((points > _NOTHING) & (part > 0), np.clip(moved, _NOTHING, 0.0), _NOTHING)


def _water_filled(part: Array, spent: Array, most: Array, room: Array) -> Array:
    """For each row the x, none above `most`, that maximises the sum of part x log x where spent x x sums to `room`.

    Room goes to streams in proportion to their part. Those that cannot use all of theirs, found in the order in which
    they are full, leave the rest to the others.
    """
    full = spent * most
    with np.errstate(all="ignore"):
        level = np.where(part > 0, full / np.maximum(part, 1e-300), np.inf)
        order = np.argsort(level, axis=1, kind="stable")
        levels, parts, fulls = (np.take_along_axis(one, order, axis=1) for one in (level, part, full))
        used = np.cumsum(np.where(parts > 0, fulls, 0.0), axis=1) - np.where(parts > 0, fulls, 0.0)
        open_ = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1]
        # The level if the streams before each one are full: the first one that is not full decides.
        reached = np.where(open_ > 0, (room[:, None] - used) / np.maximum(open_, 1e-300), np.inf)
        reached[:, 1:] = np.maximum(reached[:, 1:], levels[:, :-1])
        holds = reached <= levels
        first = np.take_along_axis(reached, np.argmax(holds, axis=1)[:, None], axis=1)
        height = np.where(holds.any(axis=1, keepdims=True), first, 1e300)
        return np.asarray(np.minimum(height * part / spent, most))
