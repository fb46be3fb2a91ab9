"""Figures 10 and 11: five ways to regulate two streams and to allot memory to them at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from millstream.lab.papers.window_cost.measured import Measured, Streams, apart, joined, measure
from millstream.lab.papers.window_cost.shown import Way, best, claim, near_the_model, saved, table
from millstream.lab.show import save_csv, save_lines, verdict
from millstream.plan.fit_both import both_rate, fit_both
from millstream.plan.load import Load, QueryDemand, StreamRate

SERVICE, MEMORY, SELECTIVITY = 10.0, 100.0, 0.01
MOST = 0.9
"""The greatest share of the service: neither stream may stop."""
WAYS = {
    "Max A, Max rate A": (MOST, MEMORY),
    "Max A, Max rate B": (1 - MOST, MEMORY),
    "Max B, Max rate A": (MOST, 0.0),
    "Max B, Max rate B": (1 - MOST, 0.0),
    "equal": (0.5, MEMORY / 2),
}
"""x and A of equation 14: the share of the service and the rows of memory that stream A gets."""
_LONGEST = MEMORY / ((1 - MOST) * SERVICE)


def model(share: float, rows: float) -> float:
    return both_rate(share, rows, service=SERVICE, memory=MEMORY, selectivity=SELECTIVITY)


def run(share: float, rows: float, scale: int, seconds: float) -> tuple[str, Measured]:
    """A point of equation 14 on the engine, with its rates and windows in words."""
    rates = {"A": share * SERVICE, "B": (1 - share) * SERVICE}
    reaches = {"A": rows / rates["A"], "B": (MEMORY - rows) / rates["B"]}
    given = Streams(
        rates={name: rate * scale for name, rate in rates.items()},
        keys=dict.fromkeys(rates, round(scale / SELECTIVITY)),
        seconds=_LONGEST + 1 + seconds,
        batches=round(_LONGEST + 1 + seconds),
    )
    query = {"q": joined(("A", "B"), apart("A", "B", -reaches["B"], reaches["A"]))}
    words = f"{rates['A']:.2g} and {rates['B']:.2g}/s, {reaches['A']:.3g} and {reaches['B']:.3g} s"
    return words, measure(given, query, warm=_LONGEST + 1)


def figure_10(out: Path, scale: int = 40, seconds: float = 100) -> Iterator[str]:
    """Of all rows and all windows only as much as fits in the service rate and in memory."""
    yield (
        f"window-cost Figure 10: service rate 10, memory for 100 rows, selectivity 0.01, all rates times {scale}; "
        f"Max is {MOST:.0%} of the service, or all memory"
    )
    ways: dict[str, Way] = {}
    for name, (share, rows) in WAYS.items():
        words, one = run(share, rows, scale, seconds)
        ways[name] = (words, scale * model(share, rows), one)
    yield from table(ways)
    order = best(ways)
    extremes = {"Max A, Max rate B", "Max B, Max rate A"}
    yield claim(
        "the two extremes are best, then equal, then the two that give memory and rate to the same stream",
        paper="this order; by equation 14: 9 and 9, 5, 1 and 1",
        measured=", ".join(f"{ways[name][2].output_rate / scale:.2g}" for name in order),
        holds=set(order[:2]) == extremes and order[2] == "equal",
    )
    yield near_the_model(ways)
    query = QueryDemand("q", ("A", "B"), ((0, _LONGEST), (0, _LONGEST)), SELECTIVITY)
    streams = (StreamRate("A", MOST * SERVICE), StreamRate("B", MOST * SERVICE))
    fit = fit_both(Load(streams=streams, queries=(query,), capacity=SERVICE, memory=MEMORY))
    yield claim(
        "fit_both, for rates of 9 and windows of 100 s, gives by the model",
        paper="9, a corner",
        measured=f"{fit.results:.3g}",
        holds=fit.results >= 0.99 * model(MOST, 0.0),
    )
    yield from saved(out, "figure_10", ways)


def figure_11(out: Path, scale: int = 20, seconds: float = 60) -> Iterator[str]:
    """The surface of equation 14, and points of it on the engine."""
    shares, parts = (0.1, 0.3, 0.5, 0.7, 0.9), (0.0, 50.0, 100.0)
    yield (
        f"window-cost Figure 11: output rate over x (the share of the service for A) and the rows of memory for A; "
        f"model / measured, rates times {scale}"
    )
    yield "  rows of A" + "".join(f"{f'x = {share:g}':>16}" for share in shares)
    found: dict[tuple[float, float], float] = {}
    for rows in parts:
        for share in shares:
            found[share, rows] = run(share, rows, scale, seconds)[1].output_rate / scale
        told = "".join(f"{f'{model(share, rows):.2f} / {found[share, rows]:.2f}':>16}" for share in shares)
        yield f"  {rows:>9g}{told}"
    most = SELECTIVITY * SERVICE * MEMORY
    corners = {(share, rows): model(share, rows) for share in (0.0, 1.0) for rows in (0.0, MEMORY)}
    holds = corners == {(0.0, 0.0): 0.0, (0.0, MEMORY): most, (1.0, 0.0): most, (1.0, MEMORY): 0.0}
    yield claim(
        "two maxima in opposite corners, selectivity x service rate x memory, and two minima",
        paper=f"{most:g} and 0",
        measured=" ".join(f"{rate:g}" for rate in corners.values()),
        holds=holds,
    )
    off = max(abs(rate - model(*point)) for point, rate in found.items()) / most
    yield f"  measured within 5% of the maximum at all {len(found)} points: {off:.1%}  {verdict(off <= 0.05)}"
    falling = all(found[one, MEMORY] > found[other, MEMORY] for one, other in pairwise(shares))
    rising = all(found[one, 0.0] < found[other, 0.0] for one, other in pairwise(shares))
    yield f"  measured: with all memory for A the rate falls with x, with none it rises: {verdict(falling and rising)}"
    rows_of = [(share, rows, model(share, rows), found.get((share, rows), "")) for share, rows in found]
    header = ("share_of_service_a", "memory_rows_a", "model_per_second", "measured_per_second")
    yield f"written: {save_csv(out, 'window-cost_figure_11', header, rows_of)}"
    lines = {}
    for rows in parts:
        lines[f"{rows:g} rows, model"] = ([0.0, 1.0], [model(0.0, rows), model(1.0, rows)])
        lines[f"{rows:g} rows, measured"] = (list(shares), [found[share, rows] for share in shares])
    plot = save_lines(out, "window-cost_figure_11", lines, "share of the service for A", "results per second")
    yield f"written: {plot}"
