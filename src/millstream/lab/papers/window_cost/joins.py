"""window-cost on the engine: CPU time of joins with an index or a scan on either side (Figures 4, 6 and 7).

CPU time is that of 60 s of tuples in batches of 10 s, once windows are full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from millstream.lab.papers.window_cost.model import RATE_A, SECONDS, saved, table
from millstream.lab.show import verdict
from millstream.lab.workloads.two_rates import JOINS, TwoRates, cpu_times
from millstream.plan import Calibration, calibrated
from millstream.plan.window_cost import Window, engine_crossing

RATES = (10.0, 40.0, 70.0, 100.0, 150.0, 200.0, 1_000.0, 5_000.0)
"""The paper's rates of B and beyond."""
FAST = 5_000.0
PROBING = (0.1, 0.2, 0.4, 0.8, 1.6, 2.4)
"""The rates of A at which the engine's own crossing is looked for; B has the fast one."""
KEY_COUNTS = (100, 1_000, 10_000)
_LARGEST = 4e8
"""The most comparisons that a join is measured with."""
_WITHIN = 0.25
Found = dict[float, dict[str, float]]


def times(rates: Sequence[float], keys: int, joins: Sequence[str], rounds: int, *, one_way: bool = False) -> Found:
    """CPU milliseconds of each join by the rate of B."""
    return {
        rate: {
            join: taken * 1e3
            for join, taken in cpu_times(
                TwoRates(rate_a=RATE_A, rate_b=rate, keys=keys, seconds=SECONDS), tuple(joins), rounds, one_way=one_way
            ).items()
        }
        for rate in rates
    }


def figure_4(out: Path, rounds: int = 3, rates: Sequence[float] = RATES) -> Iterator[str]:
    """One way: tuples of A look for those of B."""
    yield "window-cost Figure 4: CPU time (ms) of one-way joins from A to B on the engine, 10 tuples/s of A, 10 keys"
    found = {
        rate: {"HJ": of["HHJ"], "NLJ": of["HNJ"]}
        for rate, of in times(rates, 10, ("HHJ", "HNJ"), rounds, one_way=True).items()
    }
    yield from table(rates, found, "tuples/s of B", ",.1f")
    after = [rate for rate in rates if rate >= 100]
    yield _claim("HJ is cheaper up to about 70 tuples/s", all(found[r]["HJ"] <= found[r]["NLJ"] for r in rates[:2]))
    yield _claim("NLJ is cheaper from there on", all(found[r]["NLJ"] < found[r]["HJ"] for r in after))
    yield from saved(out, "figure_4", rates, found, "tuples/s of B", "CPU ms for 60 s of tuples")


def figure_6(out: Path, calibration: Calibration, rounds: int = 5, rates: Sequence[float] = RATES) -> Iterator[str]:
    """The four full joins, as printed and where the engine's own crossing is."""
    yield "window-cost Figure 6: CPU time (ms) of the four joins on the engine, 10 tuples/s of A, 10 keys"
    found = times(rates, 10, tuple(JOINS), rounds)
    yield from table(rates, found, "tuples/s of B", ",.1f")
    best = {rate: min(of, key=of.__getitem__) for rate, of in found.items()}
    yield _claim("HHJ is best up to about 70 tuples/s", all(best[rate] == "HHJ" for rate in rates if rate <= 70))
    yield _claim("HNJ is best from there on", all(best[rate] == "HNJ" for rate in rates if rate > 70))
    yield from saved(out, "figure_6", rates, found, "tuples/s of B", "CPU ms for 60 s of tuples")
    yield ""
    yield from own_crossings(out, calibration, rounds)


def own_crossings(out: Path, calibration: Calibration, rounds: int, keys: Sequence[int] = KEY_COUNTS) -> Iterator[str]:
    """Expiring costs the engine no search, so the rate of B cancels out: a row of B is sorted once, or compared with
    every row of A that comes in its window.
    """
    yield f"The engine's own crossing: B at {FAST:,.0f} tuples/s, A grows; HNJ is best up to it and HHJ after it"
    for count in keys:
        found: Found = {
            rate: {
                join: taken * 1e3
                for join, taken in cpu_times(
                    TwoRates(rate_a=rate, rate_b=FAST, keys=count), _joins(rate), rounds
                ).items()
            }
            for rate in PROBING
        }
        yield f"  {count:,} keys"
        yield from table(PROBING, found, "  tuples/s of A", ",.1f")
        measured = measured_crossing(found)
        predicted = engine_crossing(Window(FAST, SECONDS, count), calibrated(calibration).prices)
        near = measured is not None and abs(predicted - measured) <= _WITHIN * measured
        shown = "none" if measured is None else f"{measured:.2f}"
        yield f"    crossing predicted {predicted:.2f}, measured {shown} tuples/s of A, within 25 %: {verdict(near)}"
        yield from saved(out, f"figure_6_{count}_keys", PROBING, found, "tuples/s of A", "CPU ms for 60 s of tuples")


def _joins(rate: float) -> tuple[str, ...]:
    """Those that do not compare too often: NHJ and NNJ compare each tuple of B with the window of A."""
    return tuple(JOINS) if rate * SECONDS * FAST * SECONDS < _LARGEST else ("HHJ", "HNJ")


def measured_crossing(found: Mapping[float, Mapping[str, float]]) -> float | None:
    """Where the line through what HNJ takes beyond HHJ is zero; None where it never is."""
    rates = np.array(list(found))
    beyond = np.array([of["HNJ"] - of["HHJ"] for of in found.values()])
    slope, start = np.polyfit(rates, beyond, 1)
    return float(-start / slope) if start < 0 < slope else None


def figure_7(out: Path, rounds: int = 3, rates: Sequence[float] = RATES) -> Iterator[str]:
    """Output rates that one core sustains: from the rate on at which 60 s of tuples take 60 s, it falls behind."""
    yield "window-cost Figure 7: until which rate of B one core keeps up, 10 tuples/s of A, 10 keys"
    full, one = times(rates, 10, ("HHJ", "HNJ"), rounds), times(rates, 10, ("HHJ", "HNJ"), rounds, one_way=True)
    found = {
        rate: {"HJ": one[rate]["HHJ"], "NLJ": one[rate]["HNJ"], "HHJ": full[rate]["HHJ"], "HNJ": full[rate]["HNJ"]}
        for rate in rates
    }
    yield from table(rates, found, "tuples/s of B", ",.1f")
    limits = {name: _limit(rates, [of[name] for of in found.values()]) for name in ("HJ", "NLJ", "HHJ", "HNJ")}
    printed = {"HJ": "120", "NLJ": "not shown", "HHJ": "110", "HNJ": "190"}
    for name, limit in limits.items():
        results = RATE_A * limit * SECONDS / 10 * (1 if name in ("HJ", "NLJ") else 2)
        yield (
            f"  {name} keeps up to about {limit:,.0f} tuples/s of B (paper: {printed[name]}), "
            f"{results:,.0f} results/s; by the line through the CPU times"
        )
    yield _claim("the full join thrashes a little before the one-way join", limits["HHJ"] < limits["HJ"])
    yield _claim("HNJ thrashes after HHJ", limits["HNJ"] > limits["HHJ"])
    yield from saved(out, "figure_7", rates, found, "tuples/s of B", "CPU ms for 60 s of tuples")


def _limit(rates: Sequence[float], taken: Sequence[float]) -> float:
    """The rate at which CPU time reaches the time of the tuples."""
    slope, start = np.polyfit(rates, taken, 1)
    return float((SECONDS * 1e3 - start) / slope)


def _claim(text: str, holds: bool) -> str:
    return f"  paper: {text}: {verdict(holds)}"
