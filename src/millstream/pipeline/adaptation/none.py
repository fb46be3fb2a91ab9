"""No adaptation: all state stays where it is, in memory."""

from __future__ import annotations

from typing import ClassVar

from millstream.pipeline.adaptation.decision import Decision
from millstream.pipeline.adaptation.loads import ClusterLoad


class NoAdaptation:
    name: ClassVar[str] = "none"
    spills: ClassVar[bool] = False

    def decide(self, load: ClusterLoad, now: float) -> Decision:
        del load, now
        return Decision(reason="adaptation is off")
