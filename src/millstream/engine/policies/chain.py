"""Chain (Babcock and others, in op-sched 2.2): the steepest segment of the lower envelope, for the least memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.engine.path import Path, Stage
from millstream.engine.policy import Policy, Runnable


class Chain(Policy):
    """A stage on several paths has the steepest slope of their envelope segments."""

    name = "chain"

    def __init__(self) -> None:
        self._slopes: dict[Path, tuple[float, ...]] = {}

    def learn(self, plans: Mapping[str, Sequence[Path]]) -> None:
        every = [path for paths in plans.values() for path in paths]
        steepest: dict[Stage, float] = {}
        for path in every:
            for stage, slope in zip(path.stages, path.slopes, strict=True):
                steepest[stage] = max(slope, steepest.get(stage, slope))
        self._slopes = {path: tuple(steepest[stage] for stage in path.stages) for path in every}
        self.version += 1

    def priority(self, work: Runnable) -> float:
        return self._slopes.get(work.path, work.path.slopes)[work.at]
