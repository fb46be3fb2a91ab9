"""How much to shed when rows come faster than they can be joined.

A batch takes a fixed time, a time for every row and one for every pair. While it runs, the rows of the next one come;
so with a target for the length of the next batch it is known how much of them fits into it, and `regulate` says which
rows or keys give the most results for that. Nothing is shed until rows have waited for longer than the user has set,
because of work; and it ends when all rows would fit again with some room to spare, for a few batches in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from millstream.plan.load import Load, PairsMade, QueryDemand, Span, StreamRate, combinations
from millstream.plan.regulate import keep_keys, keep_rows

_KEPT = 0.7
_BATCH = 0.4
"""The length of a batch that is aimed at, as a part of the wait that is allowed: a row waits for two of them."""
_ROOM = 0.8
_QUIET = 3
_STEADY = 0.07
"""Shares that differ by less stay as they are."""
_LEAST = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A query as `regulate` needs it, before it is known how much it gives: ages in seconds of event time."""

    name: str
    streams: tuple[str, ...]
    spans: tuple[Span, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """A batch with rows: how long it took, in which time its rows came, how many came and were kept, how many rows
    each query was given, and how many pairs were made. `for_pairs` is the share of the work that pairs were. `waited`
    is for how long the oldest work that is still put off has waited.
    """

    seconds: float
    interval: float
    rows: Mapping[str, int]
    kept: Mapping[str, int]
    given: Mapping[str, int]
    pairs: float
    for_pairs: float
    event_seconds: float = 0.0
    waited: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What is kept of the rows of each stream, chosen one by one, or of the keys."""

    rows: Mapping[str, float] = field(default_factory=dict)
    keys: float = 1.0

    @property
    def is_all(self) -> bool:
        return self.keys >= 1 and all(share >= 1 for share in self.rows.values())

    def of(self, streams: Sequence[str]) -> float:
        """The share of the combinations of rows of these streams that is kept."""
        return self.keys * prod(self.rows.get(name, 1.0) for name in streams)


ALL = Shares()


class Overload:
    """Decides from batch to batch what is kept. `mode` is 'shed_rows' or 'shed_keys', `after` the seconds that rows
    may wait because of work.
    """

    def __init__(self, mode: str, after: float) -> None:
        self._mode, self._after = mode, after
        self._target = max(_BATCH * after, 1e-3)
        self.shares = ALL
        self.is_on = False
        self._trim, self._before, self._calm = 1.0, 0.0, 0
        self._rates: dict[str, list[float]] = {}
        self._given: dict[str, list[float]] = {}
        self._pairs, self._for_pairs, self._speed = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
        self._line = _Line()

    def saw(self, facts: BatchFacts, demands: Sequence[Demand]) -> str:
        """Learns from a batch, and decides about the next; says what it has decided, where that is new."""
        self._learn(facts)
        wait = min(self._before, facts.interval) + facts.seconds + facts.waited
        self._before = facts.seconds
        if self.is_on:
            change = self._target / max(facts.seconds, 1e-6)
            self._trim = min(max(self._trim * min(max(change, 0.9), 1.05), _LEAST), 1.0)
        elif wait <= self._after:
            return ""
        load = self._load(demands)
        needed, there = load.work, load.capacity / self._trim * self._coming / self._target
        self._calm = self._calm + 1 if needed <= _ROOM * there else 0
        if self.is_on and self._calm >= _QUIET:
            self.is_on, self.shares, self._trim = False, ALL, 1.0
            return "all rows are kept again: there is time for them"
        was_on, self.is_on = self.is_on, True
        wanted = self._wanted(load)
        if was_on and not _differ(self.shares, wanted):
            return ""
        before, self.shares = self.shares, wanted if _shrinks(self.shares, wanted) else _between(self.shares, wanted)
        told = _told(self.shares)
        if not was_on:
            return f"rows wait for {wait:.1f} s and come {needed / max(there, 1e-9):.1f} times too fast: {told}"
        return told if _told(before) != told else ""

    @property
    def _coming(self) -> float:
        """In how many seconds the rows of the next batch have come: while the last one ran."""
        return max(self._before, self._target / 2)

    def _wanted(self, load: Load) -> Shares:
        if self._mode == "shed_keys":
            return Shares(keys=max(keep_keys(load), _LEAST**2))
        return Shares(rows=keep_rows(load))

    def _learn(self, facts: BatchFacts) -> None:
        for stream, count in facts.rows.items():
            _fade(self._rates.setdefault(stream, [0.0, 0.0]), count, facts.interval)
        for stream, sums in self._rates.items():
            if stream not in facts.rows:
                _fade(sums, 0.0, facts.interval)
        for query, count in facts.given.items():
            # What all rows would have given, if those that were shed match as often as the others.
            _fade(self._given.setdefault(query, [0.0, 0.0]), count, facts.interval)
        _fade(self._pairs, facts.pairs, facts.interval)
        _fade(self._for_pairs, facts.for_pairs, 1.0)
        _fade(self._speed, facts.event_seconds, facts.interval)
        self._line.add(float(sum(facts.kept.values())), facts.seconds)

    def _load(self, demands: Sequence[Demand]) -> Load:
        """The load if nothing were shed."""
        fixed, per_row = self._line.fitted()
        rates = {name: amount / of for name, (amount, of) in self._rates.items() if of > 0}
        kept = sum(rate * self.shares.of([name]) for name, rate in rates.items())
        share, pairs = _mean(self._for_pairs), _mean(self._pairs)
        per_pair = per_row * kept * share / pairs if pairs else 0.0
        streams = [StreamRate(name, rate, row_cost=per_row * (1 - share)) for name, rate in rates.items()]
        speed = _mean(self._speed) or 1.0
        queries: list[QueryDemand] = []
        made: dict[tuple[str, ...], float] = {}
        for one in demands:
            if not all(rates.get(name) for name in one.streams):
                continue
            spans = tuple((low / speed, high / speed) for low, high in one.spans)
            whole = self.shares.of(one.streams)
            given = _mean(self._given.get(one.name, [0.0, 0.0])) / whole if whole else 0.0
            met = combinations([rates[name] for name in one.streams], [high - low for low, high in spans])
            queries.append(QueryDemand(one.name, one.streams, spans, given / met if met else 0.0, one.weight))
            made[one.streams] = max(made.get(one.streams, 0.0), given)
        most = sum(made.values())
        now = sum(given * self.shares.of(names) for names, given in made.items())
        # Pairs have been measured together; they are those of all joins, as far as these have given results.
        scale = pairs / now if now else 0.0
        return Load(
            streams=tuple(streams),
            queries=tuple(queries),
            capacity=self._trim * max(self._target - fixed, _LEAST * self._target) / self._coming,
            pair_cost=per_pair,
            made=tuple(PairsMade(names, given * scale) for names, given in made.items()) if most else (),
        )


class _Line:
    """What a batch takes as a fixed time and a time per row, by smoothed least squares."""

    def __init__(self) -> None:
        self._sums = [0.0] * 5

    def add(self, rows: float, seconds: float) -> None:
        now = (1.0, rows, rows * rows, seconds, rows * seconds)
        self._sums = [old * 0.85 + new for old, new in zip(self._sums, now, strict=True)]

    def fitted(self) -> tuple[float, float]:
        """Never a fixed time of more than half a batch: where batches are all alike the line is not known."""
        count, rows, squares, seconds, products = self._sums
        if not count or not rows:
            return 0.0, 0.0
        spread = squares * count - rows * rows
        slope = (products * count - rows * seconds) / spread if spread > 1e-6 * squares * count else seconds / rows
        slope = min(max(slope, seconds / rows / 2), seconds / rows)
        return max((seconds - slope * rows) / count, 0.0), slope


def _fade(sums: list[float], amount: float, of: float) -> None:
    sums[0] = sums[0] * _KEPT + amount
    sums[1] = sums[1] * _KEPT + of


def _mean(sums: Sequence[float]) -> float:
    return sums[0] / sums[1] if sums[1] else 0.0


def _differ(before: Shares, after: Shares) -> bool:
    pairs = [(before.keys, after.keys), *((before.rows.get(name, 1.0), one) for name, one in after.rows.items())]
    return any(abs(one - other) > _STEADY * max(one, other) for one, other in pairs)


def _shrinks(before: Shares, after: Shares) -> bool:
    return after.keys < before.keys or any(share < before.rows.get(name, 1.0) for name, share in after.rows.items())


def _between(before: Shares, after: Shares) -> Shares:
    """Half-way from one to the other."""
    rows = {name: (before.rows.get(name, 1.0) + share) / 2 for name, share in after.rows.items()}
    return Shares(rows=rows, keys=(before.keys + after.keys) / 2)


def _told(shares: Shares) -> str:
    if not shares.rows:
        return f"{100 * shares.keys:.0f} % of the keys are kept"
    return "of the rows are kept " + ", ".join(f"{100 * one:.0f} % of {name}" for name, one in shares.rows.items())
