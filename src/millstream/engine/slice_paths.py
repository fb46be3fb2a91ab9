"""The slices of a chain as paths of operators, with measured costs.

The path of a probing segment is its slices from the nearest to the farthest. A slice's cost is the time it has taken
per probing row; a slice that has not run yet is assumed to cost as much per microsecond of its width as the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.engine.path import Path, Stage
from millstream.engine.statistics import ChainStatistics
from millstream.model.interval import Interval

_DRIFT = 1.5
_UNTRIED = 1e-3
"""Nanoseconds per probing row and microsecond of width, before anything is measured."""
_Shape = tuple[int, tuple[Interval, ...]]


def ages(interval: Interval) -> tuple[int, int]:
    """The smallest age in an interval of time differences, and the age at which it ends."""
    return max(interval.lo, 1 - interval.hi, 0), max(interval.hi, 1 - interval.lo)


class SlicePaths:
    """Paths are cached until a cost has drifted by half; `drifts` counts how often the cache was cleared.

    `chain` tells the slices of one chain from those of another.
    """

    def __init__(self, statistics: ChainStatistics, chain: str) -> None:
        self._statistics, self._chain = statistics, chain
        self._paths: dict[_Shape, Path] = {}
        self._last: dict[int, tuple[tuple[Interval, ...], Path]] = {}
        self._used: dict[Interval, float] = {}
        self.drifts = 0

    def plans(self) -> Mapping[str, Sequence[Path]]:
        """The paths for a policy to learn; every position and reach is a query plan of its own."""
        return {f"{self._chain} {at} {number}": [path] for number, ((at, _), path) in enumerate(self._paths.items())}

    def refresh(self) -> None:
        """Called once a batch: clears the cached paths when costs have drifted."""
        for interval, used in self._used.items():
            cost = self._cost(interval)
            if not used / _DRIFT <= cost <= used * _DRIFT:
                self._paths, self._last, self._used = {}, {}, {}
                self.drifts += 1
                return

    def path(self, at: int, intervals: tuple[Interval, ...], row_bytes: float) -> Path:
        last = self._last.get(at)
        if last is not None and last[0] == intervals:  # mostly the identical intervals, for which no hash is computed
            return last[1]
        known = self._paths.get((at, intervals))
        if known is None:
            stages = [self._stage(at, interval, row_bytes) for interval in intervals]
            known = self._paths[at, intervals] = Path(stages)
        self._last[at] = (intervals, known)
        return known

    def _stage(self, at: int, interval: Interval, size: float) -> Stage:
        cost = self._used[interval] = self._cost(interval)
        return Stage(f"{self._chain} {at} {interval}", cost, 1.0, size, size, *ages(interval))

    def _cost(self, interval: Interval) -> float:
        measured = self._statistics.slices.get(interval)
        if measured is not None and measured.probes:
            return measured.nanoseconds_per_probe
        near, far = ages(interval)
        return _UNTRIED * (far - near)
