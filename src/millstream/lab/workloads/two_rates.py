"""A window join of a slow stream A and a fast stream B, run by each combination of access paths."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millstream.compile import compile_script
from millstream.lab.timed import cpu_seconds
from millstream.plan import Plan
from millstream.plan.gather_pools import gather_pools
from millstream.plan.nodes import Access
from millstream.plan.window_cost import Window

JOINS = {
    "HHJ": Access("index", "index"),
    "HNJ": Access("index", "scan"),
    "NHJ": Access("scan", "index"),
    "NNJ": Access("scan", "scan"),
}
"""The paper's names: H is an index, N is nested loops; first the window of A, then that of B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoRates:
    """Rows arrive at fixed rates, in `batches` batches to a window; keys are uniform."""

    rate_a: float
    rate_b: float
    keys: int
    seconds: float = 60.0
    batches: int = 6

    @property
    def windows(self) -> tuple[Window, Window]:
        return Window(self.rate_a, self.seconds, self.keys), Window(self.rate_b, self.seconds, self.keys)

    @property
    def rows(self) -> int:
        """The rows of both streams in a window's time."""
        return round((self.rate_a + self.rate_b) * self.seconds)

    def plan(self, join: str, *, one_way: bool = False) -> Plan:
        """The plan with the access paths of a join. One way, B tuples wait for A tuples and not the reverse."""
        streams = "".join(
            f"CREATE STREAM {name} (Id INT, Value DOUBLE, Ts TIMESTAMP)"
            f" WITH (time = 'Ts', rate = {rate:g}, keys = {self.keys});"
            for name, rate in (("A", self.rate_a), ("B", self.rate_b))
        )
        window = f" WINDOW {self.seconds:g} SECONDS"
        if one_way:
            window = f" AND A.Ts >= B.Ts AND A.Ts < B.Ts + INTERVAL '{self.seconds:g}' SECOND"
        plan = compile_script(f"{streams} CREATE QUERY q AS SELECT * FROM A, B WHERE A.Id = B.Id{window};")
        (chain,) = plan.chains
        return gather_pools(replace(plan, chains=(replace(chain, access=JOINS[join]),)))

    def tables(self, windows: int = 2, seed: int = 1) -> list[dict[str, pa.Table]]:
        """Batches for so many windows."""
        rng, count = np.random.default_rng(seed), windows * self.batches
        ends = [round(self.seconds * 1e6 * number / self.batches) for number in range(count + 1)]
        return [
            {name: self._table(rng, rate, ends[number], ends[number + 1]) for name, rate in self._rates()}
            for number in range(count)
        ]

    def _rates(self) -> tuple[tuple[str, float], ...]:
        return ("A", self.rate_a), ("B", self.rate_b)

    def _table(self, rng: np.random.Generator, rate: float, start: int, stop: int) -> pa.Table:
        """The rows that arrive between two times: evenly, so that few of them are no fewer by chance."""
        first, last = (-int(-rate * time // 1e6) for time in (start, stop))
        times = (np.arange(first, last) * (1e6 / rate)).astype(np.int64)
        ids = rng.integers(0, self.keys, len(times)).astype(np.int32)
        return pa.table(
            {"Id": ids, "Value": rng.random(len(times)), "Ts": pa.array(times).view(pa.timestamp("us", "UTC"))}
        )


def cpu_times(workload: TwoRates, joins: tuple[str, ...], rounds: int, *, one_way: bool = False) -> dict[str, float]:
    """CPU seconds of each join for the rows of a window's time, once windows are full: the best of some rounds, in
    turns.
    """
    tables, best = workload.tables(), dict.fromkeys(joins, float("inf"))
    plans = {join: workload.plan(join, one_way=one_way) for join in joins}
    for _ in range(rounds):
        rows = set()
        for join, plan in plans.items():
            taken, found = cpu_seconds(plan, tables, workload.batches)
            best[join] = min(best[join], taken)
            rows.add(found)
        if len(rows) > 1:
            raise ValueError(f"the joins give different numbers of rows: {sorted(rows)}")
    return best
