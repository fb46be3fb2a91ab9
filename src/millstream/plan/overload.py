"""How much to shed when rows come faster than they can be joined.

A batch takes a fixed time, a time for every row and one for every pair. While it runs, the rows of the next one come;
so with a target for the length of the next batch it is known how much of them fits into it, and `regulate` says which
rows or keys give the most results for that. Nothing is shed until rows have waited for longer than the user has set,
because of work; and it ends when all rows would fit again with some room to spare, for a few batches in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from millstream.plan.fit_both import fit_both, in_ratio
from millstream.plan.load import Load
from millstream.plan.meter import ALL, BatchFacts, Demand, Meter, Shares
from millstream.plan.regulate import keep_keys, keep_rows

_BATCH = 0.4
"""The length of a batch that is aimed at, as a part of the wait that is allowed: a row waits for two of them."""
_ROOM = 0.8
_QUIET = 3
_STEADY = 0.07
"""Shares that differ by less stay as they are."""
_LEAST = 0.05
_FEW = 0.1
_LONG_VAIN = 10
"""Where so few rows are kept for so many batches and each is still too long, it is not rows that take the time."""
_AS_GOOD = 0.9


class Overload:
    """Decides from batch to batch what is kept. `mode` is 'shed_rows' or 'shed_keys', or 'later', which keeps all;
    `after` are the seconds that rows may wait because of work.
    """

    def __init__(self, mode: str, after: float) -> None:
        self._mode, self._after = mode, after
        self.meter = Meter()
        self._target = max(_BATCH * after, 1e-3)
        self.shares = ALL
        self.is_on = False
        self._trim, self._before, self._calm = 1.0, 0.0, 0
        self._shortest, self._vain = inf, 0

    def saw(self, facts: BatchFacts, demands: Sequence[Demand]) -> str:
        """Learns from a batch, and decides about the next; says what it has decided, where that is new."""
        self.meter.saw(facts, demands, self.shares)
        if self._mode == "later":
            return ""
        wait = min(self._before, facts.interval) + facts.seconds + facts.waited
        self._before, self._shortest = facts.seconds, min(self._shortest, facts.seconds)
        if self._is_vain(facts):
            self._vain = 0
            self._target, self._trim = 2 * self._shortest, 1.0
            return (
                f"batches take {self._shortest:.2g} s however few rows are kept: now {self._target:.2g} s are aimed at,"
                " and rows wait for longer than overload_after"
            )
        if self.is_on:
            change = self._target / max(facts.seconds, 1e-6)
            self._trim = min(max(self._trim * min(max(change, 0.9), 1.05), _LEAST), 1.0)
        elif wait <= self._after:
            return ""
        load = self._load(demands)
        now = load.within(self.meter.held)
        needed, there = now.work, load.capacity / self._trim * self._coming / self._target
        # Batches that are all alike do not tell their fixed time; that all rows fit is seen when they do.
        fits = self.shares.is_all and facts.seconds <= _ROOM * self._target
        self._calm = self._calm + 1 if fits or needed <= _ROOM * there else 0
        if self.is_on and self._calm >= _QUIET:
            self.is_on, self.shares, self._trim = False, ALL, 1.0
            return "all rows are kept again: there is time for them"
        was_on, self.is_on = self.is_on, True
        wanted = self._wanted(load, now)
        if was_on and not _differ(self.shares, wanted):
            return ""
        before, self.shares = self.shares, wanted if _shrinks(self.shares, wanted) else _between(self.shares, wanted)
        told = _told(self.shares)
        if not was_on and self.shares.is_all:
            return ""
        if not was_on:
            times = needed / max(there, 1e-9)
            too_fast = f" and come {times:.1f} times too fast" if times > 1 else ""
            return f"rows wait for {wait:.1f} s{too_fast}: {told}"
        return told if _told(before) != told else ""

    def _is_vain(self, facts: BatchFacts) -> bool:
        """Whether no batch was ever as short as is aimed at, though hardly any rows are left in them."""
        came, kept = sum(facts.rows.values()), sum(facts.kept.values())
        few = self.is_on and kept <= _FEW * came and self._target < self._shortest
        self._vain = self._vain + 1 if few else 0
        return self._vain >= _LONG_VAIN

    @property
    def _coming(self) -> float:
        """In how many seconds the rows of the next batch have come: while the last one ran."""
        return max(self._before, self._target / 2)

    def _load(self, demands: Sequence[Demand]) -> Load:
        spare = max(self._target - self.meter.fixed, _LEAST * self._target)
        return self.meter.load(demands, self.shares, capacity=self._trim * spare / self._coming)

    def _wanted(self, load: Load, now: Load) -> Shares:
        """What to keep, of a load with full windows, or with what pools hold `now`."""
        if self._mode == "shed_keys":
            return Shares(keys=max(keep_keys(now), _LEAST**2))
        if load.bytes <= load.memory:
            return Shares(rows=keep_rows(now))
        best = fit_both(load)
        if self.shares.rows:
            # Two opposite ways may be nearly as good as each other: the one taken stays.
            same = in_ratio(load, self.shares.rows)
            best = same if same.results >= _AS_GOOD * best.results else best
        return Shares(rows=best.shares)


def _differ(before: Shares, after: Shares) -> bool:
    if after.is_all:
        return not before.is_all
    pairs = [(before.keys, after.keys), *((before.rows.get(name, 1.0), one) for name, one in after.rows.items())]
    return any(abs(one - other) > _STEADY * max(one, other) for one, other in pairs)


def _shrinks(before: Shares, after: Shares) -> bool:
    return after.keys < before.keys or any(share < before.rows.get(name, 1.0) for name, share in after.rows.items())


def _between(before: Shares, after: Shares) -> Shares:
    """Half-way from one to the other."""
    rows = {name: (before.rows.get(name, 1.0) + share) / 2 for name, share in after.rows.items()}
    half = Shares(rows=rows, keys=(before.keys + after.keys) / 2)
    return after if after.is_all and not _differ(half, before) else half


def _told(shares: Shares) -> str:
    if not shares.rows:
        return f"{_percent(shares.keys)} of the keys are kept"
    return "of the rows are kept " + ", ".join(f"{_percent(one)} of {name}" for name, one in shares.rows.items())


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.2g} %"
