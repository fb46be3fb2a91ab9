"""Pass 4: selections go into the chain (state-slice section 6).

A tuple is needed up to the farthest age that any query whose selection it passes still asks for. The conditions,
from the farthest reach down, are the disjunctions of the paper: the first one a tuple passes is its depth, and a
condition that says no more than one before it is left out, so nothing is evaluated twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import replace

from millstream.model.interval import Interval
from millstream.plan.nodes import Chain, Condition, Direction, Lane, Plan


def push_selections(plan: Plan) -> Plan:
    return replace(plan, chains=tuple(push(chain) for chain in plan.chains))


def push(chain: Chain) -> Chain:
    """The chain with the lanes of both directions. A tuple stays to the end of the last slice it is needed in."""
    return replace(
        chain,
        left_state=_direction(chain, lambda interval: interval.left_span, left_waits=True),
        right_state=_direction(chain, lambda interval: interval.right_span, left_waits=False),
    )


def _direction(chain: Chain, span: Callable[[Interval], tuple[int, int] | None], *, left_waits: bool) -> Direction:
    ends = sorted(found[1] for piece in chain.slices if (found := span(piece.interval)) is not None)
    reaches = [(found[1], member) for member in chain.members if (found := span(member.interval)) is not None]
    left = _farthest((reach, member.left) for reach, member in reaches)
    right = _farthest((reach, member.right) for reach, member in reaches)
    waiting, probing = (left, right) if left_waits else (right, left)
    return Direction(_in_slices(waiting, ends), _in_slices(probing, ends), waiting, probing)


def _farthest(pairs: Iterable[tuple[int, Condition]]) -> tuple[Lane, ...]:
    """Every distinct condition with its farthest reach, farthest first, weaker conditions before stronger."""
    farthest: dict[Condition, int] = {}
    for reach, condition in pairs:
        farthest[condition] = max(reach, farthest.get(condition, 0))
    lanes = [Lane(reach, condition) for condition, reach in farthest.items()]
    return tuple(sorted(lanes, key=lambda lane: (-lane.reach, len(lane.condition), sorted(map(repr, lane.condition)))))


def _in_slices(lanes: tuple[Lane, ...], ends: list[int]) -> tuple[Lane, ...]:
    """Lanes that end where slices do, without those that say no more than one before them."""
    kept: list[Lane] = []
    for lane in _farthest((ends[bisect_left(ends, lane.reach)], lane.condition) for lane in lanes):
        if not any(other.condition <= lane.condition for other in kept):
            kept.append(lane)
            if not lane.condition:
                break
    return tuple(kept)
