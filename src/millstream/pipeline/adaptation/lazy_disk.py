"""Lazy disk: groups move while another executor has room, and slots spill only where none has (state-adapt section 6).

The two never happen in one executor at a time: what has just spilled gives no groups away.
"""

from __future__ import annotations

from typing import ClassVar

from millstream.model.sizes import text as size
from millstream.pipeline.adaptation.decision import DEFAULTS, Decision, Thresholds
from millstream.pipeline.adaptation.loads import ClusterLoad
from millstream.pipeline.adaptation.move import Moving, extremes


class LazyDisk:
    name: ClassVar[str] = "lazy_disk"
    spills: ClassVar[bool] = True

    def __init__(self, thresholds: Thresholds = DEFAULTS) -> None:
        self._moving = Moving(thresholds)

    def decide(self, load: ClusterLoad, now: float) -> Decision:
        most, _ = extremes(load)
        if most.just_spilled and not self.is_balanced(load):
            spilled = size(most.just_spilled)
            return Decision(reason=f"{most.name} has the most memory in use, but has just spilled {spilled}")
        return self._moving.decide(load, now)

    def is_balanced(self, load: ClusterLoad) -> bool:
        return self._moving.is_balanced(load)
