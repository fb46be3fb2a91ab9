"""state-slice, Figures 11 and 19: what slicing saves by the equations, and which chains are CPU-optimal under which
cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from millstream.compile import compile_script
from millstream.lab.workloads.windows import TABLE_4, window_script
from millstream.plan import Costs, Plan, calibrated, paper
from millstream.plan.costs import Amount, Part, route_every

SYSTEM_OVERHEADS = (0, 1, 3, 5, 9, 20, 60, 100, 200, 400)
CLAIMS = {
    "Uniform": tuple((w,) for w in TABLE_4["Uniform"]),
    "Mostly-Small": (TABLE_4["Mostly-Small"][:10], (20.0,), (30.0,)),
    "Small-Large": (TABLE_4["Small-Large"][:6], TABLE_4["Small-Large"][6:]),
}
"""Which windows share a slice in the paper."""


def plan_of(windows: str, costs: Costs) -> Plan:
    return compile_script(window_script(TABLE_4[windows]), costs=costs)


def groups(plan: Plan) -> tuple[tuple[float, ...], ...]:
    """The windows that end in each slice of the right half of the axis, in seconds."""
    found = []
    for piece in plan.chains[0].slices:
        ends = [*(cut for cut in piece.cuts if cut > 0), piece.interval.hi]
        if piece.interval.hi > 0:
            found.append(tuple(end / 1e6 for end in ends))
    return tuple(found)


def holds(windows: str, plan: Plan) -> bool:
    """Whether the plan merges exactly as the paper's for Figure 19."""
    return groups(plan) == tuple(tuple(float(w) for w in group) for group in CLAIMS[windows])


def figure_19() -> Iterator[str]:
    """Which windows share a slice under each cost; * marks the plan the paper names."""
    yield "state-slice Figure 19: the CPU-optimal chain of Table 4's twelve queries (80 rows/s, join selectivity 0.025)"
    yield "windows in [ ] share a slice; * = the plan the paper names"
    for windows in TABLE_4:
        yield ""
        yield f"{windows}   the paper: {_shown(CLAIMS[windows])}"
        for name, costs in _cost_list():
            plan = plan_of(windows, costs)
            yield f"  {name:<34} {'*' if holds(windows, plan) else ' '} {_shown(groups(plan))}"


def route_first(part: Part) -> Amount:
    """A router that stops at the first window that contains the pair."""
    width = np.maximum(part.end - part.start, 1)
    return np.where(part.cuts > 0, part.pairs * (part.cuts * part.end - part.cut_sum) / width, 0.0)


def _cost_list() -> Iterator[tuple[str, Costs]]:
    for c_sys in SYSTEM_OVERHEADS:
        yield f"as printed, C_sys = {c_sys}", paper(c_sys, route_every)
    for c_sys in SYSTEM_OVERHEADS:
        yield f"router stops early, C_sys = {c_sys}", paper(c_sys, route_first)
    yield "calibrated, our router", calibrated()


def _shown(found: Sequence[Sequence[float]]) -> str:
    return " ".join("[" + " ".join(f"{w:g}" for w in group) + "]" for group in found)


def savings(rho: float, s_sigma: float, s_join: float) -> dict[str, float]:
    """Equation 4: what state-slicing saves of memory and CPU against pull-up (1) and push-down (2)."""
    return {
        "memory against pull-up": (1 - rho) * (1 - s_sigma) / 2,
        "memory against push-down": rho / (1 + 2 * rho + (1 - rho) * s_sigma),
        "CPU against pull-up": ((1 - rho) * (1 - s_sigma) + (2 - rho) * s_join) / (1 + 2 * s_join),
        "CPU against push-down": s_sigma * s_join / (rho * (1 - s_sigma) + s_sigma + s_sigma * s_join + rho * s_join),
    }


def figure_11() -> Iterator[str]:
    """Savings over the window ratio W1/W2 for three selectivities of the selection."""
    yield "state-slice Figure 11: savings of state-slicing by equation 4, in %"
    shares = (0.05, 0.2, 0.5, 0.8, 0.95)
    for s_join in (0.025, 0.1, 0.4):
        for s_sigma in (0.01, 0.2, 0.5, 0.8):
            yield ""
            setting = f"join selectivity {s_join:g}, selection {s_sigma:g}   W1/W2 ="
            yield f"{setting} {'  '.join(f'{rho:>5g}' for rho in shares)}"
            for name in savings(0.5, s_sigma, s_join):
                row = "  ".join(f"{100 * savings(rho, s_sigma, s_join)[name]:5.1f}" for rho in shares)
                yield f"  {name:<44} {row}"
