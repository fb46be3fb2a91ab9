"""op-sched, Figures 2 to 4: latency, output and queue memory over time, on real operators and simulated.

Operators run on real rows, one chunk at a time. The clock advances by the rows each operator has served, at the CPU
time per row that its kind of operator takes in large chunks: the fixed cost of a chunk should not influence the
comparison of policies, since a system that serves tuple by tuple does not have it. The simulation runs the same graph
and the same arrivals with amounts instead of rows, at the same costs and the measured selectivities.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from millstream.engine.policies import make_policy
from millstream.lab.papers.op_sched.operators.chunk import Chunk
from millstream.lab.papers.op_sched.operators.graph import Graph, Node, Operator
from millstream.lab.papers.op_sched.operators.measured import Expected
from millstream.lab.papers.op_sched.operators.run import GraphRun, Step
from millstream.lab.papers.op_sched.simulator import Given, known
from millstream.lab.papers.op_sched.workload import Streams, graph
from millstream.lab.show import save_csv, save_lines, verdict

COMPARED = ("path_capacity", "simplified_segment", "chain")
LOADS = (0.85, 1.05, 1.25)
"""The intended load of each phase as a share of the available time; it grows from phase to phase."""
WORKLOADS = (1, 2, 3)
"""Seeds: each makes different queries and streams."""
_SLOT = 0.5
_RATE = 10_000.0
_TRIAL_RATE = 400_000.0
_LOAD = sum(LOADS) / len(LOADS)


@dataclass(slots=True)
class Series:
    """The results of a run per half second, and in total."""

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
        return _burstiness(self.rows)


Arrivals = Sequence[tuple[float, str, Chunk]]


def follow(run: GraphRun, arrivals: Arrivals, series: Series) -> None:
    """Feeds arrivals, serves queues, and jumps to the next arrival when nothing waits."""
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


@dataclass(frozen=True, slots=True)
class Counted:
    """A real operator with a fixed cost per row."""

    operator: Operator
    cost: float

    def process(self, port: int, chunk: Chunk, low: float) -> tuple[Chunk | None, float]:
        given, _ = self.operator.process(port, chunk, low)
        return given, chunk.rows * self.cost


Costs = Mapping[type, float]
"""Seconds for a row, by kind of operator."""


def trial() -> Costs:
    """The cost per row in chunks of tens of thousands of rows."""
    arrivals = list(Streams((_TRIAL_RATE,), 4.0).chunks())
    run = real(["fifo"], graph, arrivals, 1e-9)[1]["fifo"]
    time, rows = defaultdict[type, float](float), defaultdict[type, float](float)
    for (name, _), port in run.ports.items():
        kind = type(run.graph.nodes[name].operator)
        time[kind] += port.time
        rows[kind] += port.rows_in
    return {kind: time[kind] / rows[kind] for kind in time}


def counted(plan: Graph, costs: Costs) -> Graph:
    nodes = [
        Node(name, Counted(node.operator, costs[type(node.operator)]), node.inputs) for name, node in plan.nodes.items()
    ]
    return Graph(nodes, plan.queries)


def real(
    policies: Sequence[str], plan_of: Callable[[], Graph], arrivals: Arrivals, stretch: float, memory: float = 1e12
) -> tuple[dict[str, Series], dict[str, GraphRun]]:
    """Runs each policy on a graph of its own."""
    found: dict[str, Series] = {policy: Series() for policy in policies}
    runs: dict[str, GraphRun] = {}
    for policy, series in found.items():
        plan = plan_of()
        watch = _watch(series, set(plan.queries.values()))
        runs[policy] = GraphRun(plan, make_policy(policy, memory=memory), stretch=stretch, watch=watch)
        follow(runs[policy], arrivals, series)
    return found, runs


def as_measured(run: GraphRun) -> Graph:
    """The same graph with the costs, selectivities and sizes that a run has measured."""
    nodes = []
    for name, node in run.graph.nodes.items():
        ports = [run.ports[name, port] for port in range(len(node.inputs))]
        taken, given = max(sum(p.rows_in for p in ports), 1.0), max(sum(p.rows_out for p in ports), 1.0)
        cost, share = sum(p.time for p in ports) / taken, sum(p.rows_out for p in ports) / taken
        sizes = sum(p.bytes_in for p in ports) / taken, sum(p.bytes_out for p in ports) / given
        nodes.append(Node(name, Given(cost, share, *sizes), node.inputs))
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


def report(directory: Path, seconds: float = 24.0, workloads: Sequence[int] = WORKLOADS) -> Iterator[str]:
    plan = graph()
    yield f"op-sched Figures 2 to 4: {len(plan.queries)} queries, {len(plan.nodes)} operators, 5 self-similar streams"
    costs = trial()
    shown = ", ".join(f"{kind.__name__} {1e9 * cost:.0f}" for kind, cost in costs.items())
    yield f"nanoseconds for a row: {shown}"
    real_runs: list[dict[str, Series]] = []
    virtual_runs: list[dict[str, Series]] = []
    for seed in workloads:
        arrivals = list(Streams(tuple(load * _RATE for load in LOADS), seconds, seed=seed).chunks())
        rows = _rows_in(arrivals)
        yield f"workload {seed}: {sum(rows.values()):,.0f} rows in {seconds:g} s at a mean load of {_LOAD:.2f}; " + (
            f"rows in half a second deviate by {_burstiness(rows):.2f} of their mean"
        )
        one, other = compare(seed, arrivals, seconds, costs)
        real_runs.append(one)
        virtual_runs.append(other)
    for kind, title, runs in (
        ("real", "real operators, time counted by rows served", real_runs),
        ("simulated", "simulated with the selectivities found", virtual_runs),
    ):
        yield from _table(f"{title}; means of {len(runs)} workloads", runs)
        yield from _files(directory, kind, runs[0])


def compare(seed: int, arrivals: Arrivals, seconds: float, costs: Costs) -> tuple[dict[str, Series], dict[str, Series]]:
    """All policies on real operators, and simulated."""

    def plan() -> Graph:
        return counted(graph(seed), costs)

    _, runs = real(["path_capacity"], plan, arrivals, 1e-9)
    run = runs["path_capacity"]
    stretch, model = _LOAD * seconds / sum(port.time for port in run.ports.values()), as_measured(run)
    found, _ = real(COMPARED, plan, arrivals, stretch)
    found |= real(["threshold"], plan, arrivals, stretch, _limit(found))[0]
    virtual = {policy: simulated(policy, model, arrivals, stretch) for policy in COMPARED}
    virtual["threshold"] = simulated("threshold", model, arrivals, stretch, _limit(virtual))
    return found, virtual


def _limit(found: Mapping[str, Series]) -> float:
    """The memory limit for Threshold: between the memory of its two strategies."""
    return (found["path_capacity"].most_memory + found["simplified_segment"].most_memory) / 2


def _rows_in(arrivals: Arrivals) -> dict[int, float]:
    found: dict[int, float] = {}
    for when, _, chunk in arrivals:
        slot = int(when / _SLOT)
        found[slot] = found.get(slot, 0.0) + chunk.rows
    return found


def _burstiness(rows: Mapping[int, float]) -> float:
    """The standard deviation of the rows per time slot, as a share of their mean."""
    counts = np.array([rows.get(slot, 0.0) for slot in range(max(rows, default=0) + 1)])
    return float(counts.std() / counts.mean()) if len(counts) and counts.mean() else 0.0


def _table(title: str, runs: Sequence[Mapping[str, Series]]) -> Iterator[str]:
    """Means over workloads, and which of the paper's results hold; `in` counts the workloads for which one holds."""
    yield ""
    yield f"{title}"
    yield f"{'policy':<20} {'latency ms':>10} {'most MB':>8} {'mean MB':>8} {'burstiness':>10}"
    latency, memory, bursts = ([{p: of(one) for p, one in run.items()} for run in runs] for of in _MEASURES)
    for policy in runs[0]:
        most = np.mean([run[policy].most_memory for run in runs]) / 1e6
        means = [float(np.mean([one[policy] for one in measure])) for measure in (latency, memory, bursts)]
        yield f"{policy:<20} {1e3 * means[0]:>10.1f} {most:>8.2f} {means[1] / 1e6:>8.2f} {means[2]:>10.2f}"
    for claim, order, measure in (
        ("Figure 2: path capacity has the least latency, Chain the most", COMPARED, latency),
        ("Figure 3: Chain's output is the most bursty, path capacity's the least", COMPARED, bursts),
        ("Figure 4: Chain needs the least memory (mean), path capacity the most", COMPARED[::-1], memory),
    ):
        means_by = {policy: float(np.mean([one[policy] for one in measure])) for policy in COMPARED}
        each = sum(_rises(one, order) for one in measure)
        yield f"  {claim}, simplified segment between: {verdict(_rises(means_by, order))} (in {each} of {len(runs)})"
    below = [run["threshold"].most_memory < _limit(run) for run in runs]
    yield f"  3.4: threshold stays below its limit: {verdict(all(below))} (in {sum(below)} of {len(runs)})"


def _rises(values: Mapping[str, float], order: Sequence[str]) -> bool:
    return all(values[one] < values[other] for one, other in pairwise(order))


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


_MEASURES: tuple[Callable[[Series], float], ...] = (
    lambda one: one.mean_latency,
    lambda one: one.mean_memory,
    lambda one: one.burstiness,
)
_DRAWN = {"figure_2_latency_s": _latency, "figure_3_rows": _rows, "figure_4_queue_bytes": _memory}
