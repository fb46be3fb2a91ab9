"""What a strategy decides between two batches, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from millstream.engine.groups import Groups
from millstream.pipeline.adaptation.loads import ClusterLoad


@dataclass(frozen=True, slots=True)
class Move:
    """A slot gives partition groups to another one."""

    groups: Groups
    sender: int
    receiver: int


@dataclass(frozen=True, slots=True)
class Spill:
    """A slot sends about so many bytes to disk, its least productive groups first."""

    slot: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`reason` says in plain words why this is done, or why nothing is."""

    reason: str
    moves: tuple[Move, ...] = ()
    spills: tuple[Spill, ...] = ()

    @property
    def is_to_act(self) -> bool:
        return bool(self.moves or self.spills)


class Strategy(Protocol):
    """Decides from the loads after a batch what the next one does. It remembers when it last acted, so a pipeline has
    one for its life.
    """

    name: ClassVar[str]
    spills: ClassVar[bool]
    """Whether a slot that is over its share of the memory spills without being told."""

    def decide(self, load: ClusterLoad, now: float) -> Decision:
        """`now` is in seconds, of a clock that does not go back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The numbers that strategies go by, with the values of state-adapt where it gives one.

    Groups are moved once the executor with the least memory in use has less than `difference` of what the one with the
    most has, at least `between` seconds after the last time and at least `least` bytes at once. Groups of the executor
    with the fewest results are spilled once the one with the most has more than `rates` times as many, at most the
    `share` of its memory at once.
    """

    difference: float = 0.8
    between: float = 45.0
    least: int = 1_000_000
    rates: float = 2.0
    share: float = 0.3


DEFAULTS = Thresholds()
