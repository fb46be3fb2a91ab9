"""Pass 8: the lanes of pools, and which of them are indexed.

A tuple is kept for as long as any query of any chain that reads the pool needs it, and found by index where any does.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.plan.nodes import Condition, Plan, PoolName, in_pool
from millstream.plan.push_selections import farthest_lanes


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
    return replace(plan, pools=tuple(sorted(pools, key=lambda pool: (pool.title, pool.name))))
