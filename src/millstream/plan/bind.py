"""Pass 1: each query in its canonical form, with streams and predicates in the chain's order.

It also refuses what no runner can execute yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millstream.errors import Errors, InternalError, NotSupportedYet
from millstream.model.expr import Expr, canonical, moved, order
from millstream.model.interval import Interval
from millstream.model.query import Key, Query, TimeWindow
from millstream.plan.nodes import Member, Plan


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
    found = None
    if len(query.sources) > 2:
        found = f"a join of {len(query.sources)} streams is not supported yet", "two streams run", "Join two of them."
    elif not isinstance(query.window, TimeWindow):
        found = "a window in ROWS is not supported yet", "windows in time run", "Give the window as a time."
    return NotSupportedYet(*found, query.where) if found else None


def _member(query: Query) -> Member:
    """The streams' names decide which one is left; for a stream joined with itself the keys decide, then the window."""
    if not isinstance(query.window, TimeWindow):
        raise InternalError(f"query {query.name} has no window in time")
    interval = query.window.bounds[0].interval
    straight, flipped = _oriented(query, interval, flip=False), _oriented(query, interval, flip=True)
    return min(straight, flipped, key=_preference)


def _oriented(query: Query, interval: Interval, *, flip: bool) -> Member:
    to: Callable[[int], int] = (lambda source: 1 - source) if flip else (lambda source: source)
    keys = [_flipped(key, to) if flip else key for key in query.keys]
    selections = [frozenset(_moved(predicate, to) for predicate in selection) for selection in query.selections]
    left, right = reversed(selections) if flip else selections
    return Member(
        query,
        flip,
        tuple(sorted(keys, key=lambda key: (order(key.left), order(key.right)))),
        interval.mirrored() if flip else interval,
        left,
        right,
        tuple(sorted((_moved(predicate, to) for predicate in query.residual), key=order)),
    )


def _preference(member: Member) -> tuple[object, ...]:
    left, right = member.streams
    aliases = [source.alias for source in member.query.sources]
    return (
        left.name,
        right.name,
        member.title,
        member.signature,
        -member.interval.lo - member.interval.hi,
        aliases[member.flipped],
    )


def _flipped(key: Key, to: Callable[[int], int]) -> Key:
    return Key(moved(key.right, to), moved(key.left, to), key.type)


def _moved(predicate: Expr, to: Callable[[int], int]) -> Expr:
    return canonical(moved(predicate, to))
