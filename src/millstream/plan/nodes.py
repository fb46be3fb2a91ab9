"""The nodes of a plan. All are immutable; each pass returns a plan with more decided than the one before."""

from __future__ import annotations

import json
from dataclasses import dataclass

from millstream.model.expr import Expr, structure, text
from millstream.model.interval import Interval
from millstream.model.query import Key, Query
from millstream.model.script import Script
from millstream.model.stream import Stream
from millstream.plan.costs import Costs
from millstream.plan.statistics import Statistics

Condition = frozenset[Expr]
"""Conjuncts over one stream that a tuple must all pass; the empty condition lets everything pass."""

LEFT, RIGHT = "left", "right"
Signature = str
"""The identity of a chain: its streams and the structure of its join predicate, as JSON. It names a chain's state in
manifests, so different predicates must have different signatures, whatever their columns are called.
"""


@dataclass(frozen=True, slots=True)
class Member:
    """A query as its chain sees it: left and right in the chain's order, `interval` of T_right - T_left."""

    query: Query
    flipped: bool
    keys: tuple[Key, ...]
    interval: Interval
    left: Condition
    right: Condition
    residual: tuple[Expr, ...]

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def streams(self) -> tuple[Stream, Stream]:
        first, second = (source.stream for source in self.query.sources)
        return (second, first) if self.flipped else (first, second)

    @property
    def signature(self) -> Signature:
        """Members with equal signatures share a chain."""
        left, right = self.streams
        keys = [[structure(key.left), structure(key.right)] for key in self.keys]
        return json.dumps([left.name, right.name, *keys], separators=(",", ":"))

    @property
    def title(self) -> tuple[str, ...]:
        """The signature as text for people. Different predicates may have the same text."""
        left, right = self.streams
        return (left.name, right.name, *(f"{_plain(key.left)} = {_plain(key.right)}" for key in self.keys))


@dataclass(frozen=True, slots=True)
class Lane:
    """Tuples that pass `condition` are needed until the watermark passes their time plus `reach` (microseconds).

    A reach of zero or less is that of a stream whose tuples only match earlier ones: they are kept only for tuples that
    arrive out of order.
    """

    reach: int
    condition: Condition


@dataclass(frozen=True, slots=True)
class Direction:
    """One of the two halves of a window join: one stream is the state, the other probes it.

    `kept` are the lanes of the state stream, from the farthest reach to the nearest: a tuple goes into the first whose
    condition it passes, and is not kept where it passes none. `waiting` and `probing` are the selections of queries on
    the two streams at ages above zero: every condition with the age at which its last query ends, farthest first.
    """

    kept: tuple[Lane, ...] = ()
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
class Chain:
    """The queries of one signature and the slices they share. `left_state` is what right tuples probe."""

    members: tuple[Member, ...]
    slices: tuple[Slice, ...] = ()
    left_state: Direction = Direction()
    right_state: Direction = Direction()
    access: Access = Access()

    @property
    def streams(self) -> tuple[Stream, Stream]:
        return self.members[0].streams

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
    def names(self) -> tuple[str, str]:
        """The names of the two sides; the sides of a stream joined with itself are numbered."""
        left, right = (stream.name for stream in self.streams)
        return (left, right) if left != right else (f"{left}#1", f"{right}#2")

    def lanes(self, side: str) -> tuple[Lane, ...]:
        """Which of a side's tuples are kept, and how long."""
        return (self.left_state if side == LEFT else self.right_state).kept

    def sql(self, expr: Expr) -> str:
        """An expression over the two sides as a user reads it."""
        return text(expr, lambda column: f"{self.names[column.source]}.{column.name}")

    def key_texts(self) -> list[str]:
        """The join predicate as a user reads it; empty where it has no equality."""
        return [f"{self.sql(key.left)} = {self.sql(key.right)}" for key in self.keys]

    def predicates(self, side: str) -> tuple[Expr, ...]:
        """The distinct predicates on one stream, each evaluated for all queries at once."""
        conditions = [member.left if side == LEFT else member.right for member in self.members]
        return tuple(sorted(frozenset[Expr]().union(*conditions), key=_plain))


@dataclass(frozen=True, slots=True)
class Plan:
    """The shared plan of a script."""

    script: Script
    statistics: Statistics
    costs: Costs
    members: tuple[Member, ...] = ()
    chains: tuple[Chain, ...] = ()


def _plain(expr: Expr) -> str:
    return text(expr, lambda column: column.name)
