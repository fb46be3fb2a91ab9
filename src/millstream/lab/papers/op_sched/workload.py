"""op-sched 5.1: sixteen queries of 116 operators over five self-similar streams, as a graph of real operators.

Four queries select, the others join two to five streams: five have one join, four two, one three and two four. Every
stream a query reads is selected and projected first; the last operator is a selection. Selectivities are spread over 0
to 1, few joins have more than one, and the first operators are the selective ones, as the paper observes.

The first selections and projections find numbers in a line of text, which takes somewhat less time than a join: in a
system that serves tuple by tuple, as the paper's, operators differ by no more than that. Here, comparing a column with
a constant is many times as fast as a join, and the results would differ (docs/scheduling.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.lab.papers.op_sched.operators.chunk import Chunk
from millstream.lab.papers.op_sched.operators.graph import Graph, Node
from millstream.lab.papers.op_sched.operators.relational import KEY, TIME, Join, ProjectText, Select, SelectText
from millstream.lab.workloads.generators import SECOND, self_similar

JOINS = (0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 4)
"""How many joins each query has."""
STREAMS = ("S1", "S2", "S3", "S4", "S5")
SHARES = (0.30, 0.25, 0.20, 0.15, 0.10)
"""Each stream's share of the whole rate."""
_LINES = "sensor {} reads {:.5f} at noon in the northern hall"
_LINE, _READING = "line", r"reads (?P<reading>[\d.]+)"
_BOTH = rf"sensor (?P<sensor>\d+) {_READING}"
_READINGS, _SENSORS = 100_000, 97
_WINDOW = 0.5
_TICK = 0.2
_KEYS = 0.05
"""The number of keys per row of a second."""
_ON, _OFF = 0.25, 5.0
"""The shortest times a flow is on and off, in seconds: of 64 flows two are on at a time."""


def graph(seed: int = 1) -> Graph:
    rng = np.random.default_rng(seed)
    nodes: list[Node] = []
    queries: dict[str, str] = {}
    for number, joins in enumerate(JOINS, start=1):
        query = f"Q{number}"
        chosen = rng.permutation(len(STREAMS))[: joins + 1]
        tops = [_leaf(rng, nodes, f"{query}.{STREAMS[index]}", STREAMS[index], joins) for index in chosen]
        while len(tops) > 1:
            name = f"{query}.join{joins - len(tops) + 2}"
            nodes.append(Node(name, Join(_WINDOW * rng.uniform(0.5, 1.0)), (tops[0], tops[1])))
            tops = [name, *tops[2:]]
        if joins:
            name = f"{query}.top"
            nodes.append(Node(name, Select("sensor", _SENSORS * float(rng.uniform(0.3, 0.9))), (tops[0],)))
            tops = [name]
        queries[query] = tops[0]
    return Graph(nodes, queries)


def _leaf(rng: np.random.Generator, nodes: list[Node], name: str, stream: str, joins: int) -> str:
    share = float(rng.uniform(0.05, 0.6 if joins else 0.9))
    nodes.append(Node(f"{name}.select", SelectText(_LINE, share, _READING), (stream,)))
    nodes.append(Node(f"{name}.project", ProjectText((KEY, TIME), _LINE, _BOTH), (f"{name}.select",)))
    return f"{name}.project"


@dataclass(frozen=True, slots=True)
class Streams:
    """Rows of the five streams: `phases` are the mean rates (rows a second, all streams) of phases of equal length."""

    phases: tuple[float, ...]
    seconds: float
    flows: int = 64
    seed: int = 1

    def chunks(self) -> Iterator[tuple[float, str, Chunk]]:
        """In the order of arrival, a fifth of a second at a time."""
        rng = np.random.default_rng(self.seed)
        lines = pa.array([_LINES.format(n % _SENSORS, n / _READINGS) for n in range(_READINGS)])
        length = self.seconds / len(self.phases)
        times = {}
        for stream, share in zip(STREAMS, SHARES, strict=True):
            parts = [
                self_similar(rng, rate * share, length, self.flows, _ON, _OFF) + round(n * length * SECOND)
                for n, rate in enumerate(self.phases)
            ]
            times[stream] = np.concatenate(parts)
        keys = max(round(sum(map(len, times.values())) / self.seconds * _KEYS), 1)
        number = 0
        for tick in range(round(self.seconds / _TICK)):
            end = (tick + 1) * _TICK
            for stream in STREAMS:
                first, stop = np.searchsorted(times[stream], (tick * _TICK * SECOND, end * SECOND))
                if stop > first:
                    yield end, stream, _chunk(rng, times[stream][first:stop], keys, lines, number)
                    number += 1


def _chunk(rng: np.random.Generator, times: np.ndarray, keys: int, lines: pa.Array, number: int) -> Chunk:
    count = len(times)
    columns = {
        KEY: pa.array(rng.integers(0, keys, count)),
        _LINE: lines.take(pa.array(rng.integers(0, len(lines), count))),
        TIME: pa.array(times).view(pa.timestamp("us")),
    }
    rows = pa.RecordBatch.from_pydict(columns)
    seconds = times / SECOND
    return Chunk(count, rows.nbytes, float(seconds.min()), float(seconds.sum()), number, data=rows)
