"""One run of a strategy over the paper's streams, with every batch sampled."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from millstream.compile import compile_script
from millstream.engine.memory import MemoryLimit
from millstream.lab.papers.state_adapt.machines import UNLIMITED, CleanUp, Machines, Sample
from millstream.lab.workloads.join_ratio import JoinRatio
from millstream.pipeline.adaptation import STRATEGIES
from millstream.pipeline.adaptation.decision import Thresholds

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All batches of a run, and its clean-up machine by machine."""

    streams: JoinRatio
    samples: Sequence[Sample]
    cleaned: Sequence[CleanUp]

    @property
    def minutes(self) -> list[float]:
        """The experiment's clock after each batch."""
        return [(number + 1) * self.streams.seconds / 60 for number in range(len(self.samples))]

    @cached_property
    def so_far(self) -> list[int]:
        """All results up to each batch."""
        found, total = [], 0
        for sample in self.samples:
            total += sample.results
            found.append(total)
        return found

    @property
    def running(self) -> int:
        """The results while it ran."""
        return self.so_far[-1]

    @property
    def owed(self) -> int:
        """The results of the clean-up."""
        return sum(one.rows for one in self.cleaned)

    @property
    def clean_up_seconds(self) -> float:
        """Machines clean up side by side: the time of the one that takes longest."""
        return max(one.seconds for one in self.cleaned)

    @property
    def pushes(self) -> int:
        """How often a machine has sent state to disk."""
        return sum(bytes_ > 0 for sample in self.samples for bytes_ in sample.spilled)

    @property
    def moves(self) -> int:
        """How often groups have moved."""
        return sum(sample.moved > 0 for sample in self.samples)

    @property
    def cpu(self) -> float:
        return sum(sample.cpu for sample in self.samples)

    def memory(self, machine: int = 0) -> list[float]:
        """The megabytes of state in the memory of a machine, after each batch."""
        return [sample.memory[machine] / 1e6 for sample in self.samples]

    @property
    def balance(self) -> list[float]:
        """After each batch, the least memory of a machine as a share of the most."""
        return [min(sample.memory) / max(max(sample.memory), 1) for sample in self.samples]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A run: `table` says which machine has which partition at first; the other groups have no rows."""

    streams: JoinRatio
    strategy: str = "disk"
    limit: MemoryLimit = UNLIMITED
    table: tuple[int, ...] = ()
    thresholds: Thresholds = field(default_factory=lambda: Thresholds(least=1))
    estimated: int = 0

    def run(self, label: str = "", tell: Tell = lambda _: None) -> Outcome:
        streams = self.streams
        plan = compile_script(streams.script())
        table = [0] * streams.groups if not self.table else [*self.table, *[0] * (streams.groups - len(self.table))]
        with tempfile.TemporaryDirectory(prefix="millstream-") as place:
            machines = Machines(
                Path(place),
                plan,
                table=table,
                strategy=STRATEGIES[self.strategy](self.thresholds),
                limit=self.limit,
                estimated=self.estimated,
                coding=streams.coding,
            )
            samples = []
            for number, rows in enumerate(streams.rows(), start=1):
                tell(f"{label}: batch {number} of {streams.batches}")
                samples.append(machines.run(rows, number * streams.seconds))
            tell(f"{label}: clean-up")
            return Outcome(streams=streams, samples=samples, cleaned=machines.clean_up())


def skewed(shares: Sequence[float], partitions: int) -> tuple[int, ...]:
    """A table that gives each machine its share of the partitions, in order."""
    found: list[int] = []
    total, reached = sum(shares), 0.0
    for machine, share in enumerate(shares):
        reached += share
        found += [machine] * (round(partitions * reached / total) - len(found))
    return tuple(found)
