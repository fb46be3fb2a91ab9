"""A running graph: queues, a policy that chooses among them, and measurements."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from millstream.engine.path import Path, Stage
from millstream.engine.policy import Policy, Runnable
from millstream.engine.ready_queue import ReadyQueue
from millstream.lab.papers.op_sched.operators import measured
from millstream.lab.papers.op_sched.operators.chunk import Chunk
from millstream.lab.papers.op_sched.operators.graph import Graph, Port


@dataclass(frozen=True, slots=True)
class Step:
    """An operator has served a queue, from one time to another."""

    port: Port
    taken: Chunk
    given: Chunk | None
    began: float
    ended: float


Watch = Callable[[Step], None]
_LOOK_EVERY = 256
_LOOK_FOR_LOW = 8


class GraphRun:
    """`feed` chunks, then `step` while there is work; an operator takes a chunk at a time.

    `known` gives the figures of ports before anything is measured; with `learns` off, policies never get others. The
    clock counts a second of an operator's time `stretch` times.
    """

    def __init__(
        self,
        graph: Graph,
        policy: Policy,
        *,
        known: Mapping[Port, measured.Expected] | None = None,
        learns: bool = True,
        stretch: float = 1.0,
        watch: Watch | None = None,
        deliver: Callable[[str, Chunk], None] | None = None,
    ) -> None:
        self.graph, self.policy = graph, policy
        self.now = 0.0
        self._learns, self._stretch = learns, stretch
        self._watch, self._deliver = watch, deliver
        self._queues: dict[Port, deque[Chunk]] = {port: deque() for port in graph.ports}
        self._entered: dict[Port, deque[float]] = {port: deque() for port in graph.ports}
        self._rows = dict.fromkeys(graph.ports, 0.0)
        self._low: dict[str, float] = dict.fromkeys(graph.streams, float("-inf"))
        self._memory = 0.0
        self._steps = 0
        self.most_memory = 0.0
        self.ports = {port: measured.Port() for port in graph.ports}
        self.queries: dict[str, measured.Rows] = defaultdict(measured.Rows)
        self.paths: dict[tuple[str, str], measured.Rows] = defaultdict(measured.Rows)
        self._expected = {port: (known or {}).get(port, measured.Expected()) for port in graph.ports}
        self._ready: ReadyQueue[Port] = ReadyQueue()
        self._describe()

    def memory(self) -> float:
        """Bytes in all queues."""
        return self._memory

    def feed(self, stream: str, chunk: Chunk) -> None:
        """Feeds rows of a stream to each operator that reads it."""
        self._low[stream] = chunk.arrived
        for name, port in self.graph.consumers[stream]:
            self._enqueue((name, port), Chunk(*_but_leaf(chunk), name, chunk.data))

    def step(self) -> bool:
        """Serves the queue the policy chooses. False when all are empty."""
        self._steps += 1
        if self._learns and self._steps % _LOOK_EVERY == 0:
            self._look()
        port = self._ready.choose(self.policy, self, lambda: self._plans)
        if port is None:
            return False
        chunk = self._dequeue(port)
        node = self.graph.nodes[port[0]]
        given, took = node.operator.process(port[1], chunk, self._low_of_others(port))
        began, self.now = self.now, self.now + took * self._stretch
        self._memory -= chunk.size
        counts = self.ports[port]
        counts.done(chunk.rows, chunk.size, given.rows if given else 0.0, given.size if given else 0.0, took)
        if given is not None and given.rows:
            self._pass_on(port, given)
        if self._watch is not None:
            self._watch(Step(port, chunk, given, began, self.now))
        return True

    def _pass_on(self, port: Port, given: Chunk) -> None:
        for consumer in self.graph.consumers.get(port[0], ()):
            self._enqueue(consumer, given)
        for query in self.graph.outputs[port[0]]:
            latency, greatest = given.latency(self.now), self.now - given.arrived
            self.queries[query].add(given.rows, latency, greatest)
            self.paths[given.leaf, query].add(given.rows, latency, greatest)
            if self._deliver is not None:
                self._deliver(query, given)

    def _enqueue(self, port: Port, chunk: Chunk) -> None:
        queue, counts = self._queues[port], self.ports[port]
        queue.append(chunk)
        self._entered[port].append(self.now)
        self._memory += chunk.size
        self._rows[port] += chunk.rows
        self.most_memory = max(self.most_memory, self._memory)
        counts.queue_memory += chunk.size
        counts.most_queue_memory = max(counts.most_queue_memory, counts.queue_memory)
        if len(queue) == 1:
            self._offer(port)

    def _dequeue(self, port: Port) -> Chunk:
        """The head of the queue."""
        chunk, counts = self._queues[port].popleft(), self.ports[port]
        counts.waited += chunk.rows * (self.now - self._entered[port].popleft())
        counts.queue_memory -= chunk.size
        self._rows[port] -= chunk.rows
        self._offer(port)
        return chunk

    def _offer(self, port: Port) -> None:
        queue = self._queues[port]
        if not queue:
            self._ready.drop(port)
            return
        path, at = self._places[port]
        self._ready.put(port, Runnable(path, at, self._rows[port], queue[0].arrived, queue[0].number))

    def _low_of_others(self, port: Port) -> float:
        """No row older than this can still come to the operator's other ports; recomputed now and then."""
        name, own = port
        if self._steps % _LOOK_FOR_LOW and len(self.graph.nodes[name].inputs) > 1:
            return float("-inf")
        others = [other for other in range(len(self.graph.nodes[name].inputs)) if other != own]
        return min((self._low_at((name, other)) for other in others), default=float("inf"))

    def _low_at(self, port: Port) -> float:
        source = self.graph.nodes[port[0]].inputs[port[1]]
        waiting = min((chunk.arrived for chunk in self._queues[port]), default=float("inf"))
        if source in self._low:
            return min(waiting, self._low[source])
        inputs = range(len(self.graph.nodes[source].inputs))
        return min(waiting, *(self._low_at((source, other)) for other in inputs))

    def _look(self) -> None:
        """Gives the policy new figures when the current ones have drifted."""
        now = {port: measured.expected(counts, self._expected[port]) for port, counts in self.ports.items()}
        if any(self._expected[port].drifted(figures) for port, figures in now.items()):
            self._expected = now
            self._describe()

    def _describe(self) -> None:
        """Rebuilds paths with current figures, and finds for each queue the path with the greatest capacity."""
        self._plans: dict[str, Sequence[Path]] = {}
        self._places: dict[Port, tuple[Path, int]] = {}
        for query in self.graph.queries:
            found = []
            for ports in self.graph.paths(query):
                path = Path([self._stage(port) for port in ports])
                found.append(path)
                for at, port in enumerate(ports):
                    if port not in self._places or self._places[port][0].capacity < path.capacity:
                        self._places[port] = (path, at)
            self._plans[query] = found
        self._ready.clear()
        for port in self.graph.ports:
            self._offer(port)

    def _stage(self, port: Port) -> Stage:
        figures = self._expected[port]
        return Stage(port[0], figures.cost, figures.selectivity, figures.size_in, figures.size_out)


def _but_leaf(chunk: Chunk) -> tuple[float, float, float, float, int]:
    return chunk.rows, chunk.size, chunk.arrived, chunk.arrivals, chunk.number
