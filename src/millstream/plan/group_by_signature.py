"""Pass 2: queries with the same streams and the same join predicate share a chain."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from millstream.plan.nodes import Chain, Member, Plan


def group_by_signature(plan: Plan) -> Plan:
    groups = groupby(plan.members, key=lambda member: member.signature)
    chains = tuple(Chain(members=tuple(sorted(members, key=_by_width))) for _, members in groups)
    return replace(plan, chains=chains)


def _by_width(member: Member) -> tuple[int, int, str]:
    """Narrow windows first, as the papers number their queries."""
    return (member.interval.hi - member.interval.lo, member.interval.lo, member.name)
