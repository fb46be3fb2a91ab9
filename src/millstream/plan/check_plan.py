"""Pass 9: checks the finished plan; refuses one that could lose or duplicate rows.

The engine executes slices, cuts and lanes as they are given, so an error in a plan would be an error in the results.
"""

from __future__ import annotations

from itertools import pairwise

from millstream.errors import InternalError
from millstream.plan.nodes import Chain, Condition, Member, Plan, Pool
from millstream.plan.statistics import in_pool


def check_plan(plan: Plan) -> Plan:
    for chain in plan.chains:
        _check_slices(chain)
        _check_walks(chain)
        for member in chain.members:
            _check_lanes(plan, chain, member)
    return plan


def _check_slices(chain: Chain) -> None:
    """Slices are disjoint and in order, serve exactly the queries they overlap, and cover the whole window of each."""
    for one, other in pairwise(piece.interval for piece in chain.slices):
        if one.hi > other.lo:
            raise InternalError(f"slices {one} and {other} of {chain.title} overlap")
    covered = dict.fromkeys((member.name for member in chain.members), 0)
    for piece in chain.slices:
        lo, hi = piece.interval.lo, piece.interval.hi
        served = [member for member in chain.members if member.interval.lo < hi and member.interval.hi > lo]
        if piece.queries != tuple(member.name for member in served) or not served:
            raise InternalError(f"slice {piece.interval} of {chain.title} serves {piece.queries}")
        ends = {end for member in served for end in (member.interval.lo, member.interval.hi) if lo < end < hi}
        if piece.cuts != tuple(sorted(ends)):
            raise InternalError(f"slice {piece.interval} of {chain.title} is cut at {piece.cuts}")
        for member in served:
            covered[member.name] += min(hi, member.interval.hi) - max(lo, member.interval.lo)
    for member in chain.members:
        if covered[member.name] != member.interval.hi - member.interval.lo:
            raise InternalError(f"the slices of {chain.title} do not cover {member.name}")


def _check_lanes(plan: Plan, chain: Chain, member: Member) -> None:
    """A tuple goes into the first lane whose condition it passes. So in no pool that the query reads may a lane that
    its tuples may go into end before the query does, and one lane must take them all.
    """
    for position, name in chain.read_at():
        condition = frozenset(map(in_pool, member.conditions[position]))
        if not _is_kept(plan.pool(name), condition, member.reach(position)):
            raise InternalError(f"the tuples of {member.name} are not kept in {name} for as long as it needs them")


def _is_kept(pool: Pool, condition: Condition, reach: int) -> bool:
    for lane in pool.lanes:
        if lane.reach < reach:
            return False
        if lane.condition <= condition:
            return True
    return False


def _check_walks(chain: Chain) -> None:
    """Every walk places every position once, and the equalities that codes do not prove are checked in the end."""
    everyone = set(range(len(chain.streams)))
    if len(chain.walks) != len(everyone):
        raise InternalError(f"{chain.title} has {len(chain.walks)} walks")
    for first, walk in enumerate(chain.walks):
        if [first, *(step.position for step in walk)] != list(dict.fromkeys([first, *(s.position for s in walk)])):
            raise InternalError(f"a walk of {chain.title} places a stream twice")
        if {first, *(step.position for step in walk)} != everyone:
            raise InternalError(f"a walk of {chain.title} leaves out a stream")
