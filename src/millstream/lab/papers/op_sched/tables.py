"""op-sched, Tables 1 and 2: queue size, latency and throughput of FIFO and Chain, time unit by time unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from millstream.engine.policies import make_policy
from millstream.lab.papers.op_sched.operators.run import Step
from millstream.lab.papers.op_sched.simulator import Arrival, Given, given_graph, simulate
from millstream.lab.show import verdict

TABLE_1 = {"1": Given(1, 0.2), "2": Given(1, 0.2), "3": Given(5, 0.8)}
"""Selectivity and service time of the three operators; 1 and 2 feed the join 3, which works at 0.2 tuples a unit."""
INPUTS = ((1, "one"), (2, "two"), (3, "one"), (3, "two"), (10, "one"))
UNITS = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One time unit: tuples in all queues, and the amount and latency of the output."""

    queue: float
    latency: float | None
    throughput: float

    def __str__(self) -> str:
        latency = "-" if self.latency is None else f"{self.latency:g}"
        return f"{round(self.queue, 1) + 0.0:.1f} {latency} {self.throughput:.2f}"


PRINTED: Mapping[str, tuple[Row, ...]] = {
    "fifo": (
        Row(1.0, None, 0),
        Row(1.2, None, 0),
        Row(3.0, 2, 0.16),
        Row(2.2, None, 0),
        Row(2.0, 3, 0.16),
        Row(1.2, None, 0),
        Row(1.0, 4, 0.16),
        Row(0.2, None, 0),
        Row(0, 6, 0.16),
        Row(1.0, None, 0),
    ),
    "chain": (
        Row(1.0, None, 0),
        Row(1.2, None, 0),
        Row(2.4, None, 0),
        Row(1.6, None, 0),
        Row(0.8, None, 0),
        Row(0.6, 5, 0.16),
        Row(0.4, 5, 0.16),
        Row(0.2, 5, 0.16),
        Row(0, 6, 0.16),
        Row(1.0, None, 0),
    ),
}
"""Table 2 as printed."""


def table_2(policy: str) -> tuple[Row, ...]:
    stages = {"1": (TABLE_1["1"], ["one"]), "2": (TABLE_1["2"], ["two"]), "3": (TABLE_1["3"], ["1", "2"])}
    queues: dict[float, float] = {}
    outputs: dict[float, tuple[float, float]] = {}

    def sample(now: float, memory: float) -> None:
        queues[round(now, 6)] = memory

    def watch(step: Step) -> None:
        if step.port[0] == "3" and step.given is not None:
            outputs[round(step.ended, 6)] = (step.ended - step.given.arrived, step.given.rows)

    arrivals = [Arrival(time, stream) for time, stream in INPUTS]
    simulate(given_graph(stages, {"query": "3"}), make_policy(policy), arrivals, watch, sample)
    rows = []
    for unit in range(1, UNITS + 1):
        latency, throughput = outputs.get(unit, (None, 0.0))
        rows.append(Row(queues[unit], latency, throughput))
    return tuple(rows)


def report() -> Iterator[str]:
    """The paper's numbers next to the simulated ones."""
    yield "op-sched Table 2: queue size, tuple latency, throughput per time unit (simulated / the paper)"
    found = {policy: table_2(policy) for policy in PRINTED}
    yield f"{'time':>4}  {'FIFO':>12} / {'paper':<14}{'Chain':>12} / {'paper':<12}"
    for unit in range(UNITS):
        cells = [f"{found[p][unit]!s:>12} / {PRINTED[p][unit]!s:<14}" for p in PRINTED]
        yield f"{unit + 1:>4}  {''.join(cells)}".rstrip()
    for policy in PRINTED:
        same = [str(row) for row in found[policy]] == [str(row) for row in PRINTED[policy]]
        yield f"{policy}: every digit as printed: {verdict(same)}"
