"""The measurements of an operator graph: costs, selectivities, queues and latencies."""

from __future__ import annotations

from dataclasses import dataclass

_DRIFT = 1.5
_PRIOR_ROWS = 1.0


@dataclass(slots=True)
class Rows:
    """Output rows of a query or a path."""

    rows: float = 0.0
    latency: float = 0.0
    greatest: float = 0.0

    @property
    def mean_latency(self) -> float:
        return self.latency / self.rows if self.rows else 0.0

    def add(self, rows: float, latency: float, greatest: float) -> None:
        self.rows += rows
        self.latency += latency
        self.greatest = max(self.greatest, greatest)


@dataclass(slots=True)
class Port:
    """One input of an operator. `waited` is rows times their time in the queue."""

    rows_in: float = 0.0
    rows_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    time: float = 0.0
    queue_memory: float = 0.0
    most_queue_memory: float = 0.0
    waited: float = 0.0

    def done(self, rows: float, size: float, out: float, out_size: float, took: float) -> None:
        self.rows_in += rows
        self.bytes_in += size
        self.rows_out += out
        self.bytes_out += out_size
        self.time += took


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected cost, selectivity and sizes of a port."""

    cost: float = 1.0
    selectivity: float = 1.0
    size_in: float = 1.0
    size_out: float = 1.0

    def drifted(self, other: Expected) -> bool:
        pairs = ((self.cost, other.cost), (self.selectivity, other.selectivity), (self.size_in, other.size_in))
        return any(not a / _DRIFT <= b <= a * _DRIFT for a, b in pairs)


def expected(port: Port, before: Expected) -> Expected:
    """The means so far; a port with too few rows keeps its given figures."""
    if port.rows_in < _PRIOR_ROWS:
        return before
    size = port.bytes_in / port.rows_in
    out = port.bytes_out / port.rows_out if port.rows_out else size
    return Expected(port.time / port.rows_in, port.rows_out / port.rows_in, size, out)
