"""Disk: a slot that is over its share of the memory spills by itself (state-adapt section 4). Nothing moves."""

from __future__ import annotations

from typing import ClassVar

from millstream.pipeline.adaptation.decision import Decision
from millstream.pipeline.adaptation.loads import ClusterLoad


class Disk:
    name: ClassVar[str] = "disk"
    spills: ClassVar[bool] = True

    def decide(self, load: ClusterLoad, now: float) -> Decision:
        del load, now
        return Decision(reason="every slot decides for itself what it spills")
