"""Streams of given rates, of which some rows are thrown away before the engine, and what the engine makes of the rest.

Rates and keys are multiples of the paper's, so that a row has as many matches as there and chance is small.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.engine import Engine


@dataclass(frozen=True, kw_only=True)
class Streams:
    """Uniform keys, as many rows every second, at random times.

    Of streams with different numbers of keys the fewer are among the more.
    """

    rates: Mapping[str, float]
    keys: Mapping[str, int]
    seconds: float
    batches: int
    seed: int = 1
    every: int = 1
    """only rows whose key is a multiple of this are kept"""

    def script(self, queries: Mapping[str, str]) -> str:
        """A script with these queries, each given as what follows `CREATE QUERY ... AS`."""
        streams = [
            f"CREATE STREAM {name} (Id INT, Ts TIMESTAMP)"
            f" WITH (time = 'Ts', rate = {rate:g}, keys = {self.keys[name]});"
            for name, rate in self.rates.items()
        ]
        return "\n".join([*streams, *(f"CREATE QUERY {name} AS {text};" for name, text in queries.items())])

    def rows(self, shares: Mapping[str, float] | None = None) -> Iterator[dict[str, pa.Table]]:
        """The batches. Of each stream's batch this share of the rows is kept; a larger one keeps the same and more."""
        rng = np.random.default_rng(self.seed)
        for number in range(self.batches):
            start, stop = (int(self.seconds * 1e6 * step / self.batches) for step in (number, number + 1))
            yield {
                name: self._rows(rng, name, start, stop, 1.0 if shares is None else shares[name]) for name in self.rates
            }

    def _rows(self, rng: np.random.Generator, name: str, start: int, stop: int, share: float) -> pa.Table:
        # Exact numbers, so that every way to share out the service costs as much.
        count, wanted = (_between(rate, start, stop) for rate in (self.rates[name], self.rates[name] * share))
        times, ids, order = rng.integers(start, stop, count), rng.integers(0, self.keys[name], count), rng.random(count)
        kept = np.argsort(order)[:wanted]
        kept = kept[ids[kept] % self.every == 0]
        kept = kept[np.argsort(times[kept])]
        return pa.table(
            {
                "Id": pa.array(ids[kept].astype(np.int32)),
                "Ts": pa.array(times[kept]).view(pa.timestamp("us", "UTC")),
            }
        )


def _between(rate: float, start: int, stop: int) -> int:
    """How many rows of a stream come between two times (us), so that over many batches the rate is exact."""
    return round(rate * stop / 1e6) - round(rate * start / 1e6)


def joined(streams: Sequence[str], bounds: str) -> str:
    """A join of streams by their key; `bounds` is a WINDOW or a condition on times, with its AND."""
    equal = " AND ".join(f"{streams[0]}.Id = {other}.Id" for other in streams[1:])
    return f"SELECT * FROM {', '.join(streams)} WHERE {equal} {bounds}"


def apart(left: str, right: str, low: float, high: float) -> str:
    """The right row comes from `low` to `high` seconds after the left one."""
    ends = (f"{left}.Ts {'-' if end < 0 else '+'} INTERVAL {abs(end):.6f} SECONDS" for end in (low, high))
    return f"AND {right}.Ts BETWEEN {' AND '.join(ends)}"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """After the windows are full: results by query, rows taken in, mean rows of state, and CPU seconds."""

    results: Mapping[str, int]
    so_far: Sequence[int]
    rows: int
    state_rows: float
    cpu: float
    seconds: float

    @property
    def output_rate(self) -> float:
        """Results per second of the streams, all queries together."""
        return sum(self.results.values()) / self.seconds

    def weighted(self, weights: Mapping[str, float]) -> float:
        return sum(weights[name] * count for name, count in self.results.items()) / self.seconds


def measure(
    streams: Streams, queries: Mapping[str, str], shares: Mapping[str, float] | None = None, *, warm: float = 0.0
) -> Measured:
    """Runs the queries; what happens in the first `warm` seconds is not counted."""
    results = dict.fromkeys(queries, 0)

    def count(name: str, rows: pa.RecordBatch) -> None:
        results[name] += rows.num_rows

    engine = Engine(compile_script(streams.script(queries)), count)
    first = round(streams.batches * warm / streams.seconds)
    so_far, taken, state, spent = [], 0, 0, 0.0
    for number, batch in enumerate(streams.rows(shares)):
        if number == first:
            results.update(dict.fromkeys(queries, 0))
        began = time.process_time()
        engine.feed(batch)
        if number >= first:
            spent += time.process_time() - began
            taken += sum(table.num_rows for table in batch.values())
            state += sum(len(segment) for pool in engine.pools() for segment in pool.segments)
            so_far.append(sum(results.values()))
    counted = streams.batches - first
    return Measured(
        results=results,
        so_far=so_far,
        rows=taken,
        state_rows=state / counted,
        cpu=spent,
        seconds=streams.seconds * counted / streams.batches,
    )
