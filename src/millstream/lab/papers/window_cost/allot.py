"""Figure 9: five ways to allot memory to two windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from millstream.lab.papers.window_cost.measured import Streams, apart, joined, measure
from millstream.lab.papers.window_cost.shown import Way, best, claim, near_the_model, saved, table
from millstream.lab.papers.window_cost.ways import memory_by
from millstream.plan.allot import shrink
from millstream.plan.load import Load, QueryDemand, StreamRate

RATES, MEMORY = {"A": 10.0, "B": 50.0}, 1_000.0
KEYS = {"A": 200, "B": 100}
_SELECTIVITY, _WINDOW = 0.005, 100.0
"""min(sigma_a, sigma_b); and the window that one stream alone can fill the memory with."""


def load(scale: float = 1.0) -> Load:
    """The paper's query, with windows that are never full."""
    query = QueryDemand("q", ("A", "B"), ((0, _WINDOW), (0, _WINDOW)), _SELECTIVITY / scale)
    streams = tuple(StreamRate(name, rate * scale) for name, rate in RATES.items())
    return Load(streams=streams, queries=(query,), memory=MEMORY * scale)


def figure_9(out: Path, scale: int = 20, seconds: float = 200) -> Iterator[str]:
    """Windows are shortened so that both hold as many rows as there is memory for."""
    whole = load(scale)
    given = Streams(
        rates=whole.rates,
        keys={name: keys * scale for name, keys in KEYS.items()},
        seconds=seconds,
        batches=round(seconds),
    )
    yield (f"window-cost Figure 9: rates 10 and 50, memory for 1,000 rows, all times {scale}; windows shortened to fit")
    ways: dict[str, Way] = {}
    for name, rows in memory_by(MEMORY, RATES, dict.fromkeys(RATES, MEMORY)).items():
        reaches = {stream: held / RATES[stream] for stream, held in rows.items()}
        query = {"q": joined(("A", "B"), apart("A", "B", -reaches["B"], reaches["A"]))}
        one = measure(given, query, warm=_WINDOW + 1)
        words = f"{reaches['A']:.3g} and {reaches['B']:.3g} s"
        ways[name] = (words, whole.within(reaches).results, one)
    yield from table(ways)
    order = best(ways)
    yield claim(
        "all memory to the slower stream gives most results, all to the faster one fewest",
        paper="Max A best, Max B worst; by equation 13: 250, 217, 150, 83, 50",
        measured=", ".join(f"{name} {ways[name][2].output_rate / scale:.0f}" for name in order),
        holds=order == ["slowest first", "inverse to rates", "equal", "like rates", "fastest first"],
    )
    yield near_the_model(ways)
    reaches = shrink(whole)
    told = " and ".join(f"{reach * RATES[name]:g}" for name, reach in reaches.items())
    holds = abs(reaches["A"] * RATES["A"] - MEMORY) < 1e-6 and reaches["B"] < 1e-9
    yield claim("shrink gives rows", paper="1000 and 0, equation 13", measured=told, holds=holds)
    yield from saved(out, "figure_9", ways)
