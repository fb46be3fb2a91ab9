"""How far pools reach where memory is short and nothing is spilled (`memory_short = 'shrink'`).

When pools hold more than they may, `shrink` says how far each may reach so that the most results remain. From then on
the reaches follow what is measured, but not every change of it: they stay in proportion to each other unless another
choice gives clearly more results, and as they are unless they would be clearly different. They end when everything
would fit again with some room to spare, for a few batches in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from millstream.plan.allot import shrink
from millstream.plan.load import Load
from millstream.plan.meter import BatchFacts, Demand, Meter, Shares

_ROOM, _QUIET = 0.8, 3
_BETTER, _STEADY = 1.1, 0.08
_LEAST, _NEAR, _MUCH, _KEPT = 0.2, 0.8, 1.2, 0.7
_HALVED = 40


class Shrinking:
    """Decides from batch to batch how far pools reach, in seconds of event time; `reaches` is empty where they reach as
    far as queries need.
    """

    def __init__(self) -> None:
        self.reaches: dict[str, float] = {}
        self._trim, self._calm = 1.0, 0
        self._held: float | None = None

    def saw(self, facts: BatchFacts, demands: Sequence[Demand], meter: Meter, shares: Shares) -> bool:
        """After a batch that the meter has seen, decides about the next, of which these shares are kept; says whether
        something is new.
        """
        held = sum(pool.nbytes for pool in facts.pools.values())
        self._held = held if self._held is None else _KEPT * self._held + (1 - _KEPT) * held
        if self.reaches:
            self._follow(held, facts.memory)
        elif held <= facts.memory:
            return False
        load = meter.load(demands, shares)
        kept = load.kept({stream.name: shares.of([stream.name]) for stream in load.streams})
        self._calm = self._calm + 1 if kept.bytes + meter.behind <= _ROOM * facts.memory else 0
        if self.reaches and self._calm >= _QUIET:
            self.reaches, self._trim = {}, 1.0
            return True
        kept = replace(kept, memory=max(self._trim * facts.memory - meter.behind, 0.0))
        before = {pool: reach / meter.speed for pool, reach in self.reaches.items()}
        wanted = shrink(kept)
        if before and wanted.keys() == before.keys():
            same = _in_ratio(kept, before)
            if kept.within(wanted).results <= _BETTER * kept.within(same).results:
                wanted = same
            if _apart(kept, before, wanted) <= _STEADY * facts.memory:
                return False
        self.reaches = {pool: reach * meter.speed for pool, reach in wanted.items()}
        return True

    def _follow(self, held: float, memory: float) -> None:
        """Rows expire many at a time, so pools hold more than the reaches say, by turns more and less."""
        if held > _MUCH * memory:
            self._trim *= memory / held
        elif self._held is not None and not _NEAR * memory <= self._held <= memory:
            self._trim *= min(max(memory / max(self._held, 1.0), 0.95), 1.05)
        self._trim = min(max(self._trim, _LEAST), 1.0)


def _in_ratio(load: Load, reaches: Mapping[str, float]) -> dict[str, float]:
    """Reaches in the ratios of these, as far as fits, none longer than needed."""
    most, low, high = load.reaches, 0.0, 1.0
    least = min((reach / most[pool] for pool, reach in reaches.items() if reach > 0 and most.get(pool)), default=1.0)
    high = 1 / least

    def scaled(factor: float) -> dict[str, float]:
        return {pool: min(factor * reach, most[pool]) for pool, reach in reaches.items()}

    for _ in range(_HALVED):
        middle = (low + high) / 2
        fits = sum(load.bytes_within(pool, reach) for pool, reach in scaled(middle).items()) <= load.memory
        low, high = (middle, high) if fits else (low, middle)
    return scaled(low)


def _apart(load: Load, one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """By how many bytes pools would be cut or lengthened."""
    return sum(abs(load.bytes_within(pool, one[pool]) - load.bytes_within(pool, other[pool])) for pool in one)
