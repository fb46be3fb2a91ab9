"""A plan chosen again for other statistics, over the pools that are there: only slices, access paths and the order of
probing may differ, so no row of state moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from millstream.plan.costs import Costs
from millstream.plan.estimate import estimate
from millstream.plan.nodes import Chain, Plan
from millstream.plan.passes import PASSES
from millstream.plan.plan_walks import partial_results, plan_walks
from millstream.plan.statistics import Statistics


def replanned(plan: Plan, statistics: Statistics, costs: Costs) -> Plan:
    """The best plan for these statistics that reads the same pools."""
    fresh = Plan(plan.script, statistics, costs)
    for run in PASSES:
        fresh = run(fresh)
        if run is plan_walks:
            fresh = _over_the_same_pools(fresh, plan)
    return fresh


def _over_the_same_pools(fresh: Plan, before: Plan) -> Plan:
    """Rates say which key spreads the rows of a chain of several keys, and so which pools it reads. Its state lies in
    the old ones, so there its walks stay as they were.
    """
    known = {chain.signature: chain for chain in before.chains}

    def kept(chain: Chain) -> Chain:
        old = known[chain.signature]
        if {*chain.read_at()} == {*old.read_at()} and chain.pools == old.pools:
            return chain
        return replace(chain, pools=old.pools, walks=old.walks)

    return replace(fresh, chains=tuple(map(kept, fresh.chains)), pools=before.pools)


def cost_of(plan: Plan, statistics: Statistics, costs: Costs) -> float:
    """What a plan would cost per second of stream if these statistics hold."""
    other = replace(plan, statistics=statistics, costs=costs)
    total = 0.0
    for chain in plan.chains:
        if chain.is_pairwise:
            total += estimate(other, chain).cost
        else:
            total += partial_results(chain, statistics) * float(costs.prices.searches + costs.prices.pairs)
    return total


def differences(before: Plan, after: Plan) -> Iterator[str]:
    """What a change of plans changes, in words."""
    for number, (old, new) in enumerate(zip(before.chains, after.chains, strict=True), 1):
        if old.slices != new.slices:
            yield f"chain {number} has {_slices(len(new.slices))}, not {len(old.slices)}"
        if old.access != new.access and new.is_pairwise:
            paths = zip(
                new.names, (old.access.left, old.access.right), (new.access.left, new.access.right), strict=True
            )
            for name, was, becomes in paths:
                if was != becomes:
                    yield f"{name} of chain {number} is found by {becomes}, not {was}"
        if old.walks != new.walks:
            yield f"chain {number} looks its streams up in another order"


def _slices(count: int) -> str:
    return "1 slice" if count == 1 else f"{count} slices"
