"""Pass 6: index or scan for the state of each stream, by window-cost equation 8."""

from __future__ import annotations

from dataclasses import replace

from millstream.plan.nodes import Access, Chain, Plan
from millstream.plan.window_cost import cheaper_access


def choose_access(plan: Plan) -> Plan:
    return replace(plan, chains=tuple(replace(chain, access=access_for(plan, chain)) for chain in plan.chains))


def access_for(plan: Plan, chain: Chain) -> Access:
    """Depends on rates and keys alone, not on how slices are merged, so the merge pass can ask for it too.

    Without an equality there is no key to look up: every tuple in the window is compared.
    """
    if not chain.keys:
        return Access("scan", "scan")
    left, right = chain.streams
    rate, keys, ratio = plan.statistics.rate, plan.statistics.keys, plan.costs.access_ratio
    return Access(
        left=cheaper_access(rate(right), rate(left), keys(left), ratio),
        right=cheaper_access(rate(left), rate(right), keys(right), ratio),
    )
