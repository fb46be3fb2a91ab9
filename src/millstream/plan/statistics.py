"""The planner's statistics of the streams: rates, key counts and selectivities.

They come from the hints `rate` and `keys` and from rules of thumb, until they have been measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from millstream.model.expr import Call, Expr, Literal, canonical, moved
from millstream.model.stream import Stream

DEFAULT_RATE = 1_000.0
DEFAULT_KEYS = 1_000
_GUESS = {"=": 0.1, "<>": 0.9, "<": 1 / 3, "<=": 1 / 3, ">": 1 / 3, ">=": 1 / 3, "like": 0.1, "is_null": 0.05}


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known better than the hints: `rates` and `key_counts` of streams, `joins` the share of pairs that match
    in a chain, and of a stream's tuples the share that passes a predicate (`selectivities`) or all of a selection's
    predicates (`selections`).
    """

    selectivities: Mapping[tuple[str, Expr], float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    key_counts: Mapping[str, float] = field(default_factory=dict)
    joins: Mapping[str, float] = field(default_factory=dict)
    selections: Mapping[tuple[str, frozenset[Expr]], float] = field(default_factory=dict)

    def rate(self, stream: Stream) -> float:
        """Tuples per second."""
        return self.rates.get(stream.name) or stream.rate or DEFAULT_RATE

    def keys(self, stream: Stream) -> int:
        return max(1, round(self.key_counts.get(stream.name, 0.0))) if self.knows_keys(stream) else hinted_keys(stream)

    def knows_keys(self, stream: Stream) -> bool:
        """Whether the number of keys has been measured."""
        return self.key_counts.get(stream.name, 0.0) > 0

    def join_selectivity(self, left: Stream, right: Stream, *, keyed: bool = True, chain: str = "") -> float:
        """The share of all pairs that match: as measured in the chain; else the smaller of 1/keys (window-cost, Table
        1), or all without a key.
        """
        known = self.joins.get(chain, 0.0)
        if known > 0:
            return known
        return min(1 / self.keys(left), 1 / self.keys(right)) if keyed else 1.0

    def selectivity(self, stream: Stream, condition: Iterable[Expr]) -> float:
        """The share of a stream's tuples that pass all conjuncts, assumed to be independent where it is not known."""
        conjuncts = frozenset(condition)
        known = self.selection(stream, conjuncts)
        return prod(self._one(stream, predicate) for predicate in conjuncts) if known is None else known

    def selection(self, stream: Stream, condition: frozenset[Expr]) -> float | None:
        """The share that passes all conjuncts as measured; None where it is not."""
        return self.selections.get((stream.name, frozenset(map(in_pool, condition)))) if condition else None

    def unions(self, stream: Stream, conditions: Iterable[frozenset[Expr]]) -> list[float]:
        """The share of tuples that pass at least one of the first 0, 1, 2, ... conditions.

        Conditions count as independent unless one implies another.
        """
        shares, weakest = [0.0], dict[frozenset[Expr], float]()
        for condition in conditions:
            if not any(other <= condition for other in weakest):
                weakest = {other: missed for other, missed in weakest.items() if not condition <= other}
                weakest[condition] = 1 - self.selectivity(stream, condition)
            shares.append(max(shares[-1], 1 - prod(weakest.values())))
        return shares

    def _one(self, stream: Stream, predicate: Expr) -> float:
        known = self.selectivities.get((stream.name, moved(predicate, lambda _: 0)))
        return _guess(predicate) if known is None else known


def hinted_keys(stream: Stream) -> int:
    """The keys of a stream before they have been counted."""
    return stream.keys or DEFAULT_KEYS


def in_pool(expr: Expr) -> Expr:
    """An expression over one position as its pool has it."""
    return canonical(moved(expr, lambda _: 0))


def _guess(predicate: Expr) -> float:
    if isinstance(predicate, Literal):
        return 1.0 if predicate.value else 0.0
    if not isinstance(predicate, Call):
        return 0.5
    if predicate.op == "and":
        return prod(_guess(arg) for arg in predicate.args)
    if predicate.op == "or":
        return 1 - prod(1 - _guess(arg) for arg in predicate.args)
    if predicate.op == "not":
        return 1 - _guess(predicate.args[0])
    if predicate.op == "in":
        return min(1.0, 0.1 * (len(predicate.args) - 1))
    return _GUESS.get(predicate.op, 0.5)
