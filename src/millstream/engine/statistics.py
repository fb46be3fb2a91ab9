"""The measurements of a chain: rows, pairs and time, by slice, group and query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from millstream.engine.arrow import Ints
from millstream.engine.keys import GROUP_BITS
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
    """Counts since the chain began. Groups count arriving rows."""

    rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    slices: dict[Interval, Measured] = field(default_factory=lambda: defaultdict(Measured))
    queries: dict[str, Measured] = field(default_factory=lambda: defaultdict(Measured))
    group_rows: Ints = field(default_factory=lambda: np.zeros(1 << GROUP_BITS, dtype=np.int64))

    def arrived(self, side: str, segments: list[Segment]) -> None:
        for segment in segments:
            self.rows[side] += len(segment)
            self.group_rows += np.diff(segment.group_ranges())

    def done(self, interval: Interval, probe: Segment, state: Segment, pairs: int, nanoseconds: int) -> None:
        measured = self.slices[interval]
        measured.units += 1
        measured.probes += len(probe)
        measured.compared += len(probe) * len(state)
        measured.pairs += pairs
        measured.nanoseconds += nanoseconds
        measured.last_batch = max(measured.last_batch, probe.batch)

    def served(self, queries: Iterable[str], rows: int, batch: int) -> None:
        """Counts the rows given to queries in a batch; batches come in order."""
        for query in queries:
            measured = self.queries[query]
            measured.pairs += rows
            measured.last_batch = batch
