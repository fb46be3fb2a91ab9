"""Which operator feeds which: a directed acyclic graph from streams to queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from millstream.errors import InternalError
from millstream.lab.papers.op_sched.operators.chunk import Chunk

Port = tuple[str, int]
"""An operator and one of its inputs."""


class Operator(Protocol):
    """One step of a query plan."""

    def process(self, port: int, chunk: Chunk, low: float) -> tuple[Chunk | None, float]:
        """Returns the output and the time it took. No row that arrived before `low` will come to the other ports."""
        ...


@dataclass(frozen=True, slots=True)
class Node:
    """An operator with a name and what feeds it: streams or other operators, one per port."""

    name: str
    operator: Operator
    inputs: tuple[str, ...]


class Graph:
    """Nodes in an order in which each comes after its inputs; `queries` names the node that gives each query's rows."""

    def __init__(self, nodes: Sequence[Node], queries: Mapping[str, str]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.queries = dict(queries)
        self.outputs: dict[str, list[str]] = {node.name: [] for node in nodes}
        for query, name in queries.items():
            self.outputs[name].append(query)
        self.consumers: dict[str, list[Port]] = {}
        seen: set[str] = set()
        for node in nodes:
            for port, source in enumerate(node.inputs):
                if source in self.nodes and source not in seen:
                    raise InternalError(f"{node.name} comes before its input {source}")
                self.consumers.setdefault(source, []).append((node.name, port))
            seen.add(node.name)
        self.streams = [source for source in self.consumers if source not in self.nodes]

    @property
    def ports(self) -> list[Port]:
        return [(node.name, port) for node in self.nodes.values() for port in range(len(node.inputs))]

    def paths(self, query: str) -> list[tuple[Port, ...]]:
        """All paths from a stream to the query, leaf first."""
        return [tuple(path) for path in self._up(self.queries[query])]

    def _up(self, name: str) -> Iterator[list[Port]]:
        for port, source in enumerate(self.nodes[name].inputs):
            if source in self.nodes:
                for path in self._up(source):
                    yield [*path, (name, port)]
            else:
                yield [(name, port)]
