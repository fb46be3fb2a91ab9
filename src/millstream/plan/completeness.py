"""What share of a query's results is there when rows have been shed, estimated from the rows alone.

Of every batch it is known how many rows of each stream came, in which stretch of event time, and which share was kept.
So it is known how many combinations of rows would have lain in a query's window, and of how many all rows were kept.
The estimate assumes that rows that were shed match as often as those that were kept. Where keys are shed, the keys kept
at a lower share are among those kept at a higher one. Where memory was short, it is known before which time rows were
gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.model.interval import Interval
from millstream.plan.nodes import Member

Floats = npt.NDArray[np.float64]
_MOST = 512
BY_ROWS = (
    "from the rows kept of each stream in each batch; rows that were shed count as matching as often as the others"
)
BY_KEYS = "from the share of keys kept in each batch; keys that were shed count as matching as often as the others"
BY_TIME = "from the times before which rows were gone because memory was short"
"""How it is estimated, in words."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of a stream in one batch: the times they span, how many came, and what share of them was kept."""

    first: int
    last: int
    rows: int
    share: float


@dataclass(slots=True)
class Counted:
    """Combinations of rows that lie in a query's window, and those of them whose rows were all kept."""

    kept: float = 0.0
    all: float = 0.0

    @property
    def share(self) -> float:
        return self.kept / self.all if self.all > 0 else 1.0


class Completeness:
    """Counts batch by batch; `by_keys` says that keys are shed and not rows."""

    def __init__(self, *, by_keys: bool, counted: Mapping[str, tuple[float, float]] | None = None) -> None:
        self._by_keys = by_keys
        self._past: dict[str, list[Stretch]] = {}
        self.counted = {name: Counted(*sums) for name, sums in (counted or {}).items()}

    @property
    def how(self) -> str:
        return BY_KEYS if self._by_keys else BY_ROWS

    def saw(
        self,
        stretches: Mapping[str, Stretch],
        members: Iterable[Member],
        whole: Collection[str] = frozenset(),
        floors: Mapping[str, Sequence[float | None]] | None = None,
    ) -> None:
        """A batch, for all queries in force; of the `whole` ones nothing was shed. `floors` says for each, at each
        position, before which time rows were gone because memory was short.
        """
        past = {name: _Past.of(some) for name, some in self._past.items()}
        found: dict[str, Counted] = {}
        reach: dict[str, int] = {}
        for member in members:
            sums = found[member.name] = self.counted.get(member.name, Counted())
            names = [stream.name for stream in member.streams]
            for position, name in enumerate(names):
                reach[name] = max(reach.get(name, 0), member.reach(position) + member.streams[position].delay)
                if name in stretches:
                    floor = (floors or {}).get(member.name, ())
                    kept, every = self._met(member, position, stretches, past, floor, whole=member.name in whole)
                    sums.kept += kept
                    sums.all += every
        self.counted = found
        for name, stretch in stretches.items():
            some = [*self._past.get(name, []), stretch]
            newest = max(one.last for one in some)
            self._past[name] = [one for one in some if one.last + 2 * reach.get(name, 0) >= newest][-_MOST:]

    def _met(
        self,
        member: Member,
        position: int,
        stretches: Mapping[str, Stretch],
        past: Mapping[str, _Past],
        floors: Sequence[float | None],
        *,
        whole: bool,
    ) -> tuple[float, float]:
        """The combinations in which the row at this position is the last to come; of one batch, that at the last
        position.
        """
        own = stretches[member.streams[position].name]
        share = 1.0 if whole else own.share
        kept, every = share * own.rows, float(own.rows)
        met: list[tuple[Floats, Floats]] = []
        for other, stream in enumerate(member.streams):
            if other == position:
                continue
            there = past.get(stream.name, _NOTHING)
            if other < position and stream.name in stretches:
                there = there.with_one(stretches[stream.name])
            bound = member.bound(position, other)
            rows = there.rows * _shares_within(own, there, bound)
            total = float(rows.sum())
            floor = floors[other] if floors else None
            if floor is not None:
                there = there.since(floor)
                rows = there.rows * _shares_within(own, there, bound)
            met.append((rows, there.shares))
            kept *= float(rows.sum() if whole else (rows * there.shares).sum())
            every *= total
        return (own.rows * _least(share, met) if self._by_keys and not whole else kept), every

    def shares(self) -> dict[str, float]:
        """The estimated share of each query's results that is there."""
        return {name: one.share for name, one in self.counted.items()}

    def to_json(self) -> dict[str, list[float]]:
        return {name: [one.kept, one.all] for name, one in self.counted.items()}


@dataclass(frozen=True, slots=True)
class _Past:
    """Stretches as arrays."""

    first: Floats
    last: Floats
    rows: Floats
    shares: Floats

    @classmethod
    def of(cls, some: Sequence[Stretch]) -> _Past:
        columns = zip(*((one.first, one.last, one.rows, one.share) for one in some), strict=True)
        return cls(*(np.array(column, dtype=float) for column in columns)) if some else _NOTHING

    def since(self, floor: float) -> _Past:
        """Without the rows before a time."""
        first = np.maximum(self.first, floor)
        left = np.clip((self.last - first + 1) / (self.last - self.first + 1), 0.0, 1.0)
        return _Past(np.minimum(first, self.last), self.last, self.rows * left, self.shares)

    def with_one(self, one: Stretch) -> _Past:
        values = (one.first, one.last, one.rows, one.share)
        columns = (self.first, self.last, self.rows, self.shares)
        return _Past(*(np.append(column, value) for column, value in zip(columns, values, strict=True)))


_NOTHING = _Past(*(np.empty(0) for _ in range(4)))


def _least(share: float, met: Sequence[tuple[Floats, Floats]]) -> float:
    """Combinations of rows, one of each of these with their shares, each times the least of its shares and the own: of
    the keys kept at several times there are as many as at the lowest share.
    """
    levels = np.unique(np.minimum(np.concatenate([[share], *(shares for _, shares in met)]), share))
    above = np.ones(len(levels))
    for rows, shares in met:
        order = np.argsort(shares)
        below = np.concatenate([[0.0], np.cumsum(rows[order])])
        above *= below[-1] - below[np.searchsorted(shares[order], levels)]
    return float((np.diff(levels, prepend=0.0) * above).sum())


def _shares_within(own: Stretch, there: _Past, interval: Interval) -> Floats:
    """For each stretch the chance that its time minus one of the own, both evenly spread, lies in the interval."""
    wide, other = float(own.last - own.first + 1), there.last - there.first + 1
    least = there.first - own.last

    def below(limit: int) -> Floats:
        past = np.clip(limit - least, 0, wide + other)
        areas = past**2 - np.maximum(past - wide, 0) ** 2 - np.maximum(past - other, 0) ** 2
        return np.asarray(areas / (2 * wide * other))

    return np.clip(below(interval.hi) - below(interval.lo), 0.0, 1.0)
