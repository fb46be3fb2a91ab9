"""Measures the costs of the engine's steps on this machine.

The engine runs plans that differ in how many windows they have and how these are sliced. The prices are fitted to the
CPU times of these runs, with the planner's own counts of steps, so its estimates are in the time of the real code. The
costs of a scan are fitted to what scanning the faster of two streams takes beyond an index on both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.keys import codes
from millstream.engine.probe import matches
from millstream.engine.segment import Lot, Segment, build
from millstream.lab.timed import best_of, cpu_seconds
from millstream.lab.workloads.two_rates import TwoRates, cpu_times
from millstream.lab.workloads.windows import window_rows, window_script
from millstream.model.interval import Interval
from millstream.plan import Calibration, Plan
from millstream.plan.costs import Costs, RouteByClass, StepCounts
from millstream.plan.cut_slices import endpoints, slices_at
from millstream.plan.estimate import estimate
from millstream.plan.nodes import RIGHT

_RATE, _BATCHES, _SECONDS = 2_000, 12, 60
"""Large batches: below some thousand rows the fixed cost of a batch exceeds that of its rows."""
_WARM = 6
"""Batches until the widest window is full; the batches after them are timed."""
_EVERY = tuple(2.5 * number for number in range(1, 13))
_WINDOWS = ((1.0,), (30.0,), (15.0, 30.0), _EVERY)
_KEYS = (1_000, 10_000)
_ROUNDS, _SCAN_ROUNDS = 3, 5
_LEAST = 0.01
_SCANNED, _SCANNED_KEYS, _SCANNING = 5_000, (200, 5_000), (0.3, 1.0, 2.0)
"""The rate of a scanned stream, its keys, and rates of the one that probes it."""
_STEPS = ("inserts", "searches", "pairs")


def measure() -> Calibration:
    """Measures the prices, which takes some seconds."""
    counts, times = [], []
    for plan, took in _runs():
        routed, cuts = (_counted(plan, RouteByClass(per_cut)).routed for per_cut in (0.0, 1.0))
        found = _counted(plan, RouteByClass(0.0))
        counts.append([*(getattr(found, step) for step in _STEPS), routed, cuts - routed])
        times.append(took)
    # Every run has the same weight, the short ones too.
    weights = 1 / np.array(times)
    prices, *_ = np.linalg.lstsq(np.array(counts) * weights[:, None], np.ones(len(times)), rcond=None)
    insert, search, pair, route, cut = np.maximum(prices, _LEAST).tolist()
    access = _index_access()
    append, scan, find = _scans(insert)
    return Calibration(
        index_insert=round(insert, 1),
        scan_append=round(append, 1),
        search_step=round(search, 2),
        index_access=round(access, 2),
        scan_compare=round(scan, 3),
        scan_find=round(find, 2),
        pair_emit=round(pair, 3),
        route=round(route, 3),
        route_cut=round(cut, 3),
        filter=round(_filter(), 3),
    )


def _runs() -> Iterator[tuple[Plan, float]]:
    """Plans with their CPU time in nanoseconds per second of stream time."""
    for keys in _KEYS:
        batches = list(window_rows(_RATE, keys, _SECONDS, _BATCHES))
        plans = [plan for windows in _WINDOWS for plan in _sliced(window_script(windows, rate=_RATE, keys=keys))]
        best = [float("inf")] * len(plans)
        for _ in range(_ROUNDS):
            best = [min(known, _per_second(plan, batches)) for known, plan in zip(best, plans, strict=True)]
        yield from zip(plans, best, strict=True)


def _sliced(script: str) -> Iterator[Plan]:
    """All windows in one slice, some together, and each separately."""
    plan = compile_script(script)
    (chain,) = plan.chains
    first, *inner, last = endpoints(chain)
    for kept in {tuple(inner[start::step]) for start, step in ((len(inner), 1), (2, 4), (0, 1))}:
        yield replace(plan, chains=(replace(chain, slices=slices_at(chain, [first, *kept, last])),))


def _per_second(plan: Plan, batches: Sequence[Mapping[str, pa.Table]]) -> float:
    taken, _ = cpu_seconds(plan, batches, _WARM)
    return taken * 1e9 / (_SECONDS * (_BATCHES - _WARM) / _BATCHES)


def _counted(plan: Plan, router: RouteByClass) -> StepCounts:
    costs = Costs("counts", "steps", StepCounts(), router)
    return estimate(replace(plan, costs=costs), plan.chains[0]).work


def _scans(insert: float) -> tuple[float, float, float]:
    """The cost per row appended, per comparison of a scan, and per match that it finds. A match here is what a scan
    pays beyond an index, and so is a row: `insert` is what that costs.
    """
    counts, beyond = [], []
    for keys, rate in product(_SCANNED_KEYS, _SCANNING):
        workload = TwoRates(rate_a=rate, rate_b=_SCANNED, keys=keys)
        took = cpu_times(workload, ("HHJ", "HNJ"), _SCAN_ROUNDS)
        rows = _SCANNED * workload.seconds
        met = rows * rate * workload.seconds
        counts.append([rows, met, met / keys])
        beyond.append((took["HNJ"] - took["HHJ"]) * 1e9)
    prices, *_ = np.linalg.lstsq(np.array(counts), np.array(beyond), rcond=None)
    saved, compare, find = prices.tolist()
    return max(insert + saved, _LEAST), max(compare, _LEAST), max(find, _LEAST)


def _index_access() -> float:
    """The cost per tuple touched through an index."""
    state, probe = _segment(1, 40_000), _segment(2, 40_000)
    everything = Interval(-(2**40), 2**40)
    met = sum(len(rows) for rows, _ in matches(probe, RIGHT, state, everything, "index"))
    found = _best(lambda: list(matches(probe, RIGHT, state, everything, "index")))
    keyed = _best(lambda: np.repeat(state.ranges(probe.keys), probe.counts, axis=1))
    return max((found - keyed) / met, 0.1)


def _filter() -> float:
    values = np.random.default_rng(1).random(40_000)
    return _best(lambda: values > 0.5) / len(values)


def _segment(seed: int, count: int) -> Segment:
    rng = np.random.default_rng(seed)
    keys = pa.array(rng.integers(0, 8_000, count))
    times = pa.array(np.sort(rng.integers(0, 100_000_000, count))).view(pa.timestamp("us", "UTC"))
    rows = pa.RecordBatch.from_arrays([keys, times], names=["k", "Ts"])
    return build(seed, seed, Lot(100_000_000), rows, "Ts", codes([keys], count))


def _best(work: Callable[[], object]) -> float:
    """The least time of several runs, in nanoseconds."""
    return best_of(work) * 1e9
