"""op-sched, Figures 2 to 4: latency, output and queue memory over time, on real operators and simulated.

Operators run on real rows, one chunk at a time. The clock goes by the rows each has served, at the CPU time a row took
in a trial, stretched to a given load; or by the CPU time itself, which on a machine that others use differs by more
than the policies do. The simulation runs the same graph and the same arrivals with amounts instead of rows, at the
costs and selectivities of the trial.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from millstream.engine.operators.chunk import Chunk
from millstream.engine.operators.graph import Graph, Node, Operator
from millstream.engine.operators.measured import Expected
from millstream.engine.operators.run import GraphRun, Step
from millstream.engine.policies import make_policy
from millstream.lab.op_sched_workload import Streams, graph
from millstream.lab.show import save_csv, save_lines, verdict
from millstream.lab.simulator import Given, known

COMPARED = ("path_capacity", "simplified_segment", "chain")
LOADS = (0.7, 0.9, 1.05)
"""How much of the time there is each phase asks for; the last asks for more."""
_SLOT = 0.25
_TRIAL_RATE = 500_000.0
_ROUNDS = 3
_ENDED = object()


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


def follow(run: GraphRun, arrivals: Arrivals, series: Series) -> Iterator[None]:
    """Feeds what has arrived, serves, and jumps ahead when there is nothing to do; stops at every slot of time."""
    fed, weighted, began, slot = 0, 0.0, run.now, 0
    while True:
        while fed < len(arrivals) and arrivals[fed][0] <= run.now:
            run.feed(arrivals[fed][1], arrivals[fed][2])
            fed += 1
        if int(run.now / _SLOT) > slot:
            yield
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
    """A real operator that is said to take so long for a row."""

    operator: Operator
    cost: float

    def process(self, port: int, chunk: Chunk, low: float) -> tuple[Chunk | None, float]:
        given, _ = self.operator.process(port, chunk, low)
        return given, chunk.rows * self.cost


def seconds_for_a_row(run: GraphRun) -> dict[str, float]:
    """By operator, as a run has found them."""
    found = {}
    for name, node in run.graph.nodes.items():
        counts = [run.ports[name, port] for port in range(len(node.inputs))]
        found[name] = sum(c.time for c in counts) / max(sum(c.rows_in for c in counts), 1.0)
    return found


def counted(plan: Graph, costs: Mapping[str, float]) -> Graph:
    nodes = [Node(name, Counted(node.operator, costs[name]), node.inputs) for name, node in plan.nodes.items()]
    return Graph(nodes, plan.queries)


def real(
    policies: Sequence[str],
    arrivals: Arrivals,
    stretch: float,
    memory: float = 1e12,
    costs: Mapping[str, float] | None = None,
) -> tuple[dict[str, Series], dict[str, GraphRun]]:
    """The policies side by side, slot by slot, so that a machine that is slow for a while is slow for all of them.

    `costs` are seconds for a row by operator; without them the clock is CPU time.
    """
    found: dict[str, Series] = {policy: Series() for policy in policies}
    runs: dict[str, GraphRun] = {}
    for policy, series in found.items():
        plan = graph() if costs is None else counted(graph(), costs)
        runs[policy] = GraphRun(
            plan,
            make_policy(policy, memory=memory),
            stretch=stretch,
            watch=_watch(series, set(plan.queries.values())),
        )
    gc.collect()
    going = deque(follow(run, arrivals, found[policy]) for policy, run in runs.items())
    while going:
        one = going.popleft()
        if next(one, _ENDED) is not _ENDED:
            going.append(one)
    return found, runs


def as_measured(run: GraphRun) -> Graph:
    """The same graph with the costs, selectivities and sizes that a run has found."""
    nodes, costs = [], seconds_for_a_row(run)
    for name, node in run.graph.nodes.items():
        counts = [run.ports[name, port] for port in range(len(node.inputs))]
        taken, given = sum(c.rows_in for c in counts), sum(c.rows_out for c in counts)
        size_in, size_out = sum(c.bytes_in for c in counts), sum(c.bytes_out for c in counts)
        nodes.append(
            Node(
                name,
                Given(
                    costs[name],
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
    for _ in follow(run, amounts, series):
        pass
    return series


def trial(seconds: float = 2.0) -> tuple[float, GraphRun]:
    """How far to stretch CPU time so that the last phase asks for its share, and the run that has found it.

    The busier the operators, the larger the batches and the less a row costs: it takes some rounds.
    """
    arrivals = list(Streams((_TRIAL_RATE,), seconds).chunks())
    stretch = 1e-9
    for _ in range(_ROUNDS):
        run = real(["path_capacity"], arrivals, stretch)[1]["path_capacity"]
        busy = sum(port.time for port in run.ports.values())
        stretch = LOADS[-1] * seconds / busy
    return stretch, run


def figures(directory: Path, seconds: float = 12.0, clock: str = "counted") -> Iterator[str]:
    plan = graph()
    yield f"op-sched Figures 2 to 4: {len(plan.queries)} queries, {len(plan.nodes)} operators, 5 self-similar streams"
    stretch, measured = trial()
    phases = tuple(load / LOADS[-1] * _TRIAL_RATE for load in LOADS)
    arrivals = list(Streams(phases, seconds).chunks())
    rows = sum(chunk.rows for _, _, chunk in arrivals)
    loads = ", ".join(map(str, LOADS))
    yield f"{rows:,.0f} rows in {seconds:g} s at mean loads {loads}; a second of CPU counts as {stretch:.2f} s"
    model = as_measured(measured)
    costs = seconds_for_a_row(measured) if clock == "counted" else None
    found, _ = real(COMPARED, arrivals, stretch, costs=costs)
    limit = (found["path_capacity"].most_memory + found["simplified_segment"].most_memory) / 2
    found |= real(["threshold"], arrivals, stretch, limit, costs)[0]
    yield from _table(f"real operators, {'CPU time' if costs is None else 'time counted by rows served'}", found, limit)
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
    memory_of = {policy: found[policy].mean_memory for policy in COMPARED}
    bursts = {policy: found[policy].burstiness for policy in COMPARED}
    checks = (
        ("Figure 2: path capacity has the least latency", min(latency, key=latency.__getitem__) == "path_capacity"),
        ("Figure 2: Chain has the most latency", max(latency, key=latency.__getitem__) == "chain"),
        ("Figure 3: Chain's output is the most bursty", max(bursts, key=bursts.__getitem__) == "chain"),
        ("Figure 4: Chain needs the least memory (mean)", min(memory_of, key=memory_of.__getitem__) == "chain"),
        ("Figure 4: path capacity needs the most (mean)", max(memory_of, key=memory_of.__getitem__) == "path_capacity"),
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
