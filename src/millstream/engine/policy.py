"""Runnable work as a policy sees it, and what a policy is.

Work waits at a stage of a path: an operator of a query plan, or a slice of a chain. The same policies choose among the
units of the engine, among operators with queues, and in simulated time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from millstream.engine.path import Path, Stage

Key = tuple[float, ...]
"""The least key comes first."""


@dataclass(slots=True, eq=False)
class Runnable:
    """Rows that wait at the stage `at` of a path. `arrived` and `number` are when the oldest of them came in."""

    path: Path
    at: int
    queue: float
    arrived: float
    number: int

    @property
    def stage(self) -> Stage:
        return self.path.stages[self.at]


class Load(Protocol):
    """What a policy may ask of the system it works for."""

    @property
    def now(self) -> float:
        """The current time, on the clock by which work arrives."""
        ...

    def memory(self) -> float:
        """The memory of the waiting rows, in the unit of the stages' sizes."""
        ...


class Policy:
    """Who is served first.

    The order (`key`) follows from a priority (`priority`) and from which work continues something begun (`begun`). A
    key must not change while its work waits, unless `version` does.
    """

    name: str
    releases_early = True
    """Whether strict order releases rows of a tuple before it has scanned the whole window, once all earlier rows are
    out.
    """
    version = 0

    def in_force(self, load: Load) -> Policy:
        """The policy that makes the next choice; one that switches between others returns one of them."""
        del load
        return self

    def learn(self, plans: Mapping[str, Sequence[Path]]) -> None:
        """Gets the measured paths of every query. Called at the start and whenever they have changed."""

    def priority(self, work: Runnable) -> float:
        """The priority of this work; the greatest comes first."""
        del work
        return 1.0

    def begun(self, work: Runnable) -> bool:
        """Whether the work continues something that is done without a pause."""
        del work
        return False

    def key(self, work: Runnable) -> Key:
        if self.begun(work):
            return (0, -work.at, work.arrived, work.number)
        return (1, -self.priority(work), work.arrived, work.number)

    def chosen(self, key: Key) -> None:
        """Called when work has been chosen, with its key."""
