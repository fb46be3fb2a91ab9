"""The planner's statistics of the streams: rates, key counts and selectivities.

Until run-time statistics exist they come from the hints `rate` and `keys` and from rules of thumb.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from millstream.model.expr import Call, Expr, Literal, moved
from millstream.model.stream import Stream

DEFAULT_RATE = 1_000.0
DEFAULT_KEYS = 1_000
_GUESS = {"=": 0.1, "<>": 0.9, "<": 1 / 3, "<=": 1 / 3, ">": 1 / 3, ">=": 1 / 3, "like": 0.1, "is_null": 0.05}


@dataclass(frozen=True, slots=True)
class Statistics:
    """`selectivities` maps (stream, predicate) to a known share of tuples that pass."""

    selectivities: Mapping[tuple[str, Expr], float] = field(default_factory=dict)

    def rate(self, stream: Stream) -> float:
        """Tuples per second."""
        return stream.rate or DEFAULT_RATE

    def keys(self, stream: Stream) -> int:
        return stream.keys or DEFAULT_KEYS

    def join_selectivity(self, left: Stream, right: Stream, *, keyed: bool = True) -> float:
        """The share of all pairs that match: the smaller of 1/keys (window-cost, Table 1), or all without a key."""
        return min(1 / self.keys(left), 1 / self.keys(right)) if keyed else 1.0

    def selectivity(self, stream: Stream, condition: Iterable[Expr]) -> float:
        """The share of a stream's tuples that pass all conjuncts, assumed to be independent."""
        return prod(self._one(stream, predicate) for predicate in condition)

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
