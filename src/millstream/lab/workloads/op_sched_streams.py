"""Rows for the example of sixteen queries over five streams (op-sched 5.1): self-similar, with different mean rates."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
import pyarrow as pa

from millstream.lab.workloads.generators import SECOND, Times, self_similar

SCRIPT = resources.files("millstream").joinpath("examples/op_sched.sql").read_text(encoding="utf-8")
SHARES = {"S1": 0.30, "S2": 0.25, "S3": 0.20, "S4": 0.15, "S5": 0.10}
"""Each stream's share of the whole rate."""
_ON, _OFF = 0.25, 5.0
"""The shortest times a flow is on and off, in seconds: of 64 flows two are on at a time."""
_KEYS = 0.05
"""The number of keys per row of a second, so that a row has as many partners at any rate."""
_SENSORS = 97


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSchedStreams:
    """`rate` is the mean number of rows a second of all streams, by event time."""

    rate: float = 20_000
    seconds: int = 60
    flows: int = 64
    seed: int = 1

    def batches(self, count: int) -> dict[str, list[pa.Table]]:
        """Each stream in `count` batches of equal duration, which in a burst are large."""
        rng = np.random.default_rng(self.seed)
        borders = np.linspace(0, self.seconds * SECOND, count + 1)[1:-1]
        found = {}
        for stream, share in SHARES.items():
            times = self_similar(rng, self.rate * share, self.seconds, self.flows, _ON, _OFF)
            table = self._rows(rng, times)
            ends = [0, *np.searchsorted(times, borders).tolist(), len(times)]
            found[stream] = [table.slice(ends[at], ends[at + 1] - ends[at]) for at in range(count)]
        return found

    def _rows(self, rng: np.random.Generator, times: Times) -> pa.Table:
        keys, count = max(round(self.rate * _KEYS), 1), len(times)
        return pa.table(
            {
                "k": pa.array(rng.integers(0, keys, count), pa.int32()),
                "j": pa.array(rng.integers(0, keys, count), pa.int32()),
                "sensor": pa.array(rng.integers(0, _SENSORS, count), pa.int32()),
                "reading": rng.random(count),
                "Ts": pa.array(times).view(pa.timestamp("us", "UTC")),
            }
        )
