"""Model to shared plan: signatures, slices, access paths, selections, merging; also costs and explain.

The order of the passes is in `passes`; each pass is the file of its name. This room knows `errors` and `model` and
computes with NumPy; it does not know SQL text, and nothing in it runs a query.
"""

from __future__ import annotations

from millstream.model.script import Script
from millstream.plan.costs import Calibration, Costs, calibrated, paper
from millstream.plan.nodes import Chain, Plan, Slice
from millstream.plan.passes import PASSES
from millstream.plan.statistics import Statistics

__all__ = ["PASSES", "Calibration", "Chain", "Costs", "Plan", "Slice", "Statistics", "calibrated", "make_plan", "paper"]


def make_plan(
    script: Script,
    *,
    statistics: Statistics | None = None,
    costs: Costs | None = None,
    calibration: Calibration | None = None,
) -> Plan:
    """The shared plan of a script; `costs` overrides the costs that its settings choose."""
    plan = Plan(script, statistics or Statistics(), costs or costs_of(script, calibration))
    for run in PASSES:
        plan = run(plan)
    return plan


def costs_of(script: Script, calibration: Calibration | None) -> Costs:
    """The costs that a script's settings choose."""
    return paper(script.settings.system_overhead) if script.settings.costs == "paper" else calibrated(calibration)
