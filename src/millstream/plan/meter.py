"""What is measured of the load from batch to batch, smoothed: rates, the work of rows and of pairs, how often rows
match, and what pools hold. From it comes the `Load` that decides what is shed and how far pools reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod

from millstream.plan.load import Load, PairsMade, QueryDemand, Span, StreamRate, combinations

_KEPT = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A query as it counts among the others where work or memory is short, before it is known how much it gives. Ages
    are in seconds of event time.
    """

    name: str
    streams: tuple[str, ...]
    spans: tuple[Span, ...]
    weight: float = 1.0
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHeld:
    """What a pool holds after a batch, in seconds of event time: how far its rows reach back from the newest, how far
    they do so behind the watermark whatever its reach, and `parts`: ages up to which rows are kept if nothing is cut,
    with the bytes per second of those that are.
    """

    nbytes: float
    seconds: float
    behind: float
    parts: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """A batch with rows: how long it took, in which time its rows came, how many came and were kept, how many rows
    each query was given, and how many pairs were made. `for_pairs` is the share of the work that pairs were. `waited`
    is for how long the oldest work that is still put off has waited. `memory` is what all pools may hold.
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
    pools: Mapping[str, PoolHeld] = field(default_factory=dict)
    memory: float = inf


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


class Meter:
    """Learns from one batch after the other."""

    def __init__(self) -> None:
        self._rates: dict[str, list[float]] = {}
        self._matches: dict[str, list[float]] = {}
        self._pairs, self._for_pairs, self._speed = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
        self._line = _Line()
        self._sizes: dict[tuple[str, float], list[float]] = {}
        self._last: BatchFacts | None = None

    def saw(self, facts: BatchFacts, demands: Sequence[Demand], shares: Shares) -> None:
        """A batch of which these shares were kept."""
        for stream, count in facts.rows.items():
            _fade(self._rates.setdefault(stream, [0.0, 0.0]), count, facts.interval)
        for stream, sums in self._rates.items():
            if stream not in facts.rows:
                _fade(sums, 0.0, facts.interval)
        _fade(self._pairs, facts.pairs, facts.interval)
        _fade(self._for_pairs, facts.for_pairs, 1.0)
        _fade(self._speed, facts.event_seconds, facts.interval)
        self._line.add(float(sum(facts.kept.values())), facts.seconds)
        self._last = facts
        self._sizes = {
            # What a row takes varies as segments are merged.
            (name, age): _faded(self._sizes.get((name, age), [0.0, 0.0]), size, 1.0)
            for name, pool in facts.pools.items()
            for age, size in pool.parts
        }
        rates, held = self.rates, self.held
        for one in self._known(demands):
            # How many combinations of rows were met: of the rows kept, and of what pools hold of the windows.
            there = _demand(one, self.speed).within(held)
            met = shares.of(one.streams) * combinations([rates[name] for name in one.streams], there.widths)
            if met > 0:
                sums = self._matches.setdefault(one.name, [0.0, 0.0])
                _fade(sums, facts.given.get(one.name, 0), met * facts.interval)

    @property
    def rates(self) -> dict[str, float]:
        """Rows per second of each stream, before anything is shed."""
        return {name: amount / of for name, (amount, of) in self._rates.items() if of > 0}

    @property
    def speed(self) -> float:
        """Seconds of event time per second."""
        return _mean(self._speed) or 1.0

    @property
    def held(self) -> dict[str, float]:
        """How far back each pool reaches now, in seconds of the clock."""
        pools = self._last.pools if self._last else {}
        return {name: pool.seconds / self.speed for name, pool in pools.items()}

    @property
    def fixed(self) -> float:
        """The seconds that a batch takes whatever its rows."""
        return self._line.fitted()[0]

    def _known(self, demands: Sequence[Demand]) -> list[Demand]:
        rates = self.rates
        return [one for one in demands if all(rates.get(name) for name in one.streams)]

    def load(self, demands: Sequence[Demand], shares: Shares, *, capacity: float = inf) -> Load:
        """The load if nothing were shed and all windows were full, where these shares are kept now. Seconds are those
        of the clock.
        """
        per_row, rates, speed = self._line.fitted()[1], self.rates, self.speed
        kept = sum(rate * shares.of([name]) for name, rate in rates.items())
        share, pairs = _mean(self._for_pairs), _mean(self._pairs)
        queries: list[QueryDemand] = []
        made: dict[tuple[str, ...], float] = {}
        now: dict[tuple[str, ...], float] = {}
        held = self.held
        for one in self._known(demands):
            query = _demand(one, speed, _mean(self._matches.get(one.name, [0.0, 0.0])))
            queries.append(query)
            met = [rates[name] for name in one.streams]
            given, there = (query.selectivity * combinations(met, each.widths) for each in (query, query.within(held)))
            made[one.streams] = max(made.get(one.streams, 0.0), given)
            now[one.streams] = max(now.get(one.streams, 0.0), there * shares.of(one.streams))
        # Pairs have been measured together; they are those of all joins, as far as these have given results.
        scale = pairs / sum(now.values()) if sum(now.values()) else 0.0
        last = self._last
        return Load(
            streams=tuple(StreamRate(name, rate, row_cost=per_row * (1 - share)) for name, rate in rates.items()),
            queries=tuple(queries),
            capacity=capacity,
            memory=last.memory if last else inf,
            pair_cost=per_row * kept * share / pairs if pairs else 0.0,
            made=tuple(PairsMade(names, given * scale) for names, given in made.items()) if any(made.values()) else (),
            kept_for=self._kept_for(shares, queries),
        )

    def parts(self, pool: str) -> list[tuple[float, float]]:
        """Up to which ages rows of a pool are kept, with the bytes per second of those that are, in event time."""
        return [(age, _mean(sums)) for (name, age), sums in self._sizes.items() if name == pool]

    @property
    def behind(self) -> float:
        """The bytes of rows behind the watermark: they are there however short a pool reaches."""
        pools = self._last.pools if self._last else {}
        return sum(one.behind * sum(size for _, size in self.parts(name)) for name, one in pools.items())

    def _kept_for(self, shares: Shares, queries: Sequence[QueryDemand]) -> dict[str, tuple[tuple[float, float], ...]]:
        """What the pools of these queries would keep if nothing were shed."""
        streams = {pool: name for query in queries for pool, name in zip(query.pools, query.streams, strict=True)}
        found, speed = {}, self.speed
        for pool, stream in streams.items():
            share = shares.of([stream])
            if share > 0 and (parts := self.parts(pool)):
                found[pool] = tuple((age / speed, size * speed / share) for age, size in parts)
        return found


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


def _demand(one: Demand, speed: float, selectivity: float = 0.0) -> QueryDemand:
    spans = tuple((low / speed, high / speed) for low, high in one.spans)
    return QueryDemand(one.name, one.streams, spans, selectivity, one.weight, one.pools)


def _fade(sums: list[float], amount: float, of: float) -> None:
    sums[:] = _faded(sums, amount, of)


def _faded(sums: Sequence[float], amount: float, of: float) -> list[float]:
    return [sums[0] * _KEPT + amount, sums[1] * _KEPT + of]


def _mean(sums: Sequence[float]) -> float:
    return sums[0] / sums[1] if sums[1] else 0.0
