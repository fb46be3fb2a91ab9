"""The ready queue: runnable work in the order of a policy.

There is one heap per policy that has been in force. Entries of work that has changed or is done are skipped when they
reach the top, so a choice takes logarithmic time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from millstream.engine.path import Path
from millstream.engine.policy import Key, Load, Policy, Runnable

Name = TypeVar("Name")
_SPARE = 64
Plans = Callable[[], Mapping[str, Sequence[Path]]]


class _Order(Generic[Name]):
    """A heap of runnables by the keys of one policy."""

    def __init__(self, policy: Policy, works: Mapping[Name, Runnable]) -> None:
        self._policy = policy
        self.version = policy.version
        self._count = len(works)
        self.heap = [(policy.key(work), n, name, work) for n, (name, work) in enumerate(works.items())]
        heapq.heapify(self.heap)

    def push(self, name: Name, work: Runnable) -> None:
        self._count += 1
        entry, heap = (self._policy.key(work), self._count, name, work), self.heap
        if not heap or heap[0][2] != name:
            heapq.heappush(heap, entry)
        elif len(heap) > 2 and entry < heap[1] and entry < heap[2]:
            heap[0] = entry  # the work chosen last continues
        else:
            heapq.heapreplace(heap, entry)

    def first(self, works: Mapping[Name, Runnable]) -> tuple[Key, Name] | None:
        heap = self.heap
        while heap:
            key, _, name, work = heap[0]
            if works.get(name) is work:
                return key, name
            heapq.heappop(heap)
        return None


class ReadyQueue(Generic[Name]):
    """Runnables by name: `put` one again when it has changed, `advance` it by a stage, `drop` it when it is done."""

    def __init__(self) -> None:
        self._works: dict[Name, Runnable] = {}
        self._orders: dict[Policy, _Order[Name]] = {}
        self._taught: Policy | None = None

    def __getitem__(self, name: Name) -> Runnable:
        return self._works[name]

    def put(self, name: Name, work: Runnable) -> None:
        self._works[name] = work
        for order in self._orders.values():
            order.push(name, work)

    def advance(self, name: Name) -> None:
        work = self._works[name]
        self.put(name, Runnable(work.path, work.at + 1, work.queue, work.arrived, work.number))

    def drop(self, name: Name) -> None:
        self._works.pop(name, None)

    def clear(self) -> None:
        """Drops all work and all heaps; the policy will learn the plans again."""
        self._works.clear()
        self._orders.clear()
        self._taught = None

    def choose(self, policy: Policy, load: Load, plans: Plans) -> Name | None:
        """The name of the first runnable; it stays in the queue until it is dropped or put again."""
        if self._taught is not policy:
            self._taught = policy
            policy.learn(plans())
            self._orders.clear()
        in_force = policy.in_force(load)
        order = self._orders.get(in_force)
        if order is None or order.version != in_force.version or len(order.heap) > 2 * len(self._works) + _SPARE:
            order = _Order(in_force, self._works)
            self._orders[in_force] = order
        found = order.first(self._works)
        if found is None:
            return None
        in_force.chosen(found[0])
        return found[1]
