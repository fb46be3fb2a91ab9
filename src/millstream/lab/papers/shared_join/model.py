"""shared-join, equations 1 and 2: the mean response of LWO and SWF when m tuples come at once, and simulated.

With LWO a row comes out when its two tuples are compared; with SWF when its tuple has scanned the query's whole window.
The printed exponent of the isolated average is a footnote mark: alone, a query's window is the largest there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from millstream.engine.path import Path, Stage
from millstream.engine.policies import make_policy
from millstream.engine.policy import Policy, Runnable
from millstream.engine.ready_queue import ReadyQueue
from millstream.lab.show import bars, verdict
from millstream.lab.workloads.windows import UNIFORM

RATE, TOGETHER, PER_PAIR = 100, 50, 1e-8
"""Tuples per second, tuples at once, and the seconds of one comparison (0.01 us)."""


def largest_window_only(windows: Sequence[float], m: int, rate: float, t_p: float) -> list[float]:
    """Equation 1."""
    largest = rate * max(windows)
    return [t_p / 2 * ((rate * window + 1) + (m - 1) * largest) for window in windows]


def smallest_window_first(windows: Sequence[float], m: int, rate: float, t_p: float) -> list[float]:
    """Equation 2."""
    sizes = [0.0, *(rate * window for window in windows)]
    return [m * before * t_p + (m + 1) / 2 * (size - before) * t_p for before, size in pairwise(sizes)]


def isolated(windows: Sequence[float], m: int, rate: float, t_p: float) -> list[float]:
    """Half of (m S + 1) comparisons: equation 1 for a query alone."""
    return [t_p / 2 * (m * rate * window + 1) for window in windows]


def simulated(policy: str, windows: Sequence[float], m: int, rate: float, t_p: float) -> list[float]:
    """The mean response per window when the engine's policy schedules m tuples over the slices, in virtual time."""
    scans = _schedule(make_policy(policy), windows, m, rate * t_p)
    means = []
    for index in range(len(windows)):
        waits, weights = 0.0, 0.0
        for number in range(m):
            own = [scan for scan in scans if scan.number == number][: index + 1]
            for scan in own:
                pairs = (scan.ended - scan.began) / t_p
                mean = (scan.began + scan.ended + t_p) / 2 if policy == "lwo" else own[-1].ended
                waits += pairs * mean
                weights += pairs
        means.append(waits / weights)
    return means


@dataclass(frozen=True, slots=True)
class _Scan:
    """A tuple has scanned a slice, from one time to another."""

    number: int
    began: float
    ended: float


def _schedule(policy: Policy, windows: Sequence[float], m: int, per_second: float) -> list[_Scan]:
    """When each tuple scans each slice. Every tuple arrives at time 0 and goes from slice to slice."""
    borders = [0.0, *windows]
    stages = [
        Stage(f"slice {n}", per_second * (far - near), near=round(near * 1e6), far=round(far * 1e6))
        for n, (near, far) in enumerate(pairwise(borders), start=1)
    ]
    path, load, queue = Path(stages), _Virtual(), ReadyQueue[int]()
    at, scans = [0] * m, list[_Scan]()
    for number in range(m):
        queue.put(number, Runnable(path, 0, 1, 0, number))
    while (chosen := queue.choose(policy, load, lambda: {"chain": [path]})) is not None:
        stage, began = stages[at[chosen]], load.now
        load.now += stage.cost
        scans.append(_Scan(chosen, began, load.now))
        at[chosen] += 1
        if at[chosen] < len(stages):
            queue.put(chosen, Runnable(path, at[chosen], 1, 0, chosen))
        else:
            queue.drop(chosen)
    return scans


@dataclass(slots=True)
class _Virtual:
    now: float = 0.0

    def memory(self) -> float:
        return 0.0


def figure(policy: str) -> Iterator[str]:
    """Figure 3 (LWO) or 5 (SWF): relative to each query alone, by the equation and by the simulator."""
    number, name, equation = {
        "lwo": (3, "LWO, equation 1", largest_window_only),
        "swf": (5, "SWF, equation 2", smallest_window_first),
    }[policy]
    model = equation(UNIFORM, TOGETHER, RATE, PER_PAIR)
    alone = isolated(UNIFORM, TOGETHER, RATE, PER_PAIR)
    found = simulated(policy, UNIFORM, TOGETHER, RATE, PER_PAIR)
    yield f"shared-join Figure {number}: {name}, against each query alone; mean response in ms"
    yield f"{'window':>8} {'alone':>9} {'equation':>9} {'simulated':>9}"
    for window, one, two, three in zip(UNIFORM, alone, model, found, strict=True):
        yield f"{window:>6} s {1e3 * one:>9.4f} {1e3 * two:>9.4f} {1e3 * three:>9.4f}  {bars(two, max(alone + model))}"
    same = all(abs(a - b) <= 1e-9 * a for a, b in zip(model, found, strict=True))
    yield f"simulated as the equation says: {verdict(same)}"
