"""Pass 8: the lanes of pools, and which of them are indexed.

A tuple is kept for as long as any query of any chain that reads the pool needs it. Where any chain looks it up by
index, the index is there for all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from millstream.plan.nodes import LEFT, RIGHT, Access, Chain, Condition, Plan, PoolName
from millstream.plan.push_selections import farthest_lanes
from millstream.plan.statistics import in_pool


def gather_pools(plan: Plan) -> Plan:
    needed: dict[PoolName, list[tuple[int, Condition]]] = {}
    indexed: set[PoolName] = set()
    for chain in plan.chains:
        for position, name in chain.read_at():
            lanes = [(lane.reach, frozenset(map(in_pool, lane.condition))) for lane in chain.kept[position]]
            needed.setdefault(name, []).extend(lanes)
            if chain.access_at(position) == "index":
                indexed.add(name)
    pools = [
        replace(pool, lanes=farthest_lanes(needed[pool.name]), is_indexed=pool.name in indexed) for pool in plan.pools
    ]
    chains = tuple(replace(chain, access=_settled(chain, indexed)) for chain in plan.chains)
    return replace(plan, chains=chains, pools=tuple(sorted(pools, key=lambda pool: (pool.title, pool.name))))


def _settled(chain: Chain, indexed: Collection[PoolName]) -> Access:
    """A chain of two streams does not scan what another chain has indexed."""
    if not chain.is_pairwise:
        return chain.access
    read = dict(chain.read_at())
    left, right = ("index" if read[side] in indexed else chain.access_at(side) for side in (LEFT, RIGHT))
    return Access(left, right)
