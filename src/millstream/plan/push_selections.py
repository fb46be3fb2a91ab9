"""Pass 5: selections go into the state (state-slice section 6).

A tuple is needed up to the farthest age of any query whose selection it passes. The conditions, from the farthest reach
down, are the disjunctions of the paper: the first one a tuple passes is its lane, and a condition that implies one
before it is left out. Lanes end where queries end, however slices are merged, so state is that of the paper's
memory-optimal chain under every slicing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from millstream.model.interval import Interval
from millstream.plan.nodes import Chain, Condition, Direction, Lane, Plan


def push_selections(plan: Plan) -> Plan:
    return replace(plan, chains=tuple(push(chain) for chain in plan.chains))


def push(chain: Chain) -> Chain:
    """The chain with the lanes of all positions."""
    kept = [
        farthest_lanes((member.reach(position), member.conditions[position]) for member in chain.members)
        for position in range(len(chain.streams))
    ]
    chain = replace(chain, kept=tuple(kept))
    if not chain.is_pairwise:
        return chain
    return replace(
        chain,
        left_state=Direction(*_asked(chain, lambda interval: interval.left_span)),
        right_state=Direction(*reversed(_asked(chain, lambda interval: interval.right_span))),
    )


def _asked(
    chain: Chain, span: Callable[[Interval], tuple[int, int] | None]
) -> tuple[tuple[Lane, ...], tuple[Lane, ...]]:
    """The conditions of one direction's queries on the left and on the right stream."""
    reaches = [(found[1], member) for member in chain.members if (found := span(member.interval)) is not None]
    left = _farthest((reach, member.left) for reach, member in reaches)
    right = _farthest((reach, member.right) for reach, member in reaches)
    return left, right


def _farthest(pairs: Iterable[tuple[int, Condition]]) -> tuple[Lane, ...]:
    """Every distinct condition with its farthest reach, farthest first, weaker conditions before stronger."""
    farthest: dict[Condition, int] = {}
    for reach, condition in pairs:
        farthest[condition] = max(reach, farthest.get(condition, reach))
    lanes = [Lane(reach, condition) for condition, reach in farthest.items()]
    return tuple(sorted(lanes, key=lambda lane: (-lane.reach, len(lane.condition), sorted(map(repr, lane.condition)))))


def farthest_lanes(pairs: Iterable[tuple[int, Condition]]) -> tuple[Lane, ...]:
    """The lanes of tuples needed up to these ages under these conditions, without those whose condition implies an
    earlier one.
    """
    kept: list[Lane] = []
    for lane in _farthest(pairs):
        if not any(other.condition <= lane.condition for other in kept):
            kept.append(lane)
    return tuple(kept)
