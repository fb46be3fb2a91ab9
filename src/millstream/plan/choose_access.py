"""Pass 4: index or scan for the state of each stream.

By the paper's costs equation 8 of window-cost decides. By calibrated ones an index costs what sorting and merging a row
costs, once; a scan costs a comparison for every row that meets it while it is in the window.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.model.duration import SECOND
from millstream.plan.nodes import LEFT, RIGHT, Access, Chain, Plan
from millstream.plan.window_cost import Window, cheaper_access, cheaper_by_prices


def choose_access(plan: Plan) -> Plan:
    return replace(plan, chains=tuple(replace(chain, access=_access(plan, chain)) for chain in plan.chains))


def _access(plan: Plan, chain: Chain) -> Access:
    """Depends on rates, keys and windows only. Without an equality there is no key to look up: all rows in the window
    are compared.
    """
    if not chain.keys:
        return Access("scan", "scan")
    if not chain.is_pairwise:
        return Access()
    return Access(left=_cheaper(plan, chain, LEFT), right=_cheaper(plan, chain, RIGHT))


def _cheaper(plan: Plan, chain: Chain, side: int) -> str:
    statistics, costs = plan.statistics, plan.costs
    state, probe = chain.streams[side], chain.streams[1 - side]
    if costs.access_ratio is not None:
        rates = statistics.rate(probe), statistics.rate(state)
        return cheaper_access(*rates, statistics.keys(state), costs.access_ratio)
    intervals = [member.interval for member in chain.members]
    spans = [span for one in intervals if (span := one.left_span if side == LEFT else one.right_span) is not None]
    reach = max((far for _, far in spans), default=0) / SECOND
    probing = statistics.unions(probe, [member.conditions[1 - side] for member in chain.members])[-1]
    matching = 1 / statistics.join_selectivity(state, probe, chain=chain.signature)
    return cheaper_by_prices(
        statistics.rate(probe) * probing, Window(statistics.rate(state), reach, matching), costs.prices
    )
