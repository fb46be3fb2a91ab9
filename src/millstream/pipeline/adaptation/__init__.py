"""Where state is when memory is short: in memory, on disk, or in another executor.

A strategy decides on the driver between batches, from the loads that slots report. One small file per strategy; none of
them knows Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from millstream.pipeline.adaptation.active_disk import ActiveDisk
from millstream.pipeline.adaptation.decision import Strategy, Thresholds
from millstream.pipeline.adaptation.disk import Disk
from millstream.pipeline.adaptation.lazy_disk import LazyDisk
from millstream.pipeline.adaptation.move import Moving
from millstream.pipeline.adaptation.none import NoAdaptation

STRATEGIES: Mapping[str, Callable[[Thresholds], Strategy]] = {
    "none": lambda _: NoAdaptation(),
    "disk": lambda _: Disk(),
    "move": Moving,
    "lazy_disk": LazyDisk,
    "active_disk": ActiveDisk,
}
"""Strategies by name."""
