"""Seven queries that share three streams: our shares and reaches against simple ones, on the engine.

The workloads are random: rates, windows, which streams a query joins, and weights. Each way gets the same number of
rows per second, or the same number of rows in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from millstream.lab.papers.window_cost.measured import Streams, apart, joined, measure
from millstream.lab.papers.window_cost.ways import memory_by, rates_by
from millstream.lab.show import save_csv, save_lines, verdict
from millstream.plan.allot import shrink
from millstream.plan.load import Load, QueryDemand, StreamRate
from millstream.plan.regulate import keep_rows

QUERIES, KEYS, WIDEST = 7, 1_000, 10.0
_PAIRS = (("A", "B"), ("A", "C"), ("B", "C"))
_NOISE = 0.99
"""What counts as equal: rows are drawn by chance."""
OURS = "ours"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Seven queries; an interval for each of two streams, a window for each of three."""

    load: Load
    seed: int
    seconds: float = 40.0

    @classmethod
    def random(cls, seed: int, *, three: bool, share: float = 0.3) -> Workload:
        """`share` of the rows can be served, or kept in memory; with `three`, some queries join all three streams."""
        rng = np.random.default_rng(seed)
        streams = tuple(StreamRate(name, float(np.exp(rng.uniform(np.log(60), np.log(900))))) for name in "ABC")
        queries = []
        for number in range(1, QUERIES + 1):
            weight = float(np.round(rng.uniform(1, 10)))
            if three and rng.random() < 0.3:
                window = float(np.round(rng.uniform(1, WIDEST / 2), 1))
                queries.append(QueryDemand(f"q{number}", ("A", "B", "C"), ((0.0, window),) * 3, KEYS**-2, weight))
            else:
                pair = _PAIRS[rng.integers(3)]
                queries.append(QueryDemand(f"q{number}", pair, _interval(rng), 1 / KEYS, weight))
        load = Load(streams=streams, queries=tuple(queries))
        return cls(load=replace(load, capacity=share * load.work, memory=share * load.bytes), seed=seed)

    @property
    def windows(self) -> dict[str, float]:
        """The widest window of each stream, of a second at least."""
        return {name: max(self.load.reaches.get(name, 0.0), 1.0) for name in self.load.rates}

    def run(self, shares: Mapping[str, float] | None = None, reaches: Mapping[str, float] | None = None) -> float:
        """The weighted results per second on the engine."""
        cut = self.load.within(reaches or {})
        queries = {query.name: text for query in cut.queries if (text := _text(query))}
        given = Streams(
            rates=self.load.rates,
            keys=dict.fromkeys(self.load.rates, KEYS),
            seconds=self.seconds,
            batches=round(self.seconds),
            seed=self.seed,
        )
        weights = {query.name: query.weight for query in self.load.queries}
        return measure(given, queries, shares, warm=WIDEST + 1).weighted(weights) if queries else 0.0

    def by_rates(self) -> dict[str, float]:
        """Each way to regulate, with its weighted results per second."""
        rates = self.load.rates
        ways = {
            name: {stream: rate / rates[stream] for stream, rate in given.items()}
            for name, given in rates_by(self.load.capacity, rates, self.windows).items()
        }
        return {name: self.run(shares=shares) for name, shares in (ways | {OURS: keep_rows(self.load)}).items()}

    def by_memory(self) -> dict[str, float]:
        """Each way to allot memory, with its weighted results per second."""
        rates = {name: stream.rate for name, stream in self.load.pools.items()}
        most = {name: self.load.reaches[name] * rate for name, rate in rates.items()}
        ways = {
            name: {pool: rows / rates[pool] for pool, rows in given.items()}
            for name, given in memory_by(self.load.memory, rates, most).items()
        }
        return {name: self.run(reaches=reaches) for name, reaches in (ways | {OURS: shrink(self.load)}).items()}


def _interval(rng: np.random.Generator) -> tuple[tuple[float, float], tuple[float, float]]:
    """Half of the intervals have a window for each stream, the others lie on one side, some of them away from zero."""
    first, second = (float(value) for value in np.round(np.sort(rng.uniform(0, WIDEST, 2)), 1))
    if rng.random() < 0.5:
        return (0.0, max(first, 0.1)), (0.0, max(second, 0.1))
    far = (first if rng.random() < 0.5 else 0.0, second + 0.1)
    return (far, (0.0, 0.0)) if rng.random() < 0.5 else ((0.0, 0.0), far)


def _text(query: QueryDemand) -> str:
    """The query in SQL; nothing where its windows have been cut to nothing."""
    if len(query.streams) > 2:
        return joined(query.streams, f"WINDOW {query.widths[0]:.6f} SECONDS")
    (left, right), (after, before) = query.streams, query.spans
    if after[0] == after[1] and before[0] == before[1]:
        return ""
    if after[0] == after[1]:
        return joined(query.streams, apart(left, right, -before[1], -before[0]))
    if before[0] == before[1]:
        return joined(query.streams, apart(left, right, after[0], after[1]))
    return joined(query.streams, apart(left, right, -before[1], after[1]))


def seven(out: Path, workloads: int = 10) -> Iterator[str]:
    """Ten random workloads, rates and memory."""
    rows: list[tuple[str, int, str, float]] = []
    kinds: dict[str, Callable[[int], dict[str, float]]] = {
        "rates": lambda seed: Workload.random(seed, three=True).by_rates(),
        "memory": lambda seed: Workload.random(seed, three=False).by_memory(),
    }
    for kind, run in kinds.items():
        what = "rows for 30% of the work are kept" if kind == "rates" else "30% of the state is kept"
        yield f"seven shared queries, {kind}: {what}; weighted results per second, to the best way"
        wins, least = 0, 1e9
        for seed in range(1, workloads + 1):
            found = run(seed)
            if seed == 1:
                yield "  workload" + "".join(f"{name:>20}" for name in found)
            most = max(found.values())
            simple = max(rate for name, rate in found.items() if name != OURS)
            wins += found[OURS] >= _NOISE * simple
            least = min(least, found[OURS] / simple)
            rows += [(kind, seed, name, rate) for name, rate in found.items()]
            yield f"  {seed:>8}" + "".join(f"{rate / most:>20.3f}" for rate in found.values())
        holds = verdict(wins == workloads)
        yield (
            f"  ours is at least as good as each of the five, up to {1 - _NOISE:.0%} of chance: in {wins} of "
            f"{workloads}, {least:.3f} times the best of them at the least  {holds}"
        )
    path = save_csv(out, "window-cost_seven", ("kind", "workload", "way", "weighted_results_per_second"), rows)
    yield f"written: {path}"
    yield from (f"written: {_plot(out, kind, rows)}" for kind in kinds)


def _plot(out: Path, kind: str, rows: Sequence[tuple[str, int, str, float]]) -> str:
    """Each way's results, as a share of ours, over the workloads."""
    found = {(seed, way): rate for one, seed, way, rate in rows if one == kind}
    seeds = sorted({seed for seed, _ in found})
    lines = {
        way: ([float(seed) for seed in seeds], [found[seed, way] / found[seed, OURS] for seed in seeds])
        for way in dict.fromkeys(way for _, way in found)
    }
    return save_lines(out, f"window-cost_seven_{kind}", lines, "workload", "weighted results, to ours")
