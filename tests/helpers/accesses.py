"""Plans whose access paths are chosen by a test and not by costs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from millstream.plan import Plan
from millstream.plan.gather_pools import gather_pools
from millstream.plan.nodes import Access


def scanning(plan: Plan, streams: Collection[str]) -> Plan:
    """The plan with these streams scanned, and no others, wherever two streams are joined by a key."""
    chains = []
    for chain in plan.chains:
        if chain.is_pairwise and chain.keys:
            left, right = ("scan" if stream.name in streams else "index" for stream in chain.streams)
            chain = replace(chain, access=Access(left, right))
        chains.append(chain)
    return gather_pools(replace(plan, chains=tuple(chains)))
