"""`millstream bench slicing`: whether the plan that the planner calls cheapest is the fastest on the engine.

The same queries over the same rows, sliced in three ways: at every end of a window (the memory-optimal chain), as the
planner chooses (the CPU-optimal chain), and not at all. The three take turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from millstream.compile import compile_script
from millstream.lab.show import bars, verdict
from millstream.lab.timed import cpu_seconds
from millstream.lab.workloads.windows import TABLE_4, UNIFORM, window_rows, window_script
from millstream.plan import Calibration, Plan
from millstream.plan.cut_slices import endpoints, slices_at
from millstream.plan.estimate import estimate

WAYS = ("memory-optimal", "CPU-optimal", "one slice")
_NEAR, _DIFFERENT = 1.05, 1.10


@dataclass(frozen=True, slots=True)
class Workload:
    """Windows in seconds over two streams; the first `warm` batches fill the widest window and are not timed."""

    name: str
    windows: Sequence[float]
    rate: float
    keys: int
    seconds: float
    batches: int
    warm: int

    def script(self) -> str:
        return window_script(self.windows, rate=self.rate, keys=self.keys)

    def rows(self) -> list[dict[str, pa.Table]]:
        return list(window_rows(self.rate, self.keys, self.seconds, self.batches))


WORKLOADS = (
    Workload("seven Uniform windows", UNIFORM, 1_000, 20_000, 1_200, 24, 12),
    *(Workload(f"Table 4, {name}", windows, 8_000, 4_000, 60, 12, 6) for name, windows in TABLE_4.items()),
)
"""shared-join's Uniform row, and state-slice's Table 4 with a hundred times its rate and keys: as many pairs a row."""


def plans(script: str, calibration: Calibration | None = None) -> dict[str, Plan]:
    """The same queries, sliced in up to three ways."""
    chosen = compile_script(script, calibration=calibration)
    (chain,) = chosen.chains
    ends = endpoints(chain)
    cut = {"memory-optimal": ends, "one slice": [ends[0], ends[-1]]}
    sliced = {way: replace(chain, slices=slices_at(chain, borders)) for way, borders in cut.items()}
    found = {way: replace(chosen, chains=(sliced.get(way, chain),)) for way in WAYS}
    same = next((way for way, other in sliced.items() if other.slices == chain.slices), None)
    if same:
        del found[same]
        found = {f"CPU-optimal, {same}" if way == "CPU-optimal" else way: plan for way, plan in found.items()}
    return found


def report(rounds: int = 3, calibration: Calibration | None = None) -> Iterator[str]:
    """The table of the command."""
    failed = 0
    for workload in WORKLOADS:
        batches, ways = workload.rows(), plans(workload.script(), calibration)
        times: dict[str, float] = dict.fromkeys(ways, float("inf"))
        counts = set()
        for _ in range(rounds):
            for way, plan in ways.items():
                taken, rows = cpu_seconds(plan, batches, workload.warm)
                times[way] = min(times[way], taken)
                counts.add(rows)
        estimates = {way: estimate(plan, plan.chains[0]).cost for way, plan in ways.items()}
        yield ""
        yield f"{workload.name}: {counts.pop():,} rows out, {'the same' if not counts else 'NOT THE SAME'} in all ways"
        for way, plan in ways.items():
            slices, drawn = len(plan.chains[0].slices), bars(times[way], max(times.values()))
            yield f"  {way:27} {slices:>3} slices  {times[way]:6.2f} s  estimated {estimates[way]:8.3g} ms/s  {drawn}"
        near = next(taken for way, taken in times.items() if way.startswith("CPU")) / min(times.values())
        ordered = in_order(times, estimates)
        failed += (near > _NEAR) + (not ordered) + bool(counts)
        yield f"  the plan takes {near:.2f} of the fastest (limit {_NEAR}): {verdict(near <= _NEAR)}"
        yield f"  estimates are in the order of times that differ by more than 10 %: {verdict(ordered)}"
    yield ""
    yield "all hold" if not failed else f"{failed} FAIL"


def in_order(times: Mapping[str, float], estimates: Mapping[str, float]) -> bool:
    """Whether, for any two ways whose times clearly differ, the estimate of the slower one is higher."""
    return all(
        estimates[slow] > estimates[fast] for slow in times for fast in times if times[slow] > _DIFFERENT * times[fast]
    )
