"""Model to shared plan: signatures, slices, access paths, selections, merging; also costs and explain.

The order of the passes is the tuple below; each pass is the file of its name. This room knows `errors` and `model`
and computes with NumPy; it does not know SQL text, and nothing in it runs a query.
"""

from __future__ import annotations

from collections.abc import Callable

from millstream.model.script import Script
from millstream.plan.bind import bind
from millstream.plan.check_plan import check_plan
from millstream.plan.choose_access import choose_access
from millstream.plan.costs import Calibration, Costs, calibrated, paper
from millstream.plan.cut_slices import cut_slices
from millstream.plan.gather_pools import gather_pools
from millstream.plan.group_by_signature import group_by_signature
from millstream.plan.merge_slices import merge_slices
from millstream.plan.nodes import Chain, Plan, Slice
from millstream.plan.plan_walks import plan_walks
from millstream.plan.push_selections import push_selections
from millstream.plan.statistics import Statistics

__all__ = ["PASSES", "Calibration", "Chain", "Costs", "Plan", "Slice", "Statistics", "calibrated", "make_plan", "paper"]

PASSES: tuple[Callable[[Plan], Plan], ...] = (
    bind,
    group_by_signature,
    cut_slices,
    choose_access,
    push_selections,
    merge_slices,
    plan_walks,
    gather_pools,
    check_plan,
)


def make_plan(
    script: Script,
    *,
    statistics: Statistics | None = None,
    costs: Costs | None = None,
    calibration: Calibration | None = None,
) -> Plan:
    """The shared plan of a script; `costs` overrides the costs that its settings choose."""
    plan = Plan(script, statistics or Statistics(), costs or _costs(script, calibration))
    for run in PASSES:
        plan = run(plan)
    return plan


def _costs(script: Script, calibration: Calibration | None) -> Costs:
    return paper(script.settings.system_overhead) if script.settings.costs == "paper" else calibrated(calibration)
