"""The measurements of a chain: rows, pairs and time, by slice and query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from millstream.engine.gauges import PairCounts, StepTimes
from millstream.engine.segment import Segment
from millstream.model.interval import Interval


@dataclass(slots=True)
class Measured:
    """Work done in one slice, or by one query."""

    units: int = 0
    probes: int = 0
    compared: int = 0
    pairs: int = 0
    nanoseconds: int = 0
    last_batch: int = 0

    @property
    def nanoseconds_per_probe(self) -> float:
        return self.nanoseconds / self.probes if self.probes else 0.0


@dataclass(slots=True)
class ChainStatistics:
    """Counts since the chain began; `times` and `met` since they were last taken out."""

    slices: dict[Interval, Measured] = field(default_factory=lambda: defaultdict(Measured))
    queries: dict[str, Measured] = field(default_factory=lambda: defaultdict(Measured))
    times: StepTimes = field(default_factory=StepTimes)
    met: PairCounts = field(default_factory=PairCounts)

    def done(self, interval: Interval, probe: Segment, state: int, pairs: int, nanoseconds: int) -> None:
        """Counts a unit that looked for matches among so many rows of state."""
        measured = self.slices[interval]
        measured.units += 1
        measured.probes += len(probe)
        measured.compared += len(probe) * state
        measured.pairs += pairs
        measured.nanoseconds += nanoseconds
        measured.last_batch = max(measured.last_batch, probe.batch)

    def served(self, queries: Iterable[str], rows: int, batch: int) -> None:
        """Counts the rows given to queries in a batch; batches come in order."""
        for query in queries:
            measured = self.queries[query]
            measured.pairs += rows
            measured.last_batch = batch
