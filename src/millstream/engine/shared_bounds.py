"""One test for many residual predicates: queries that compare the same expression with constants of their own.

`a + b > 7`, `a + b > 8` and `a + b >= 9` all imply `a + b >= 7`. A shared bound is evaluated once for all pairs, before
they are routed; each query evaluates only the pairs that pass. As in an index over predicates, the cost of another
query depends on the pairs that pass, not on all pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.engine.arrow import Ints
from millstream.engine.expressions import ColumnLookup, compared_as, compile_filter
from millstream.model.expr import Call, Expr, Literal
from millstream.model.functions import Function
from millstream.model.interval import Interval
from millstream.plan.nodes import Member

_ENOUGH = 2
_AT_LEAST, _AT_MOST = (">", ">="), ("<", "<=")
Bound = tuple[str, str, str]
"""What is bounded, `>=` or `<=`, and the type in which it is compared, since casts keep the order of constants."""


@dataclass(frozen=True, slots=True, eq=False)
class SharedBound:
    """A bound that all predicates of its queries imply: which rows pass. `hull` covers the queries' windows."""

    passing: Callable[[ColumnLookup, int], Ints]
    hull: Interval


def find_shared_bounds(members: Sequence[Member], functions: Mapping[str, Function]) -> dict[str, SharedBound]:
    """The bounds worth having, by the names of the queries that share them."""
    bounds = {member.name: dict(_bounds(member.residual)) for member in members}
    shared = Counter(bound for bound, _ in {item for found in bounds.values() for item in found.items()})
    chosen: dict[Bound, list[Member]] = {}
    for member in members:
        best = max(bounds[member.name], key=lambda bound: (shared[bound], bound), default=None)
        if best is not None and shared[best] >= _ENOUGH:
            chosen.setdefault(best, []).append(member)
    found: dict[str, SharedBound] = {}
    for bound, some in chosen.items():
        pick = min if bound[1] == ">=" else max
        weakest = pick((bounds[member.name][bound] for member in some), key=_constant)
        hull = Interval(min(one.interval.lo for one in some), max(one.interval.hi for one in some))
        predicate = Call(bound[1], weakest.args, weakest.type)
        common = SharedBound(compile_filter([predicate], functions), hull)
        found |= {member.name: common for member in some}
    return found


def _bounds(residual: Sequence[Expr]) -> Iterator[tuple[Bound, Call]]:
    for part in residual:
        if not isinstance(part, Call) or part.op not in (*_AT_LEAST, *_AT_MOST):
            continue
        bounded, literal = part.args
        constant = _constant(part)
        # NaN cannot be ordered among constants.
        if constant is not None and constant == constant:
            kind = compared_as(part) or bounded.type
            yield (repr(bounded), ">=" if part.op in _AT_LEAST else "<=", f"{kind} {literal.type.family}"), part


def _constant(comparison: Call) -> Any:
    """The constant that an expression is compared with, if it is one."""
    right = comparison.args[1]
    return right.value if isinstance(right, Literal) else None
