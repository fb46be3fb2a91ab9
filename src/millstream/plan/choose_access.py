"""Pass 4: index or scan for the state of each stream, by window-cost equation 8."""

from __future__ import annotations

from dataclasses import replace

from millstream.plan.nodes import Access, Chain, Plan
from millstream.plan.window_cost import cheaper_access


def choose_access(plan: Plan) -> Plan:
    return replace(plan, chains=tuple(replace(chain, access=_access(plan, chain)) for chain in plan.chains))


def _access(plan: Plan, chain: Chain) -> Access:
    """Depends on rates and keys only. Without an equality there is no key to look up: all rows in the window are
    compared.
    """
    if not chain.keys:
        return Access("scan", "scan")
    if not chain.is_pairwise:
        return Access()
    left, right = chain.streams
    rate, keys, ratio = plan.statistics.rate, plan.statistics.keys, plan.costs.access_ratio
    return Access(
        left=cheaper_access(rate(right), rate(left), keys(left), ratio),
        right=cheaper_access(rate(left), rate(right), keys(right), ratio),
    )
