"""The nodes of a plan. All are immutable; each pass returns a plan with more decided than the one before."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from millstream.model.expr import Expr, structure, text
from millstream.model.interval import Interval
from millstream.model.query import Bound, Key, Query
from millstream.model.script import Script
from millstream.model.stream import Stream
from millstream.plan.costs import Costs
from millstream.plan.key_classes import KeyPart, key_classes
from millstream.plan.statistics import Statistics

Condition = frozenset[Expr]
"""Conjuncts over one stream that a tuple must all pass; the empty condition lets everything pass."""

LEFT, RIGHT = 0, 1
"""The positions of a chain of two streams."""
PoolName = str
"""The identity of a pool, as JSON: its stream, the key that its rows are found by and the key that spreads them."""
Signature = str
"""The identity of a chain: its streams and the structure of its join predicate, as JSON. It names a chain in
manifests, so different predicates must have different signatures, whatever their columns are called.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A query as its chain sees it. `order` is the query's source at each position of the chain; all else is in the
    chain's positions. `bounds` hold the interval of T_j - T_i for every two positions i < j.
    """

    query: Query
    order: tuple[int, ...]
    keys: tuple[Key, ...]
    bounds: tuple[Bound, ...]
    conditions: tuple[Condition, ...]
    residual: tuple[Expr, ...]

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def streams(self) -> tuple[Stream, ...]:
        return tuple(self.query.sources[source].stream for source in self.order)

    @property
    def left(self) -> Condition:
        return self.conditions[LEFT]

    @property
    def right(self) -> Condition:
        return self.conditions[RIGHT]

    @property
    def interval(self) -> Interval:
        """The interval of the chain's axis that contains all results: of T_right - T_left for two streams, of the span
        of a result (its greatest time minus its least) for more.
        """
        if len(self.order) == 2:
            return self.bounds[0].interval
        least = max(0, *(end for bound in self.bounds for end in (bound.interval.lo, 1 - bound.interval.hi)))
        return Interval(least, max(end for bound in self.bounds for end in (bound.interval.hi, 1 - bound.interval.lo)))

    @property
    def has_plain_window(self) -> bool:
        """Whether the interval alone says which results are in the window, without the bounds."""
        if len(self.order) == 2:
            return True
        widest = Interval(1 - self.interval.hi, self.interval.hi)
        return all(bound.interval.covers(widest) for bound in self.bounds)

    def bound(self, i: int, j: int) -> Interval:
        """The interval of T_j - T_i."""
        found = next(bound for bound in self.bounds if {bound.left, bound.right} == {i, j})
        return found.interval if found.left == i else found.interval.mirrored()

    def reach(self, position: int) -> int:
        """For how long after its time a tuple can match one that arrives later."""
        others = (other for other in range(len(self.order)) if other != position)
        return max(self.bound(position, other).hi for other in others)

    @property
    def signature(self) -> Signature:
        """Members with equal signatures share a chain. More than two streams may be chained by equalities in several
        ways that come to the same, so there the classes of equal expressions count.
        """
        names = [stream.name for stream in self.streams]
        if len(names) == 2:
            keys = [[structure(key.left), structure(key.right)] for key in self.keys]
        else:
            keys = [sorted((structure(expr) for expr in some.exprs), key=repr) for some in key_classes(self.keys)]
        return json.dumps([*names, *keys], separators=(",", ":"))

    @property
    def title(self) -> tuple[str, ...]:
        """The signature as text for people. Different predicates may have the same text."""
        names = [stream.name for stream in self.streams]
        if len(names) == 2:
            return (*names, *(f"{_plain(key.left)} = {_plain(key.right)}" for key in self.keys))
        return (*names, *(" = ".join(map(_plain, some.exprs)) for some in key_classes(self.keys)))


@dataclass(frozen=True, slots=True)
class Spread:
    """Which slots get a stream's rows: one by the row's key; all of them, where `everywhere`; else, without a key, the
    one that runs the chain.
    """

    key: tuple[KeyPart, ...] = ()
    everywhere: bool = False
    chain: Signature = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """Tuples that pass `condition` are needed until the watermark passes their time plus `reach` (microseconds).

    Of several lanes, from the farthest reach to the nearest, a tuple goes into the first whose condition it passes, and
    is not kept where it passes none. A reach of zero or less is that of a stream whose tuples only match earlier ones:
    they are kept only for tuples that arrive out of order.
    """

    reach: int
    condition: Condition


@dataclass(frozen=True, slots=True)
class Pool:
    """The kept rows of one stream, found by one key. All chains that join the stream by this key read it.

    It `is_indexed` where any of them looks rows up by index; else its rows are appended as they come.
    """

    stream: Stream
    spread: Spread
    by: tuple[KeyPart, ...]
    lanes: tuple[Lane, ...] = ()
    is_indexed: bool = True

    @property
    def name(self) -> PoolName:
        spread = self.spread
        parts = [[part.name for part in some] for some in (self.by, spread.key)]
        return json.dumps([self.stream.name, *parts, spread.everywhere, spread.chain], separators=(",", ":"))

    @property
    def is_routed(self) -> bool:
        """Whether the code that routes a row is also the one it is found by."""
        return not self.spread.everywhere and self.by == self.spread.key

    @property
    def title(self) -> str:
        """The pool as a user reads it."""
        key = ", ".join(_plain(part.expr) for part in self.by)
        return f"{self.stream.name} by {key}" if key else self.stream.name


@dataclass(frozen=True, slots=True)
class Direction:
    """One of the two halves of a window join: one stream is the state, the other probes it.

    `waiting` and `probing` are the selections of queries on the two streams at ages above zero: every condition with
    the age at which its last query ends, farthest first.
    """

    waiting: tuple[Lane, ...] = ()
    probing: tuple[Lane, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """An interval of the axis that is joined as a whole, and the queries it serves.

    Its pairs are routed at `cuts`, where queries begin or end inside it.
    """

    interval: Interval
    queries: tuple[str, ...]
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """How each stream's state is searched: 'index' or 'scan'."""

    left: str = "index"
    right: str = "index"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a walk: partial results look up the rows of a pool at a position.

    Their key is the code of the tuple at `same`, where both are routed by it; else it is computed from `keys`,
    expressions over the positions before. `checked` are the equalities that equal codes do not prove.
    """

    position: int
    pool: PoolName
    same: int | None = None
    keys: tuple[Expr, ...] = ()
    checked: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The queries of one signature and the slices they share.

    `walks` says for each position how its tuples, when they arrive, look up those at the other positions; `pools` is
    for each position the pool that its arriving tuples are read from. `kept` are the lanes that the chain's queries
    need at each position. In a chain of two streams `left_state` is what right tuples probe.
    """

    members: tuple[Member, ...]
    slices: tuple[Slice, ...] = ()
    kept: tuple[tuple[Lane, ...], ...] = ()
    left_state: Direction = Direction()
    right_state: Direction = Direction()
    access: Access = Access()
    pools: tuple[PoolName, ...] = ()
    walks: tuple[tuple[Step, ...], ...] = ()

    @property
    def streams(self) -> tuple[Stream, ...]:
        return self.members[0].streams

    @property
    def is_pairwise(self) -> bool:
        """Whether it joins two streams."""
        return len(self.streams) == 2

    @property
    def is_routing(self) -> bool:
        """Whether pairs are routed to queries by cuts inside a slice."""
        return any(piece.cuts for piece in self.slices)

    @property
    def keys(self) -> tuple[Key, ...]:
        return self.members[0].keys

    @property
    def signature(self) -> Signature:
        return self.members[0].signature

    @property
    def title(self) -> str:
        return " ".join(self.members[0].title)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the positions; those of a stream joined with itself are numbered."""
        names = [stream.name for stream in self.streams]
        counts, seen, found = Counter(names), Counter[str](), []
        for name in names:
            seen[name] += 1
            found.append(name if counts[name] == 1 else f"{name}#{seen[name]}")
        return tuple(found)

    def access_at(self, position: int) -> str:
        """How the rows at a position are searched."""
        return self.access.left if position == LEFT else self.access.right

    def read_at(self) -> list[tuple[int, PoolName]]:
        """Every pool it reads, with the position it is read at."""
        steps = [(step.position, step.pool) for walk in self.walks for step in walk]
        return list(dict.fromkeys([*enumerate(self.pools), *steps]))

    def sql(self, expr: Expr) -> str:
        """An expression over the positions as a user reads it."""
        return text(expr, lambda column: f"{self.names[column.source]}.{column.name}")

    def key_texts(self) -> list[str]:
        """The join predicate as a user reads it; empty where it has no equality."""
        if self.is_pairwise:
            return [f"{self.sql(key.left)} = {self.sql(key.right)}" for key in self.keys]
        return [" = ".join(map(self.sql, some.exprs)) for some in key_classes(self.keys)]

    def predicates(self, position: int) -> tuple[Expr, ...]:
        """The distinct predicates on one stream, each evaluated for all queries at once."""
        conditions = [member.conditions[position] for member in self.members]
        return tuple(sorted(frozenset[Expr]().union(*conditions), key=_plain))


@dataclass(frozen=True, slots=True)
class Plan:
    """The shared plan of a script."""

    script: Script
    statistics: Statistics
    costs: Costs
    members: tuple[Member, ...] = ()
    chains: tuple[Chain, ...] = ()
    pools: tuple[Pool, ...] = ()

    def pool(self, name: PoolName) -> Pool:
        return next(pool for pool in self.pools if pool.name == name)

    def readers(self, name: PoolName) -> list[Chain]:
        """The chains that read a pool."""
        return [chain for chain in self.chains if any(pool == name for _, pool in chain.read_at())]


def _plain(expr: Expr) -> str:
    return text(expr, lambda column: column.name)
