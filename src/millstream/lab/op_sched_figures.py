"""op-sched, Figures 2 to 4: latency, output and queue memory over time, on real operators and simulated.

On real operators the clock is the CPU time they take, stretched to a given load. The simulation runs the same graph and
the same arrivals with the costs and selectivities that the real run has measured: it shows what the policies do when a
row costs the same whoever serves it and in whatever company.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from millstream.engine.operators.chunk import Chunk
from millstream.engine.operators.graph import Graph, Node
from millstream.engine.operators.measured import Expected
from millstream.engine.operators.run import GraphRun, Step
from millstream.engine.policies import make_policy
from millstream.lab.op_sched_workload import Streams, graph
from millstream.lab.show import save_csv, save_lines, verdict
from millstream.lab.simulator import Given, known

COMPARED = ("path_capacity", "simplified_segment", "chain")
LOADS = (0.5, 0.7, 0.9)
"""The share of time that is busy in each phase."""
_SLOT = 0.25
_TRIAL_RATE = 60_000.0
_MOST = 8_192


@dataclass(slots=True)
class Series:
    """What a run gave in each quarter of a second, and altogether."""

    latency: dict[int, float] = field(default_factory=dict)
    rows: dict[int, float] = field(default_factory=dict)
    memory: dict[int, float] = field(default_factory=dict)
    most_memory: float = 0.0
    mean_memory: float = 0.0

    @property
    def mean_latency(self) -> float:
        return sum(self.latency.values()) / max(sum(self.rows.values()), 1.0)

    @property
    def burstiness(self) -> float:
        """Deviation of the output per slot, as a share of its mean."""
        counts = np.array([self.rows.get(slot, 0.0) for slot in range(max(self.rows, default=0) + 1)])
        return float(counts.std() / counts.mean()) if len(counts) and counts.mean() else 0.0


Arrivals = Sequence[tuple[float, str, Chunk]]


def follow(run: GraphRun, arrivals: Arrivals, series: Series) -> None:
    """Feeds what has arrived, serves, and jumps ahead when there is nothing to do."""
    fed, weighted, began = 0, 0.0, run.now
    while True:
        while fed < len(arrivals) and arrivals[fed][0] <= run.now:
            run.feed(arrivals[fed][1], arrivals[fed][2])
            fed += 1
        slot = int(run.now / _SLOT)
        series.memory[slot] = max(series.memory.get(slot, 0.0), run.memory())
        before, memory = run.now, run.memory()
        if not run.step():
            if fed == len(arrivals):
                break
            run.now = arrivals[fed][0]
        weighted += memory * (run.now - before)
    series.most_memory, series.mean_memory = run.most_memory, weighted / max(run.now - began, 1e-9)


def _watch(series: Series, last: set[str]) -> Callable[[Step], None]:
    def watch(step: Step) -> None:
        if step.port[0] in last and step.given is not None:
            slot = int(step.ended / _SLOT)
            series.latency[slot] = series.latency.get(slot, 0.0) + step.given.latency(step.ended)
            series.rows[slot] = series.rows.get(slot, 0.0) + step.given.rows

    return watch


def real(policy: str, arrivals: Arrivals, stretch: float, memory: float = 1e12) -> tuple[Series, GraphRun]:
    series, plan = Series(), graph()
    run = GraphRun(
        plan,
        make_policy(policy, memory=memory),
        most=_MOST,
        stretch=stretch,
        watch=_watch(series, set(plan.queries.values())),
    )
    gc.collect()
    follow(run, arrivals, series)
    return series, run


def as_measured(run: GraphRun) -> Graph:
    """The same graph with the costs, selectivities and sizes that a run has found."""
    nodes = []
    for name, node in run.graph.nodes.items():
        counts = [run.ports[name, port] for port in range(len(node.inputs))]
        taken, given = sum(c.rows_in for c in counts), sum(c.rows_out for c in counts)
        size_in, size_out = sum(c.bytes_in for c in counts), sum(c.bytes_out for c in counts)
        nodes.append(
            Node(
                name,
                Given(
                    sum(c.time for c in counts) / max(taken, 1.0),
                    given / max(taken, 1.0),
                    size_in / max(taken, 1.0),
                    size_out / max(given, 1.0),
                ),
                node.inputs,
            )
        )
    return Graph(nodes, run.graph.queries)


def simulated(policy: str, plan: Graph, arrivals: Arrivals, stretch: float, memory: float = 1e12) -> Series:
    series = Series()
    figures: dict[tuple[str, int], Expected] = known(plan)
    run = GraphRun(
        plan,
        make_policy(policy, memory=memory),
        known=figures,
        learns=False,
        stretch=stretch,
        watch=_watch(series, set(plan.queries.values())),
    )
    amounts = [(when, stream, replace(chunk, data=None)) for when, stream, chunk in arrivals]
    follow(run, amounts, series)
    return series


def trial() -> tuple[float, GraphRun]:
    """CPU seconds a row costs altogether, and the run that has found it."""
    arrivals = list(Streams((_TRIAL_RATE,), 2.0).chunks())
    _, run = real("path_capacity", arrivals, 1e-9)
    busy = sum(port.time for port in run.ports.values())
    return busy / sum(chunk.rows for _, _, chunk in arrivals), run


def figures(directory: Path, seconds: float = 12.0) -> Iterator[str]:
    plan = graph()
    yield f"op-sched Figures 2 to 4: {len(plan.queries)} queries, {len(plan.nodes)} operators, 5 self-similar streams"
    per_row, measured = trial()
    phases = tuple(load / LOADS[-1] * _TRIAL_RATE for load in LOADS)
    stretch = LOADS[-1] / (per_row * _TRIAL_RATE)
    arrivals = list(Streams(phases, seconds).chunks())
    rows = sum(chunk.rows for _, _, chunk in arrivals)
    loads = ", ".join(map(str, LOADS))
    yield f"{rows:,.0f} rows in {seconds:g} s at mean loads {loads}; a row costs {per_row * 1e6:.1f} us"
    found = {policy: real(policy, arrivals, stretch)[0] for policy in COMPARED}
    limit = (found["path_capacity"].most_memory + found["simplified_segment"].most_memory) / 2
    found["threshold"] = real("threshold", arrivals, stretch, limit)[0]
    yield from _table("real operators, the clock is their CPU time", found, limit)
    model = as_measured(measured)
    virtual = {policy: simulated(policy, model, arrivals, stretch) for policy in COMPARED}
    limit = (virtual["path_capacity"].most_memory + virtual["simplified_segment"].most_memory) / 2
    virtual["threshold"] = simulated("threshold", model, arrivals, stretch, limit)
    yield from _table("simulated with the costs measured", virtual, limit)
    for kind, outcomes in (("real", found), ("simulated", virtual)):
        yield from _files(directory, kind, outcomes)


def _table(title: str, found: dict[str, Series], limit: float) -> Iterator[str]:
    yield ""
    yield f"{title}"
    yield f"{'policy':<20} {'latency ms':>10} {'most MB':>8} {'mean MB':>8} {'burstiness':>10}"
    for policy, one in found.items():
        memory = f"{one.most_memory / 1e6:>8.2f} {one.mean_memory / 1e6:>8.2f}"
        yield f"{policy:<20} {1e3 * one.mean_latency:>10.1f} {memory} {one.burstiness:>10.2f}"
    latency = {policy: found[policy].mean_latency for policy in COMPARED}
    memory_of = {policy: found[policy].most_memory for policy in COMPARED}
    bursts = {policy: found[policy].burstiness for policy in COMPARED}
    checks = (
        ("Figure 2: path capacity has the least latency", min(latency, key=latency.__getitem__) == "path_capacity"),
        ("Figure 2: Chain has the most latency", max(latency, key=latency.__getitem__) == "chain"),
        ("Figure 3: Chain's output is the most bursty", max(bursts, key=bursts.__getitem__) == "chain"),
        ("Figure 4: Chain needs the least memory", min(memory_of, key=memory_of.__getitem__) == "chain"),
        ("Figure 4: path capacity needs the most", max(memory_of, key=memory_of.__getitem__) == "path_capacity"),
        (f"3.4: threshold stays below its limit of {limit / 1e6:.2f} MB", found["threshold"].most_memory < limit),
    )
    for claim, holds in checks:
        yield f"  {claim}: {verdict(holds)}"


def _files(directory: Path, kind: str, found: dict[str, Series]) -> Iterator[str]:
    slots = range(max(max(one.memory) for one in found.values()) + 1)
    table = [
        (slot * _SLOT, policy, one.latency.get(slot, 0.0), one.rows.get(slot, 0.0), one.memory.get(slot, 0.0))
        for policy, one in found.items()
        for slot in slots
    ]
    header = ("second", "policy", "latency_sum_s", "rows", "queue_bytes")
    yield f"written: {save_csv(directory, f'op-sched_{kind}', header, table)}"
    seconds = [slot * _SLOT for slot in slots]
    for name, one_slot in _DRAWN.items():
        lines = {policy: (seconds, [one_slot(one, slot) for slot in slots]) for policy, one in found.items()}
        yield f"written: {save_lines(directory, f'op-sched_{kind}_{name}', lines, 'second', name)}"


def _latency(one: Series, slot: int) -> float:
    return one.latency.get(slot, 0.0) / max(one.rows.get(slot, 0.0), 1.0)


def _rows(one: Series, slot: int) -> float:
    return one.rows.get(slot, 0.0)


def _memory(one: Series, slot: int) -> float:
    return one.memory.get(slot, 0.0)


_DRAWN = {"figure_2_latency_s": _latency, "figure_3_rows": _rows, "figure_4_queue_bytes": _memory}
