"""The unit-time cost model of window-cost: what one direction of a window join costs, and which access path wins.

The engine does not search an index to expire a tuple, as the paper's hash join does: segments expire by time. So what
an index costs beyond a scan is to sort and merge a row, once, however fast the stream is, and equation 7's crossing is
not that of the engine. Its own is in the rate of the stream that probes.

`probe` streams into the window of `state`. Rates are tuples per second, windows seconds, costs whatever unit the
constants C_n (a tuple touched by a scan) and C_h (a tuple touched through an index) are in.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.plan.costs import StepCounts


@dataclass(frozen=True, slots=True)
class AccessCosts:
    """C_n and C_h."""

    scan: float = 1.0
    index: float = 1.3

    @property
    def ratio(self) -> float:
        return self.index / self.scan


@dataclass(frozen=True, slots=True)
class Window:
    """A stream as the state of a join: its rate, its window and how many keys it has."""

    rate: float
    seconds: float
    keys: float

    @property
    def rows(self) -> float:
        return self.rate * self.seconds


def scan_cost(probe_rate: float, state: Window, costs: AccessCosts) -> float:
    """Equation 2: nested loops."""
    return (probe_rate * state.rows + 2 * state.rate) * costs.scan


def index_cost(probe_rate: float, state: Window, costs: AccessCosts) -> float:
    """Equation 3: a hash index, which is also searched to expire each tuple."""
    bucket = state.rows / state.keys
    return (probe_rate * bucket + state.rate * (bucket + 1)) * costs.index


def full_cost(left: Window, right: Window, left_access: str, right_access: str, costs: AccessCosts) -> float:
    """Equations 4 to 6: both directions. HNJ has an index on the left and a scan on the right."""
    one_way = {"index": index_cost, "scan": scan_cost}
    return one_way[right_access](left.rate, right, costs) + one_way[left_access](right.rate, left, costs)


def crossing(keys: float, ratio: float) -> float:
    """Equation 7: the ratio of state rate to probe rate from which a scan is cheaper than an index."""
    return (keys - ratio) / ratio


def cheaper_access(probe_rate: float, state_rate: float, keys: float, ratio: float) -> str:
    """Equation 8, the algorithm determinant."""
    return "scan" if state_rate / probe_rate > crossing(keys, ratio) else "index"


def cheaper_by_prices(probe_rate: float, state: Window, prices: StepCounts) -> str:
    """The access path that is cheaper on the engine."""
    return "scan" if probe_rate < engine_crossing(state, prices) else "index"


def engine_crossing(state: Window, prices: StepCounts) -> float:
    """The rate of probing tuples from which an index is cheaper than a scan: what a row of state costs less to append
    than to insert is what all tuples that meet it in its window pay for comparing.
    """
    saved = float(prices.inserts - prices.appends)
    met = state.seconds * float(prices.scanned + prices.found / state.keys)
    return max(saved, 0.0) / met if met else float("inf")
