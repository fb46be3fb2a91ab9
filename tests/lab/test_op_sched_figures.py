"""op-sched, Figures 2 and 4 in virtual time: 116 operators with costs given by kind, near saturation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millstream.engine.operators.graph import Graph, Node
from millstream.engine.operators.relational import Join, Select
from millstream.engine.operators.run import GraphRun
from millstream.engine.policies import make_policy
from millstream.lab.op_sched_figures import COMPARED, Arrivals, Series, simulated
from millstream.lab.op_sched_workload import Streams, graph
from millstream.lab.simulator import Given, known

SECONDS, LOAD = 10.0, 0.95


def by_kind() -> Graph:
    """A selection costs 1, a projection 2, a join 10; two joined rows in ten are lost."""
    nodes = []
    for node in graph().nodes.values():
        operator = node.operator
        if isinstance(operator, Select):
            size = 32 if node.name.endswith(".top") else 48
            nodes.append(Node(node.name, Given(1, operator.below, size, size), node.inputs))
        else:
            given = Given(10, 0.8, 32, 32) if isinstance(operator, Join) else Given(2, 1, 48, 32)
            nodes.append(Node(node.name, given, node.inputs))
    return Graph(nodes, graph().queries)


def work_of(plan: Graph, arrivals: Arrivals) -> float:
    run = GraphRun(plan, make_policy("fifo"), known=known(plan), learns=False, stretch=1e-9)
    for _, stream, chunk in arrivals:
        run.feed(stream, replace(chunk, data=None))
    while run.step():
        pass
    return sum(port.time for port in run.ports.values())


@pytest.fixture(scope="module")
def found() -> dict[str, Series]:
    plan, arrivals = by_kind(), list(Streams((1_000.0,), SECONDS).chunks())
    stretch = LOAD * SECONDS / work_of(plan, arrivals)
    return {policy: simulated(policy, plan, arrivals, stretch) for policy in (*COMPARED, "segment")}


def test_path_capacity_has_the_least_latency_and_chain_the_most(found: dict[str, Series]) -> None:
    latencies = [found[policy].mean_latency for policy in COMPARED]
    assert latencies == sorted(latencies)
    assert latencies[2] > 1.2 * latencies[0]


def test_path_capacity_needs_the_most_memory(found: dict[str, Series]) -> None:
    assert found["path_capacity"].mean_memory > 1.2 * max(found[p].mean_memory for p in ("simplified_segment", "chain"))


def test_segment_needs_the_least_as_theorem_3_would_have_it(found: dict[str, Series]) -> None:
    assert found["segment"].mean_memory == min(one.mean_memory for one in found.values())
