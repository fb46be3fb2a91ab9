"""Join keys: the classes of expressions that equalities make equal, and a key of one stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.model.expr import Column, Expr, order, sources, structure
from millstream.model.query import Key
from millstream.model.types import BIGINT, DataType


@dataclass(frozen=True, slots=True)
class KeyClass:
    """Expressions that a join predicate makes equal, directly or through others, ordered by position, and the type
    they are coded as.
    """

    type: DataType
    exprs: tuple[Expr, ...]

    def at(self, position: int) -> Expr | None:
        """The expression at a position, the first where there are several."""
        return next((expr for expr in self.exprs if sources(expr) == {position}), None)

    @property
    def positions(self) -> frozenset[int]:
        return frozenset().union(*(sources(expr) for expr in self.exprs))


def key_classes(keys: Sequence[Key]) -> list[KeyClass]:
    """The classes of equal expressions. Equalities that are compared in different types stay apart."""
    found: list[tuple[DataType, set[Expr]]] = []
    for key in keys:
        kind = coded_as(key.type)
        known, own = [], {key.left, key.right}
        for other, exprs in found:
            if other == kind and exprs & own:
                own |= exprs
            else:
                known.append((other, exprs))
        found = [*known, (kind, own)]
    classes = [KeyClass(kind, tuple(sorted(exprs, key=_by_position))) for kind, exprs in found]
    return sorted(classes, key=lambda some: [*map(_by_position, some.exprs)])


def _by_position(expr: Expr) -> tuple[object, ...]:
    return (min(sources(expr)), order(expr), repr(structure(expr)))


def coded_as(kind: DataType) -> DataType:
    """The type in which keys compared as this type are coded: integers of any width are one."""
    return BIGINT if kind.is_integer else kind


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A part of a key: an expression over its stream, as source 0, and the type it is coded as."""

    expr: Expr
    type: DataType

    @property
    def is_computed(self) -> bool:
        """Whether its values are not simply those of a column."""
        return not isinstance(self.expr, Column)

    @property
    def name(self) -> str:
        """The same for all keys that have this part."""
        return json.dumps([structure(self.expr), str(self.type)])
