"""Pass 1: each query in its canonical form, with streams and predicates in the chain's order.

It also refuses what no runner can execute yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby, islice, permutations, product

from millstream.errors import Errors, InternalError, NotSupportedYet
from millstream.model.expr import Expr, canonical, moved, order, sources
from millstream.model.query import Bound, Key, Query, TimeWindow
from millstream.plan.nodes import Member, Plan

_MOST_ORDERS = 720
"""A stream that is joined with itself more often than this allows to compare keeps the order of FROM."""


def bind(plan: Plan) -> Plan:
    errors = Errors()
    members = []
    for query in plan.script.queries:
        missing = _not_supported(query)
        if missing is not None:
            errors.add(missing)
        else:
            members.append(_member(query))
    errors.raise_if_any()
    return replace(plan, members=tuple(sorted(members, key=_by_chain)))


def _by_chain(member: Member) -> tuple[object, ...]:
    return (member.title, member.signature, member.name)


def _not_supported(query: Query) -> NotSupportedYet | None:
    if isinstance(query.window, TimeWindow):
        return None
    found = "a window in ROWS is not supported yet", "windows in time run", "Give the window as a time."
    return NotSupportedYet(*found, query.where)


def _member(query: Query) -> Member:
    """The streams' names decide their order; for a stream joined with itself the keys decide, then the window."""
    return min((_ordered(query, some) for some in _orders(query)), key=_preference)


def _orders(query: Query) -> Iterator[tuple[int, ...]]:
    """The orders of a query's sources in which streams come by name."""
    by_name = sorted(range(len(query.sources)), key=lambda source: query.sources[source].stream.name)
    groups = [list(some) for _, some in groupby(by_name, key=lambda source: query.sources[source].stream.name)]
    # Cut at each group too: a product takes in all of each before it gives the first.
    every = product(*(islice(permutations(some), _MOST_ORDERS) for some in groups))
    for some in islice(every, _MOST_ORDERS):
        yield tuple(source for group in some for source in group)


def _ordered(query: Query, chosen: tuple[int, ...]) -> Member:
    if not isinstance(query.window, TimeWindow):
        raise InternalError(f"query {query.name} has no window in time")
    positions = {source: position for position, source in enumerate(chosen)}
    to = positions.__getitem__
    keys = [_turned(Key(moved(key.left, to), moved(key.right, to), key.type)) for key in query.keys]
    return Member(
        query=query,
        order=chosen,
        keys=tuple(sorted(keys, key=lambda key: (order(key.left), order(key.right)))),
        bounds=tuple(sorted((_bound(bound, to) for bound in query.window.bounds), key=_by_positions)),
        conditions=tuple(
            frozenset(_moved(predicate, to) for predicate in query.selections[source]) for source in chosen
        ),
        residual=tuple(sorted((_moved(predicate, to) for predicate in query.residual), key=order)),
    )


def _preference(member: Member) -> tuple[object, ...]:
    """Least first: of two orders of the same stream the one whose results lie farther to the right of zero."""
    aliases = [member.query.sources[source].alias for source in member.order]
    middles = [-bound.interval.lo - bound.interval.hi for bound in member.bounds]
    return ([stream.name for stream in member.streams], member.title, member.signature, middles, aliases)


def _turned(key: Key) -> Key:
    """The key with the earlier position to the left."""
    return Key(key.right, key.left, key.type) if _position(key.left) > _position(key.right) else key


def _position(expr: Expr) -> int:
    return min(sources(expr))


def _bound(bound: Bound, to: Callable[[int], int]) -> Bound:
    left, right = to(bound.left), to(bound.right)
    return Bound(left, right, bound.interval) if left < right else Bound(right, left, bound.interval.mirrored())


def _by_positions(bound: Bound) -> tuple[int, int]:
    return bound.left, bound.right


def _moved(predicate: Expr, to: Callable[[int], int]) -> Expr:
    return canonical(moved(predicate, to))
