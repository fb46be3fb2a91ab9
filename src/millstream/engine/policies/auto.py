"""Auto: response time first while memory allows (Greedy), memory first above the threshold (Chain)."""

from __future__ import annotations

from millstream.engine.policies.chain import Chain
from millstream.engine.policies.greedy import Greedy
from millstream.engine.policies.threshold import Threshold


class Auto(Threshold):
    name = "auto"

    def __init__(self, limit: float) -> None:
        super().__init__(limit, normal=Greedy(), saving=Chain())
