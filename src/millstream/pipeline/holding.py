"""What pools hold after a batch, how much they may, and from which time on: for `memory_short = 'shrink'`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from millstream.engine.pool_manifest import SegmentEntry
from millstream.model.duration import MILLISECOND, SECOND
from millstream.plan.meter import PoolHeld
from millstream.plan.nodes import Plan, PoolName

if TYPE_CHECKING:
    from millstream.pipeline.slot import SlotReport

_STATE = 2 / 3
"""The part of the memory that is for state; the rest is for the work on it."""


def allowed(memory: int, reports: Sequence[SlotReport]) -> float:
    """How many bytes all pools may hold so that the executor that holds most of them keeps to its memory."""
    held: dict[str, int] = {}
    for report in reports:
        held[report.executor] = held.get(report.executor, 0) + sum(one.nbytes for one in report.state.segments)
    fullest = max(held.values())
    return _STATE * memory * (sum(held.values()) / fullest if fullest else len(held))


def pools_held(plan: Plan, reports: Sequence[SlotReport], greatest: Mapping[str, int]) -> dict[PoolName, PoolHeld]:
    """What each pool holds in all slots together."""
    found = {}
    for pool in plan.pools:
        newest = greatest.get(pool.stream.name)
        states = [report.state.pools[pool.name] for report in reports if pool.name in report.state.pools]
        nbytes = sum(one.nbytes for state in states for one in state.segments)
        if newest is None or not nbytes:
            continue
        sizes: dict[int, float] = {}
        reached = 0.0
        for state in states:
            for reach in {one.reach for one in state.segments}:
                alike = [one for one in state.segments if one.reach == reach]
                size = sum(one.nbytes for one in alike) / _seconds(newest - _first(alike, newest))
                sizes[reach] = sizes.get(reach, 0.0) + size
            own = sum(one.nbytes for one in state.segments)
            reached += own * _seconds(newest - _first(state.segments, newest))
        found[pool.name] = PoolHeld(
            nbytes=nbytes,
            seconds=reached / nbytes,
            behind=_seconds(newest - max(state.watermark for state in states)),
            parts=tuple((max(reach, 0) / SECOND, size) for reach, size in sorted(sizes.items())),
        )
    return found


def _seconds(micros: int) -> float:
    return max(micros, MILLISECOND) / SECOND


def _first(segments: Iterable[SegmentEntry], otherwise: int) -> int:
    return min((one.first for one in segments), default=otherwise)


class Lines:
    """The times before which rows of pools that were cut short are gone. They never go back."""

    def __init__(self, saved: Mapping[PoolName, int]) -> None:
        self.lines = dict(saved)

    def cut(self, reaches: Mapping[PoolName, int], reports: Iterable[SlotReport]) -> None:
        """A batch has kept pools no farther than this."""
        for report in reports:
            for name, reach in reaches.items():
                if name in report.state.pools:
                    line = report.state.pools[name].watermark - reach
                    self.lines[name] = max(self.lines.get(name, line), line)

    def floors(self, plan: Plan, reports: Sequence[SlotReport]) -> dict[str, tuple[float | None, ...]]:
        """For each query, at each position, the time from which on rows are there that would all be there otherwise;
        None where none were cut. Segments are cut as a whole, so rows may be there from before the line: the mean of
        all slots.
        """
        found = {}
        for chain in plan.chains:
            for member in chain.members:
                floors: list[float | None] = []
                for position, name in enumerate(chain.pools):
                    line = self.lines.get(name)
                    if line is None:
                        floors.append(None)
                        continue
                    firsts = []
                    for report in reports:
                        there = report.state.pools[name].segments if name in report.state.pools else ()
                        own = [one for one in there if one.reach >= member.reach(position)]
                        firsts.append(min(_first(own, line), line))
                    floors.append(sum(firsts) / len(firsts))
                found[member.name] = tuple(floors)
        return found
