"""A plan as JSON. Times are microseconds; a slice is `lo_us <= d < hi_us` with d = T_right - T_left."""

from __future__ import annotations

import json

from millstream.plan.estimate import estimate
from millstream.plan.nodes import Chain, Plan


def as_json(plan: Plan) -> str:
    return json.dumps({"chains": [_chain(plan, chain) for chain in plan.chains]}, indent=2)


def _chain(plan: Plan, chain: Chain) -> dict[str, object]:
    found = estimate(plan, chain)
    access = {"left": chain.access.left, "right": chain.access.right}
    return {
        "streams": [stream.name for stream in chain.streams],
        "key": chain.key_texts(),
        "slices": [
            {
                "lo_us": piece.interval.lo,
                "hi_us": piece.interval.hi,
                "cuts_us": list(piece.cuts),
                "queries": list(piece.queries),
                "access": access,
            }
            for piece in chain.slices
        ],
        "memory_rows": round(found.rows),
        "cpu_cost": float(f"{found.cost:.6g}"),
    }
