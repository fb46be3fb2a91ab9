"""window-cost by its equations: the four joins as one rate grows (Figures 2 and 3), where paths cross (Figure 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from millstream.lab.show import save_csv, save_lines, verdict
from millstream.lab.workloads.two_rates import JOINS
from millstream.plan import Calibration
from millstream.plan.window_cost import AccessCosts, Window, crossing, full_cost

COSTS = AccessCosts(scan=0.5, index=0.65)
"""C_n and C_h of the paper's figures."""
RATE_A, SECONDS = 10.0, 60.0
RATES = tuple(float(rate) for rate in range(10, 201, 10))
KEY_COUNTS = (5, 10, 20, 40, 80)
_NEAR = 0.1


def costs(rate_b: float, keys: float) -> dict[str, float]:
    """Equations 4 to 6 for each join."""
    left, right = Window(RATE_A, SECONDS, keys), Window(rate_b, SECONDS, keys)
    return {join: full_cost(left, right, access.left, access.right, COSTS) for join, access in JOINS.items()}


def crossing_rate(keys: float) -> float:
    """The rate of B from which HNJ costs less than HHJ."""
    return root(lambda rate: costs(rate, keys)["HHJ"] - costs(rate, keys)["HNJ"], RATE_A, 1e6)


def root(difference: Callable[[float], float], low: float, high: float) -> float:
    """Where a difference that is negative at first becomes positive."""
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if difference(middle) < 0 else (low, middle)
    return (low + high) / 2


def figure(number: int, keys: int, printed: float, out: Path) -> Iterator[str]:
    """Figures 2 and 3: costs by the equations, and where HNJ takes over."""
    yield f"window-cost Figure {number}: cost of the joins by equations 4 to 6, selectivity {1 / keys:g}"
    found = {rate: costs(rate, keys) for rate in RATES}
    yield from table(RATES, found, "tuples/s of B", ",.0f")
    crosses = crossing_rate(keys)
    near = abs(crosses - printed) <= _NEAR * printed
    yield f"  HNJ takes over (paper: at around {printed:g} tuples/s): at {crosses:.1f}  {verdict(near)}"
    best = all(min(of, key=of.__getitem__) == ("HHJ" if rate < crosses else "HNJ") for rate, of in found.items())
    yield f"  HHJ is best before and HNJ after (paper: yes): {verdict(best)}"
    yield from saved(out, f"figure_{number}", RATES, found, "tuples/s of B", "cost")


def figure_2(out: Path) -> Iterator[str]:
    return figure(2, 10, 70, out)


def figure_3(out: Path) -> Iterator[str]:
    return figure(3, 20, 140, out)


def figure_5(out: Path, calibration: Calibration) -> Iterator[str]:
    """Equation 7 with the paper's ratio, and with that of this machine."""
    ours = calibration.index_access / calibration.scan_compare
    yield "window-cost Figure 5: the ratio of rates from which a scan is cheaper, by equation 7"
    yield f"  {'keys':>6} {'C_h/C_n 1.3 (paper)':>22} {f'{ours:.2f} (calibrated)':>22}"
    for keys in KEY_COUNTS:
        yield f"  {keys:>6} {crossing(keys, 1.3):>22.1f} {crossing(keys, ours):>22.1f}"
    yield f"  10 keys (paper: 6.7): {crossing(10, 1.3):.1f}  {verdict(round(crossing(10, 1.3), 1) == 6.7)}"
    yield "  the second column would be this engine's if it searched its index to expire a tuple, which it does not"
    rows = [(keys, crossing(keys, 1.3), crossing(keys, ours)) for keys in KEY_COUNTS]
    yield f"written: {save_csv(out, 'window-cost_figure_5', ('keys', 'paper', 'calibrated'), rows)}"
    lines = {name: (KEY_COUNTS, [row[at] for row in rows]) for at, name in ((1, "C_h/C_n 1.3"), (2, f"{ours:.2f}"))}
    yield f"written: {save_lines(out, 'window-cost_figure_5', lines, 'keys', 'rate of B / rate of A')}"


def table(
    xs: Sequence[float], found: dict[float, dict[str, float]], what: str, form: str, *, most: int = 8
) -> Iterator[str]:
    """Some points of each line, side by side."""
    shown = xs if len(xs) <= most else [xs[round(at * (len(xs) - 1) / (most - 1))] for at in range(most)]
    yield f"  {what:<18}" + "".join(f"{x:>11g}" for x in shown)
    for name in found[xs[0]]:
        yield f"  {name:<18}" + "".join(f"{format(found[x][name], form):>11}" for x in shown)


def saved(
    out: Path, name: str, xs: Sequence[float], found: dict[float, dict[str, float]], x: str, y: str
) -> Iterator[str]:
    names = list(found[xs[0]])
    rows = [(at, *(found[at][one] for one in names)) for at in xs]
    yield f"written: {save_csv(out, f'window-cost_{name}', (x, *names), rows)}"
    lines = {one: (xs, [found[at][one] for at in xs]) for one in names}
    yield f"written: {save_lines(out, f'window-cost_{name}', lines, x, y)}"
