"""Operators with queues: every policy gives the same rows, and memory and latency add up."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from millstream.engine.policies import make_policy
from millstream.errors import InternalError
from millstream.lab.papers.op_sched.figures import real
from millstream.lab.papers.op_sched.operators.chunk import Chunk
from millstream.lab.papers.op_sched.operators.graph import Graph, Node
from millstream.lab.papers.op_sched.operators.relational import SelectText
from millstream.lab.papers.op_sched.operators.run import GraphRun
from millstream.lab.papers.op_sched.simulator import Arrival, Given, path_graph, simulate
from millstream.lab.papers.op_sched.workload import Streams, graph
from millstream.model.settings import POLICY_NAMES


def rows_of(policy: str, fairness: str, arrivals: list[tuple[float, str, Chunk]]) -> tuple[Counter[str], GraphRun]:
    found: Counter[str] = Counter()

    def deliver(query: str, chunk: Chunk) -> None:
        assert chunk.data is not None
        found.update(f"{query} {row}" for row in chunk.data.to_pylist())

    run = GraphRun(graph(), make_policy(policy, fairness, memory=20_000), deliver=deliver)
    for when, stream, chunk in arrivals:
        run.now = max(run.now, when)
        run.feed(stream, chunk)
        run.step()
    while run.step():
        pass
    return found, run


def test_the_workload_is_that_of_the_paper() -> None:
    plan = graph()
    assert (len(plan.queries), len(plan.nodes), len(plan.streams)) == (16, 116, 5)


def test_every_policy_gives_the_same_rows() -> None:
    arrivals = list(Streams((400.0,), 2.0).chunks())
    wanted, _ = rows_of("fifo", "none", arrivals)
    assert len({row.split()[0] for row in wanted}) > 8
    for name in POLICY_NAMES:
        for fairness in ("none", "oldest", "dynamic") if name in ("chain", "path_capacity") else ("none",):
            found, run = rows_of(name, fairness, arrivals)
            assert found == wanted, name
            assert run.memory() == pytest.approx(0, abs=1e-6)
            assert sum(one.rows for one in run.queries.values()) == sum(wanted.values())


def test_costs_and_selectivities_are_measured() -> None:
    run = real(["chain"], graph, list(Streams((3_000.0,), 2.0).chunks()), 1.0)[1]["chain"]
    looked_at = 0
    for (name, _port), counts in run.ports.items():
        if name.endswith(".select") and counts.rows_in > 300:
            node = run.graph.nodes[name].operator
            assert isinstance(node, SelectText)
            assert counts.rows_out / counts.rows_in == pytest.approx(node.below, abs=0.15)
            assert counts.time > 0
            looked_at += 1
    assert looked_at > 10


def test_queues_paths_and_queries_are_measured() -> None:
    """Two tuples at once through two operators: the second waits while the first is served."""
    plan = path_graph({"p": [Given(1, 0.5), Given(2)]})
    run = simulate(plan, make_policy("path_capacity"), [Arrival(0, "p"), Arrival(0, "p")])
    assert run.ports["p.1", 0].waited == 2.0
    assert run.ports["p.1", 0].most_queue_memory == 2.0
    assert run.ports["p.2", 0].rows_in == 1.0
    assert run.queries["p"].mean_latency == pytest.approx((2 + 4) / 2)
    assert run.paths["p.1", "p"].greatest == 4.0


def test_a_shared_operator_feeds_all_that_read_it() -> None:
    nodes = [Node("o", Given(1), ("s",)), Node("x", Given(1), ("o",)), Node("y", Given(1), ("o",))]
    run = simulate(Graph(nodes, {"X": "x", "Y": "y"}), make_policy("segment"), [Arrival(0, "s", 3)])
    assert run.queries["X"].rows == run.queries["Y"].rows == 3


def test_a_graph_is_given_in_order() -> None:
    with pytest.raises(InternalError, match="comes before its input"):
        Graph([Node("b", Given(1), ("a",)), Node("a", Given(1), ("s",))], {"q": "b"})


def test_streams_come_in_order() -> None:
    times = [when for when, _, _ in Streams((500.0, 1_000.0), 2.0).chunks()]
    assert np.all(np.diff(times) >= 0)
