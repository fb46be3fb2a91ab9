"""Pass 7: how arriving tuples of each stream look up the others, and which slots get which rows.

The rows of a chain meet in a slot because they are spread by a key that they have in common: the classes of equal
expressions that cover the most rows. A stream without such an expression goes to every slot. Each result then has all
its rows in exactly one slot, whatever the graph of its equalities, and no intermediate result is kept.

A walk places the positions one after the other; at each step the tuples found so far look up the pool of the next
stream by the key they share with it. The cheapest order has the fewest partial results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from math import prod

from millstream.model.duration import SECOND
from millstream.model.expr import Expr, sources
from millstream.model.query import Key
from millstream.plan.key_classes import KeyClass, KeyPart, key_classes
from millstream.plan.nodes import Chain, Member, Plan, Pool, PoolName, Spread, Step
from millstream.plan.statistics import Statistics, in_pool

_MOST_COMPARED = 6
"""Up to so many streams every order is compared; beyond, the cheapest next step is taken."""


def plan_walks(plan: Plan) -> Plan:
    pools: dict[PoolName, Pool] = {}
    chains = [_with_walks(chain, plan.statistics, pools) for chain in plan.chains]
    return replace(plan, chains=tuple(chains), pools=tuple(pools.values()))


def _with_walks(chain: Chain, statistics: Statistics, pools: dict[PoolName, Pool]) -> Chain:
    """The pools follow from the join predicate and the streams alone, so that a change of queries needs no new state.
    Where one key is common to all streams, the orders follow from the windows and selections too.
    """
    layout, everyone = _Layout(chain, statistics), range(len(chain.streams))
    firm = [layout.walk(_cheapest(layout, statistics, first, ())) for first in everyone]
    walks = firm
    if not layout.spreading or layout.spreading[0].positions == {*everyone}:
        walks = [layout.walk(_cheapest(layout, statistics, first, chain.members)) for first in everyone]
    read_from = []
    for position in everyone:
        own = layout.pool(position, layout.spreading)
        names = {step.pool for walk in firm for step in walk if step.position == position}
        # Arriving tuples are read from a pool that is there anyway, from the routed one where there is one.
        read_from.append(own.name if own.is_routed and own.name in names else min(names))
    chain = replace(chain, walks=tuple(walks), pools=tuple(read_from))
    pools |= {name: layout.made[name] for _, name in chain.read_at()}
    return chain


class _Layout:
    """The classes of equal expressions of a chain, and those of them that spread its rows over the slots."""

    def __init__(self, chain: Chain, statistics: Statistics) -> None:
        self.chain = chain
        self.made: dict[PoolName, Pool] = {}
        self.classes = key_classes(chain.keys)
        by_cover: dict[frozenset[int], list[KeyClass]] = {}
        for some in self.classes:
            by_cover.setdefault(some.positions, []).append(some)

        def rows(cover: frozenset[int]) -> tuple[float, list[int]]:
            return sum(statistics.rate(chain.streams[one]) for one in cover), sorted(-one for one in cover)

        self.spreading: Sequence[KeyClass] = by_cover[max(by_cover, key=rows)] if by_cover else ()

    def pool(self, position: int, by: Sequence[KeyClass]) -> Pool:
        """The pool in which tuples at a position are found by these classes."""
        spread = Spread(chain=self.chain.signature)
        if self.spreading:
            covered = position in self.spreading[0].positions
            spread = Spread(_parts(self.spreading, position)) if covered else Spread(everywhere=True)
        found = Pool(self.chain.streams[position], spread, _parts(by, position))
        return self.made.setdefault(found.name, found)

    def walk(self, order: Sequence[int]) -> tuple[Step, ...]:
        """The steps that place the positions in this order."""
        placed, proven = [order[0]], _Proven()
        steps = []
        for position in order[1:]:
            known = [some for some in self.classes if position in some.positions and some.positions & {*placed}]
            routed = [some for some in known if some in self.spreading]
            by = routed or known
            # Rows of a chain without a key are all routed by one code, the chain's own.
            has_code = bool(routed) or not self.spreading
            sources_of = [next(one for one in placed if one in some.positions) for some in by]
            if len(by) == 1 and by[0].type.is_integer:
                proven.add(by[0], sources_of[0], position)
            pool = self.pool(position, by)
            exprs = [some.at(one) for some, one in zip(by, sources_of, strict=True)]
            checked = [
                key
                for key in self.chain.keys
                if (ends := _ends(key)) <= {*placed, position} and position in ends and not proven.holds(key)
            ]
            steps.append(
                Step(
                    position,
                    pool.name,
                    same=(sources_of or placed)[0] if has_code else None,
                    keys=() if routed else tuple(expr for expr in exprs if expr is not None),
                    checked=tuple(checked),
                )
            )
            placed.append(position)
        return tuple(steps)


class _Proven:
    """Which expressions equal codes have proven equal along a walk."""

    def __init__(self) -> None:
        self._sets: list[set[Expr]] = []

    def add(self, some: KeyClass, source: int, position: int) -> None:
        """One integer's code is exact: at both positions the class's expressions are equal."""
        pair = {expr for at in (source, position) if (expr := some.at(at)) is not None}
        apart = [known for known in self._sets if not known & pair]
        self._sets = [*apart, pair.union(*(known for known in self._sets if known & pair))]

    def holds(self, key: Key) -> bool:
        return any({key.left, key.right} <= known for known in self._sets)


def _ends(key: Key) -> frozenset[int]:
    return sources(key.left) | sources(key.right)


def _parts(classes: Sequence[KeyClass], position: int) -> tuple[KeyPart, ...]:
    found = [(some.at(position), some.type) for some in classes]
    return tuple(KeyPart(in_pool(expr), kind) for expr, kind in found if expr is not None)


def _cheapest(layout: _Layout, statistics: Statistics, first: int, members: Sequence[Member]) -> Sequence[int]:
    """The order with the fewest partial results, beginning with the stream whose tuples arrive."""
    others = [position for position in range(len(layout.chain.streams)) if position != first]
    if len(others) >= _MOST_COMPARED:
        order = [first]
        while others:
            order.append(min(others, key=lambda one: (_fan_out(layout, statistics, (), order, one), one)))
            others.remove(order[-1])
        return order
    orders = [(first, *rest) for rest in permutations(others)]
    return min(orders, key=lambda order: (sum(_sizes(layout, statistics, members, order)), order))


def _sizes(layout: _Layout, statistics: Statistics, members: Sequence[Member], order: Sequence[int]) -> Iterator[float]:
    """How many partial results there are after each step, for one arriving tuple."""
    size = 1.0
    for count in range(1, len(order)):
        size *= _fan_out(layout, statistics, members, order[:count], order[count])
        yield size


def partial_results(chain: Chain, statistics: Statistics) -> float:
    """How many partial and whole results the walks of a chain find per second."""
    layout = _Layout(chain, statistics)
    total = 0.0
    for first, walk in enumerate(chain.walks):
        order = (first, *(step.position for step in walk))
        found = sum(_sizes(layout, statistics, chain.members, order))
        total += statistics.rate(chain.streams[first]) * (1 + found)
    return total


def _fan_out(
    layout: _Layout, statistics: Statistics, members: Sequence[Member], placed: Sequence[int], position: int
) -> float:
    """How many tuples a partial result finds at a position: those of its time, with its keys."""
    stream = layout.chain.streams[position]
    rows = statistics.rate(stream) * _seconds(members, placed, position)
    if members:
        rows *= statistics.unions(stream, [member.conditions[position] for member in members])[-1]
    shared = [some for some in layout.classes if position in some.positions and some.positions & {*placed}]
    others = [min(statistics.keys(layout.chain.streams[one]) for one in {*placed} & some.positions) for some in shared]
    return rows * prod(1 / max(statistics.keys(stream), keys) for keys in others)


def _seconds(members: Sequence[Member], placed: Sequence[int], position: int) -> float:
    """The time in which a partial result's tuples lie at a position, for the widest query; a minute where none is
    given.
    """
    widths = [min((found := member.bound(one, position)).hi - found.lo for one in placed) for member in members]
    return max(widths, default=60 * SECOND) / SECOND
