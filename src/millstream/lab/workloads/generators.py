"""Generated streams: arrivals, keys and disorder as the papers describe them.

Everything is seeded and generated batch by batch as Arrow, so a stream of any length needs the memory of one batch.
Times are microseconds of event time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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


def self_similar(
    rng: np.random.Generator, rate: float, seconds: float, flows: int = 64, on: float = 1.0, off: float = 1.0
) -> Times:
    """Many superimposed on/off flows, on times Pareto 1.4 and off times Pareto 1.2 (op-sched 5.1).

    `on` and `off` are the shortest of these times in seconds. The shorter `on` is relative to `off`, the fewer flows
    are on together, and the burstier is the stream.
    """
    mean_on, mean_off = on * 1.4 / 0.4, off * 1.2 / 0.2
    per_flow = rate / flows * (mean_on + mean_off) / mean_on
    arrivals = [_on_off(rng, per_flow, seconds, on, off) for _ in range(flows)]
    return np.sort(np.concatenate(arrivals))


def _on_off(rng: np.random.Generator, rate: float, seconds: float, on: float, off: float) -> Times:
    """A flow that has alternated between on and off for some time before time 0."""
    found, clock = [], -20 * off * (1 + rng.random())
    while clock < seconds:
        lasts = on * (1 + rng.pareto(1.4))
        begin, end = max(clock, 0.0), min(clock + lasts, seconds)
        if begin < end:
            found.append(begin + rng.random(rng.poisson(rate * (end - begin))) * (end - begin))
        clock += lasts + off * (1 + rng.pareto(1.2))
    return (np.concatenate([[], *found]) * SECOND).astype(np.int64)


def zipf_keys(rng: np.random.Generator, count: int, keys: int, exponent: float = 0.0) -> npt.NDArray[np.int32]:
    """Keys 0 .. keys-1, uniform or Zipf-distributed."""
    if exponent == 0:
        return rng.integers(0, keys, count, dtype=np.int32)
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    return np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(count)).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Sensors:
    """The data centre of the papers' example: one reading per tuple, at a location.

    `burst` is the mean number of tuples at one instant, `skew` Zipf's exponent, and each tuple comes up to
    `disorder_seconds` after its time.
    """

    rate: float = 1_000
    locations: int = 20_000
    seconds: int = 1_000
    burst: float = 1
    skew: float = 0.0
    disorder_seconds: float = 0.0

    def batches(self, seed: int, count: int) -> Iterator[pa.Table]:
        """`count` batches at equal steps of event time: LocationId INT, Value DOUBLE, Reading BIGINT, Ts TIMESTAMP.

        Rows are made second by second and come in the order of arrival, so neither `count` nor the length changes them.
        """
        waiting, number, second = _Waiting(), 0, 0
        for step in range(1, count + 1):
            end = self.seconds * SECOND * step // count
            while second * SECOND < end:
                waiting.add(*self._second(seed, second))
                second += 1
            times, keys, values = waiting.arrived(end if step < count else None)
            yield _table(times, keys, values, number)
            number += len(times)

    def table(self, seed: int) -> pa.Table:
        """All rows as one table."""
        return pa.concat_tables(self.batches(seed, 1))

    def _second(self, seed: int, second: int) -> tuple[Times, Times, npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        rng = np.random.default_rng([seed, second])
        times = pareto_bursts(rng, self.rate, 1, self.burst) + second * SECOND
        delays = rng.integers(0, int(self.disorder_seconds * SECOND) + 1, len(times))
        return (
            times,
            times + delays,
            zipf_keys(rng, len(times), self.locations, self.skew),
            rng.normal(30, 10, len(times)),
        )


class _Waiting:
    """Rows whose event time is past but that have not yet arrived."""

    def __init__(self) -> None:
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []

    def add(self, *columns: npt.NDArray[Any]) -> None:
        self._parts.append(columns)

    def arrived(self, until: int | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """Times, keys and values of the rows that arrive before this time, in the order of arrival."""
        times, arrivals, keys, values = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        order = np.argsort(arrivals, kind="stable")
        here = len(order) if until is None else int(np.searchsorted(arrivals[order], until))
        rest = order[here:]
        self._parts = [(times[rest], arrivals[rest], keys[rest], values[rest])]
        return times[order[:here]], keys[order[:here]], values[order[:here]]


def _table(times: Times, keys: npt.NDArray[np.int32], values: npt.NDArray[np.float64], first: int) -> pa.Table:
    return pa.table(
        {
            "LocationId": keys,
            "Value": values,
            "Reading": np.arange(first, first + len(times)),
            "Ts": pa.array(times).view(pa.timestamp("us", "UTC")),
        }
    )
