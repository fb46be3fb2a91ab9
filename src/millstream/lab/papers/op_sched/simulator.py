"""Schedules in virtual time: the engine's policies on operators whose costs and selectivities are given.

Amounts flow instead of rows: a stage with selectivity 0.2 turns one tuple into a fifth of a tuple. Nothing is random
and nothing is measured, so a run is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from millstream.engine.policy import Policy
from millstream.lab.papers.op_sched.operators.chunk import Chunk
from millstream.lab.papers.op_sched.operators.graph import Graph, Node, Port
from millstream.lab.papers.op_sched.operators.measured import Expected
from millstream.lab.papers.op_sched.operators.run import GraphRun, Step


@dataclass(frozen=True, slots=True)
class Given:
    """An operator with a given time per tuple and selectivity. `sizes` are those of a tuple in and out."""

    cost: float
    selectivity: float = 1.0
    size_in: float = 1.0
    size_out: float = 1.0

    def process(self, port: int, chunk: Chunk, low: float) -> tuple[Chunk, float]:
        del port, low
        kept, size = chunk.rows * self.selectivity, chunk.rows * self.selectivity * self.size_out
        out = replace(chunk, rows=kept, size=size, arrivals=chunk.arrivals * self.selectivity)
        return out, chunk.rows * self.cost


@dataclass(frozen=True, slots=True)
class Arrival:
    """A number of tuples of a stream at one time."""

    time: float
    stream: str
    tuples: float = 1.0
    size: float = 1.0


def given_graph(stages: Mapping[str, tuple[Given, Sequence[str]]], queries: Mapping[str, str]) -> Graph:
    """Operators by name, each with what feeds it."""
    return Graph([Node(name, operator, tuple(inputs)) for name, (operator, inputs) in stages.items()], queries)


def path_graph(paths: Mapping[str, Sequence[Given]]) -> Graph:
    """Paths that share nothing: path p reads stream p and gives query p."""
    stages: dict[str, tuple[Given, Sequence[str]]] = {}
    for path, operators in paths.items():
        before = path
        for number, operator in enumerate(operators, start=1):
            stages[f"{path}.{number}"] = (operator, [before])
            before = f"{path}.{number}"
    return given_graph(stages, {path: f"{path}.{len(operators)}" for path, operators in paths.items()})


def known(graph: Graph) -> dict[Port, Expected]:
    """The figures for a policy: those given."""
    found = {}
    for name, port in graph.ports:
        operator = graph.nodes[name].operator
        if isinstance(operator, Given):
            found[name, port] = Expected(operator.cost, operator.selectivity, operator.size_in, operator.size_out)
    return found


def simulate(
    graph: Graph,
    policy: Policy,
    arrivals: Iterable[Arrival],
    watch: Callable[[Step], None] | None = None,
    sample: Callable[[float, float], None] | None = None,
) -> GraphRun:
    """Runs until all arrivals are processed. `sample` gets time and queue memory after every arrival and every step.

    A tuple being served counts as queued until it is done; tuples that arrive meanwhile are queued too.
    """
    run = GraphRun(graph, policy, known=known(graph), learns=False, watch=watch)
    waiting = sorted(arrivals, key=lambda arrival: arrival.time)
    fed = 0
    while True:
        while fed < len(waiting) and waiting[fed].time <= run.now + 1e-9:
            one = waiting[fed]
            run.feed(one.stream, Chunk(one.tuples, one.tuples * one.size, one.time, one.tuples * one.time, fed))
            fed += 1
        before = run.memory()
        if sample is not None:
            sample(run.now, before)
        if not run.step():
            if fed == len(waiting):
                return run
            run.now = waiting[fed].time
        elif sample is not None:
            for one in waiting[fed:]:
                if one.time >= run.now:
                    break
                before += one.tuples * one.size * len(graph.consumers[one.stream])
                sample(one.time, before)
