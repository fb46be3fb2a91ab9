"""Figure 8: five ways to regulate two streams whose rates are above the service rate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from millstream.lab.papers.window_cost.measured import Streams, apart, joined, measure
from millstream.lab.papers.window_cost.shown import Way, best, claim, near_the_model, saved, table
from millstream.lab.papers.window_cost.ways import rates_by
from millstream.plan.load import Load, QueryDemand, StreamRate
from millstream.plan.regulate import keep_keys, keep_rows

RATES, WINDOWS, SERVICE = {"A": 80.0, "B": 20.0}, {"A": 9.0, "B": 1.0}, 10.0
KEYS = {"A": 50.0, "B": 12.5}
"""sigma_a = 0.02 and sigma_b = 0.08; keys of B are among those of A, so the selectivity is the lesser."""
_SELECTIVITY = 0.02


def load(scale: float = 1.0) -> Load:
    """The paper's query; a row is a unit of work."""
    query = QueryDemand("q", ("A", "B"), ((0, WINDOWS["A"]), (0, WINDOWS["B"])), _SELECTIVITY / scale)
    streams = tuple(StreamRate(name, rate * scale) for name, rate in RATES.items())
    return Load(streams=streams, queries=(query,), capacity=SERVICE * scale)


def figure_8(out: Path, scale: int = 40, seconds: float = 250) -> Iterator[str]:
    """Rows are thrown away before the engine, at the same number of rows for every way."""
    whole = load(scale)
    given = Streams(
        rates=whole.rates,
        keys={name: round(keys * scale) for name, keys in KEYS.items()},
        seconds=seconds,
        batches=round(seconds),
    )
    query = {"q": joined(("A", "B"), apart("A", "B", -WINDOWS["B"], WINDOWS["A"]))}
    yield (
        f"window-cost Figure 8: rates 80 and 20, windows 9 and 1 s, service rate 10, all rates times {scale}; "
        f"which rows to keep"
    )
    ways: dict[str, Way] = {}
    for name, rates in rates_by(SERVICE, RATES, WINDOWS).items():
        shares = {stream: rate / RATES[stream] for stream, rate in rates.items()}
        one = measure(given, query, shares, warm=WINDOWS["A"] + 1)
        ways[name] = (f"{rates['A']:g} and {rates['B']:g}", whole.kept(shares).results, one)
    yield from table(ways)
    first, *others = best(ways)
    second = ways[others[0]][2].output_rate
    yield claim(
        "the equal split gives most results",
        paper="equal best; by equation 10: 1.56 times the next",
        measured=f"{first}, {ways[first][2].output_rate / second:.2f} times the next",
        holds=first == "equal",
    )
    yield near_the_model(ways)
    shares = keep_rows(whole)
    equal = {name: SERVICE / 2 / rate for name, rate in RATES.items()}
    same = all(abs(shares[name] - equal[name]) < 1e-6 for name in shares)
    told = " and ".join(f"{share * RATES[name]:g}" for name, share in shares.items())
    yield claim("keep_rows gives", paper="5 and 5, equation 11", measured=told, holds=same)
    yield from _keys(whole, given, query, ways["equal"])
    yield from saved(out, "figure_8", ways)


def _keys(whole: Load, given: Streams, query: dict[str, str], equal: Way) -> Iterator[str]:
    """What the paper does not try: the same keys of both streams."""
    share = keep_keys(whole)
    one = measure(replace(given, every=round(1 / share)), query, warm=WINDOWS["A"] + 1)
    yield (
        f"  not in the paper: {share:.0%} of the keys of both streams, {one.rows:,} rows: {one.output_rate:,.0f} "
        f"results per second, {one.output_rate / equal[2].output_rate:.1f} times the equal split"
    )
