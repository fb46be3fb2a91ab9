"""Which rows to keep and how far pools reach where both work and memory are short (window-cost, equation 14).

For two streams with service rate mu and room for M rows, a share x of the service and A rows of memory for stream A:

    r = sigma (x mu (M - A) + (1 - x) mu A)

which is greatest in two opposite corners, where all memory goes to one stream and nearly all rows are the other's, and
is at most sigma mu M. Windows and rates have ends: a stream of few rows cannot fill the memory within its window, so
the best point lies where its window is just full.

In general `shrink` gives the best reaches for given shares, and the shares are sought by moving work from one stream to
another: from several starts, in steps that become smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp, log

from millstream.plan.allot import shrink
from millstream.plan.load import Load
from millstream.plan.regulate import keep_rows

_LARGE, _SMALL = 2.0, 0.02
"""The first and the last step, as logarithms of the ratio between two shares."""
_LEAST, _TRIES, _CLOSE = 1e-6, 40, 1e-3
_FAR, _HALVED = 30.0, 50


@dataclass(frozen=True, slots=True)
class Fit:
    """The share of each stream's rows, the reach of each pool in seconds, and the weighted results per second left."""

    shares: dict[str, float]
    reaches: dict[str, float]
    results: float


def both_rate(share: float, rows: float, *, service: float, memory: float, selectivity: float) -> float:
    """Equation 14: the output rate with this share of the service, and these rows of memory, for stream A."""
    return selectivity * (share * service * (memory - rows) + (1 - share) * service * rows)


def fit_both(load: Load) -> Fit:
    """Shares and reaches that give the most weighted results under `load.capacity` and `load.memory`."""
    whole = _fit(load, {stream.name: 1.0 for stream in load.streams})
    if load.within(whole.reaches).work <= load.capacity:
        return whole
    if load.capacity <= 0:
        return _fit(load, {stream.name: 0.0 for stream in load.streams})
    return max((_climb(load, start) for start in _starts(load)), key=lambda fit: fit.results)


def in_ratio(load: Load, shares: Mapping[str, float]) -> Fit:
    """The best fit with shares in the ratios of these."""
    return _scaled(load, {stream.name: log(max(shares.get(stream.name, 1.0), _LEAST)) for stream in load.streams})


def _starts(load: Load) -> Iterator[dict[str, float]]:
    """Logarithms of shares: the best for full windows, even work, and most work to each stream in turn."""
    rows = keep_rows(load)
    yield {name: log(max(share, _LEAST)) for name, share in rows.items()}
    even = {name: -log(max(work, _LEAST)) for name, work in load.row_work.items()}
    yield even
    for name in even:
        yield even | {name: even[name] + _LARGE}


def _climb(load: Load, start: Mapping[str, float]) -> Fit:
    """Raises and lowers one stream against the others as long as that gives more, then by half as much."""
    wanted, best = dict(start), _scaled(load, start)
    step = _LARGE
    while step > _SMALL:
        moved = False
        for name in wanted:
            for change in (step, -step):
                other = wanted | {name: wanted[name] + change}
                fit = _scaled(load, other)
                if fit.results > best.results * (1 + 1e-9):
                    wanted, best, moved = other, fit, True
        step = step if moved else step / 2
    return best


def _scaled(load: Load, wanted: Mapping[str, float]) -> Fit:
    """Shares in these ratios, none above one, raised until the work is used up, with their best reaches."""
    by_rows = _scale(load, wanted)
    found = _fit(load, _shares(wanted, by_rows))
    if load.pair_cost == 0 or _work(load, found) <= load.capacity:
        return found
    low, high = log(min(load.capacity / load.work, 1.0)) - max(wanted.values()), by_rows
    found = _fit(load, _shares(wanted, low))
    for _ in range(_TRIES):
        middle = (low + high) / 2
        fit = _fit(load, _shares(wanted, middle))
        work = _work(load, fit)
        if work > load.capacity:
            high = middle
            continue
        low, found = middle, fit
        if work >= load.capacity * (1 - _CLOSE):
            break
    return found


def _scale(load: Load, wanted: Mapping[str, float]) -> float:
    """How far shares in these ratios can be raised if pairs cost nothing."""
    work, low, high = load.row_work, -max(wanted.values()) - _FAR, -min(wanted.values())
    for _ in range(_HALVED):
        middle = (low + high) / 2
        fits = sum(work[name] * share for name, share in _shares(wanted, middle).items()) <= load.capacity
        low, high = (middle, high) if fits else (low, middle)
    return low


def _work(load: Load, fit: Fit) -> float:
    return load.kept(fit.shares).within(fit.reaches).work


def _shares(wanted: Mapping[str, float], scale: float) -> dict[str, float]:
    return {name: exp(min(share + scale, 0.0)) for name, share in wanted.items()}


def _fit(load: Load, shares: dict[str, float]) -> Fit:
    kept = load.kept(shares)
    reaches = shrink(kept)
    return Fit(shares, reaches, kept.within(reaches).results)
