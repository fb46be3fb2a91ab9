"""Streams to feed the engine with: arrivals, keys and disorder as the papers describe them.

Everything is seeded and comes out batch by batch as Arrow, so a stream of any length needs the memory of one batch.
Times are microseconds of event time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Times = npt.NDArray[np.int64]
SECOND = 1_000_000


def poisson(rng: np.random.Generator, rate: float, seconds: float) -> Times:
    """Independent arrivals at a mean rate per second."""
    count = rng.poisson(rate * seconds)
    return np.sort(rng.integers(0, int(seconds * SECOND), count))


def pareto_bursts(rng: np.random.Generator, rate: float, seconds: float, burst: float) -> Times:
    """Bursts of tuples at one instant, their sizes Pareto with mean `burst` (shared-join 5.2), the mean rate kept."""
    shape = burst / (burst - 1) if burst > 1 else np.inf
    starts = poisson(rng, rate / burst, seconds)
    sizes = np.ones(len(starts)) if burst <= 1 else (1 - rng.random(len(starts))) ** (-1 / shape)
    whole = np.floor(sizes) + (rng.random(len(starts)) < sizes % 1)
    return np.repeat(starts, whole.astype(np.int64))


def self_similar(rng: np.random.Generator, rate: float, seconds: float, flows: int = 64) -> Times:
    """Many on/off flows laid over each other, on times Pareto 1.4 and off times Pareto 1.2 (op-sched 5.1)."""
    mean_on, mean_off = 1.4 / 0.4, 1.2 / 0.2
    per_flow = rate / flows * (mean_on + mean_off) / mean_on
    arrivals = [_on_off(rng, per_flow, seconds) for _ in range(flows)]
    return np.sort(np.concatenate(arrivals))


def _on_off(rng: np.random.Generator, rate: float, seconds: float) -> Times:
    found, clock = [], -10 * rng.random()
    while clock < seconds:
        lasts = 1 + rng.pareto(1.4)
        times = clock + rng.random(rng.poisson(rate * min(lasts, seconds))) * lasts
        found.append(times[(times >= 0) & (times < seconds)])
        clock += lasts + 1 + rng.pareto(1.2)
    return (np.concatenate(found) * SECOND).astype(np.int64)


def zipf_keys(rng: np.random.Generator, count: int, keys: int, exponent: float = 0.0) -> npt.NDArray[np.int32]:
    """Keys 0 .. keys-1, uniform or with frequencies that fall with rank."""
    if exponent == 0:
        return rng.integers(0, keys, count, dtype=np.int32)
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    return np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(count)).astype(np.int32)


def disorder(rng: np.random.Generator, times: Times, most: int) -> Times:
    """The order in which tuples arrive when each is delayed by up to so many microseconds."""
    return np.argsort(times + rng.integers(0, most + 1, len(times)), kind="stable")


@dataclass(frozen=True, slots=True)
class Sensors:
    """The data centre of the papers' example: one reading per tuple, at a location."""

    rate: float = 1_000
    locations: int = 20_000
    seconds: float = 1_000
    burst: float = 1
    skew: float = 0.0
    disorder_seconds: float = 0.0

    def table(self, seed: int) -> pa.Table:
        """Columns LocationId INT, Value DOUBLE, Reading BIGINT, Ts TIMESTAMP, in the order of arrival."""
        rng = np.random.default_rng(seed)
        times = pareto_bursts(rng, self.rate, self.seconds, self.burst)
        if self.disorder_seconds:
            times = times[disorder(rng, times, int(self.disorder_seconds * SECOND))]
        return pa.table(
            {
                "LocationId": zipf_keys(rng, len(times), self.locations, self.skew),
                "Value": rng.normal(30, 10, len(times)),
                "Reading": np.arange(len(times)),
                "Ts": pa.array(times).view(pa.timestamp("us", "UTC")),
            }
        )

    def batches(self, seed: int, count: int) -> Iterator[pa.Table]:
        """The same rows cut at equal steps of event time; late ones come with the batch they arrive in."""
        rows = self.table(seed)
        reached = np.maximum.accumulate(np.asarray(rows.column("Ts").combine_chunks().view(pa.int64())))
        ends = np.searchsorted(reached, np.linspace(0, self.seconds * SECOND, count + 1)[1:-1])
        borders = [0, *ends.tolist(), rows.num_rows]
        for start, stop in pairwise(borders):
            yield rows.slice(start, stop - start)
