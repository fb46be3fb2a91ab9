"""A plan as JSON. Times are microseconds; a slice is `lo_us <= d < hi_us` with d = T_right - T_left, or for more than
two streams the latest time of a result minus the earliest.
"""

from __future__ import annotations

import json

from millstream.model.expr import text
from millstream.plan.estimate import estimate
from millstream.plan.estimate_pools import estimate_pools, rows_per_chain
from millstream.plan.nodes import Chain, Plan


def as_json(plan: Plan) -> str:
    return json.dumps(plan_json(plan), indent=2)


def plan_json(plan: Plan) -> dict[str, object]:
    pools = [
        {
            "stream": one.pool.stream.name,
            "key": [text(part.expr, lambda column: column.name) for part in one.pool.by],
            "everywhere": one.pool.spread.everywhere,
            "chains": list(one.readers),
            "memory_rows": round(one.rows),
        }
        for one in estimate_pools(plan)
    ]
    return {
        "chains": [_chain(plan, chain) for chain in plan.chains],
        "pools": pools,
        "memory_rows": sum(round(one.rows) for one in estimate_pools(plan)),
        "memory_rows_per_chain": round(sum(rows_per_chain(plan, chain) for chain in plan.chains)),
    }


def _chain(plan: Plan, chain: Chain) -> dict[str, object]:
    numbers = {pool.name: number for number, pool in enumerate(plan.pools, 1)}
    access = {"left": chain.access.left, "right": chain.access.right}
    shown: dict[str, object] = {
        "streams": [stream.name for stream in chain.streams],
        "key": chain.key_texts(),
        "slices": [
            {
                "lo_us": piece.interval.lo,
                "hi_us": piece.interval.hi,
                "cuts_us": list(piece.cuts),
                "queries": list(piece.queries),
                **({"access": access} if chain.is_pairwise else {}),
            }
            for piece in chain.slices
        ],
        "walks": [[numbers[step.pool] for step in walk] for walk in chain.walks],
        "memory_rows": round(rows_per_chain(plan, chain)),
    }
    if chain.is_pairwise:
        shown["cpu_cost"] = float(f"{estimate(plan, chain).cost:.6g}")
    return shown
