"""What a shared plan is asked to do per second, as plain numbers: rates, windows, selectivities, weights and limits.

`regulate` finds the rows to keep where work is short, `allot` the reaches where memory is short, `fit_both` both. A
pipeline fills a `Load` from what it has measured, hints fill it before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, prod

from millstream.errors import InternalError

Span = tuple[float, float]
"""Ages in seconds: at which rows wait for later rows of other streams."""


@dataclass(frozen=True, slots=True)
class StreamRate:
    """A stream as it arrives, before anything is shed."""

    name: str
    rate: float
    """rows per second"""
    row_cost: float = 1.0
    """work per row that does not depend on matches: insert, search, expire"""
    row_bytes: float = 1.0
    """bytes of a row in a pool"""

    def __post_init__(self) -> None:
        if not min(self.rate, self.row_cost, self.row_bytes) >= 0:
            raise InternalError(f"stream {self.name}: a rate, cost or size is below zero")


@dataclass(frozen=True, slots=True)
class QueryDemand:
    """A query: each of its streams with the ages at which rows of it are met by later rows of the others.

    `selectivity` is the share of all combinations of rows inside the windows that are results (sigma of the paper for
    two streams). `pools` names the state each stream is read from; left out, a pool has the name of its stream.
    """

    name: str
    streams: tuple[str, ...]
    spans: tuple[Span, ...]
    selectivity: float
    weight: float = 1.0
    pools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.pools:
            object.__setattr__(self, "pools", self.streams)
        if len(self.streams) < 2 or not len(self.streams) == len(self.spans) == len(self.pools):
            raise InternalError(f"query {self.name}: two streams or more, a span and a pool for each")
        if any(not 0 <= start <= end for start, end in self.spans) or not min(self.selectivity, self.weight) >= 0:
            raise InternalError(f"query {self.name}: a span, selectivity or weight is below zero")

    @property
    def widths(self) -> tuple[float, ...]:
        """The seconds of each window: T_a and T_b of the paper."""
        return tuple(end - start for start, end in self.spans)

    def within(self, reaches: Mapping[str, float]) -> QueryDemand:
        """The query where pools reach no farther than this."""
        limits = [max(reaches.get(pool, inf), 0.0) for pool in self.pools]
        cut = [(min(start, far), min(end, far)) for (start, end), far in zip(self.spans, limits, strict=True)]
        return replace(self, spans=tuple(cut))


@dataclass(frozen=True, slots=True)
class PairsMade:
    """Combinations of rows of these streams made per second, for all queries that share them; their work."""

    streams: tuple[str, ...]
    per_second: float


@dataclass(frozen=True, kw_only=True)
class Load:
    """Streams and queries under a `capacity` (work per second) and a `memory` (bytes).

    `made` is what has been measured; without it the pairs of queries over the same pools count once. So are `kept_for`:
    for each pool ages, and the bytes per second of the rows that are kept up to each. Without it all rows of a stream
    are kept for as long as any query needs them.
    """

    streams: tuple[StreamRate, ...]
    queries: tuple[QueryDemand, ...]
    capacity: float = inf
    memory: float = inf
    pair_cost: float = 0.0
    made: tuple[PairsMade, ...] = ()
    kept_for: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sets = [*(query.streams for query in self.queries), *(made.streams for made in self.made)]
        unknown = {name for names in sets for name in names} - {stream.name for stream in self.streams}
        if unknown:
            raise InternalError(f"a load without the rates of {', '.join(sorted(unknown))}")

    @cached_property
    def rates(self) -> dict[str, float]:
        return {stream.name: stream.rate for stream in self.streams}

    def results_of(self, query: QueryDemand) -> float:
        """Equation 9: results per second, sigma lambda_a lambda_b (T_a + T_b) for two streams.

        For more, the last row of a result meets rows of all other windows.
        """
        return query.selectivity * combinations([self.rates[name] for name in query.streams], query.widths)

    @property
    def results(self) -> float:
        """The weighted results of all queries per second."""
        return sum(query.weight * self.results_of(query) for query in self.queries)

    @cached_property
    def pairs(self) -> tuple[PairsMade, ...]:
        """The pairs measured, or those of the union of the windows of all queries over the same pools."""
        return self.made or self._estimated()

    def _estimated(self) -> tuple[PairsMade, ...]:
        groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[QueryDemand]] = {}
        for query in self.queries:
            groups.setdefault((query.streams, query.pools), []).append(query)
        found = []
        for (streams, _), members in groups.items():
            widths = [covered(spans) for spans in zip(*(one.spans for one in members), strict=True)]
            share = max(one.selectivity for one in members)
            found.append(PairsMade(streams, share * combinations([self.rates[name] for name in streams], widths)))
        return tuple(found)

    @property
    def row_work(self) -> dict[str, float]:
        """The work per second that each stream's rows are, matches aside."""
        return {stream.name: stream.rate * stream.row_cost for stream in self.streams}

    @property
    def work(self) -> float:
        """All work per second."""
        return sum(self.row_work.values()) + self.pair_cost * sum(made.per_second for made in self.pairs)

    @cached_property
    def pools(self) -> dict[str, StreamRate]:
        """The pools, with the stream each keeps."""
        known = {stream.name: stream for stream in self.streams}
        found: dict[str, StreamRate] = {}
        for query in self.queries:
            for pool, stream in zip(query.pools, query.streams, strict=True):
                if found.setdefault(pool, known[stream]).name != stream:
                    raise InternalError(f"pool {pool} keeps rows of {stream} and of {found[pool].name}")
        return found

    @property
    def reaches(self) -> dict[str, float]:
        """How far each pool reaches for all its queries."""
        found = dict.fromkeys(self.pools, 0.0)
        for query in self.queries:
            for pool, (_, end) in zip(query.pools, query.spans, strict=True):
                found[pool] = max(found[pool], end)
        return found

    @property
    def bytes(self) -> float:
        """The bytes of all pools."""
        return sum(self.bytes_within(pool, reach) for pool, reach in self.reaches.items())

    def parts(self, pool: str) -> tuple[tuple[float, float], ...]:
        """Up to which ages rows of a pool are kept, with the bytes per second of those that are."""
        stream = self.pools[pool]
        return self.kept_for.get(pool) or ((inf, stream.rate * stream.row_bytes),)

    def bytes_within(self, pool: str, reach: float) -> float:
        """The bytes of a pool up to an age."""
        return sum(size * min(age, reach) for age, size in self.parts(pool))

    def reach_of(self, pool: str, nbytes: float) -> float:
        """Up to which age these bytes reach; infinite where all of the pool is less."""
        begin = 0.0
        for age in sorted({age for age, _ in self.parts(pool)}):
            size = sum(one for far, one in self.parts(pool) if far >= age)
            if size * (age - begin) >= nbytes:
                return begin + nbytes / size if size else begin
            nbytes, begin = nbytes - size * (age - begin), age
        return inf

    def kept(self, shares: Mapping[str, float]) -> Load:
        """The load where only these shares of the rows are kept, chosen one by one."""
        streams = tuple(replace(stream, rate=stream.rate * shares[stream.name]) for stream in self.streams)
        made = [replace(one, per_second=one.per_second * prod(shares[s] for s in one.streams)) for one in self.made]
        kept_for = {
            pool: tuple((age, size * shares[self.pools[pool].name]) for age, size in parts)
            for pool, parts in self.kept_for.items()
        }
        return replace(self, streams=streams, made=tuple(made), kept_for=kept_for)

    def within(self, reaches: Mapping[str, float]) -> Load:
        """The load where pools reach no farther than this; pairs measured become fewer as the estimate does."""
        cut = replace(self, queries=tuple(query.within(reaches) for query in self.queries), made=())
        if not self.made:
            return cut
        before, after = (_by_streams(load._estimated()) for load in (self, cut))
        made = []
        for one in self.made:
            was = before.get(one.streams, 0.0)
            made.append(replace(one, per_second=one.per_second * (after[one.streams] / was if was else 1.0)))
        return replace(cut, made=tuple(made))

    def completeness(self, other: Load) -> dict[str, float]:
        """The share of each query's results that another load, of the same queries, still gives."""
        whole = {query.name: self.results_of(query) for query in self.queries}
        return {
            query.name: other.results_of(query) / whole[query.name] if whole[query.name] else 1.0
            for query in other.queries
        }


def combinations(rates: Sequence[float], widths: Sequence[float]) -> float:
    """Combinations of rows inside the windows per second: of the product of all rates, any stream's row is the last."""
    last = [prod(width for other, width in enumerate(widths) if other != place) for place in range(len(widths))]
    return prod(rates) * sum(last)


def covered(spans: Iterable[Span]) -> float:
    """The length of the union of spans."""
    total, reached = 0.0, 0.0
    for start, end in sorted(spans):
        total += max(end - max(start, reached), 0.0)
        reached = max(reached, end)
    return total


def _by_streams(made: Iterable[PairsMade]) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for one in made:
        found[one.streams] = found.get(one.streams, 0.0) + one.per_second
    return found
