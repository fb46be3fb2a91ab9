"""What each partition group has given: results, and when its last row came. It decides which groups stay in memory."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from millstream.engine.arrow import Ints
from millstream.engine.groups import Grouping, Groups, group_set, members

_FADING = 0.9
"""What a batch's results count in the next one: groups change, and what was long ago says little."""


class GroupStatistics:
    """The results of a group are a fading sum over the batches."""

    def __init__(self, grouping: Grouping) -> None:
        self.results: npt.NDArray[np.float64] = np.zeros(grouping.count)
        self.last_in: npt.NDArray[np.float64] = np.full(grouping.count, time.time())

    def fade(self) -> None:
        self.results *= _FADING

    def gave(self, rows_of_groups: Ints, queries: int) -> None:
        self.results += rows_of_groups * queries

    def arrived(self, flags: npt.NDArray[np.bool_]) -> None:
        self.last_in[flags] = time.time()


def to_spill(
    sizes: Ints,
    statistics: GroupStatistics,
    wanted: float,
    *,
    inactive: float,
    together: Iterable[Groups] = (),
    productive_first: bool = False,
) -> Groups:
    """The groups to spill so that about so many bytes leave memory: first those without rows for `inactive` seconds,
    then those with the fewest results per byte. Groups that go `together` go or stay as one.
    """
    count = len(sizes)
    owner = np.arange(count)
    for some in together:
        owner[members(some)] = members(some)[0]
    bytes_of, results_of = (np.bincount(owner, weights, count) for weights in (sizes, statistics.results))
    last_in = np.zeros(count)
    np.maximum.at(last_in, owner, statistics.last_in)
    there = np.flatnonzero(bytes_of)
    per_byte = results_of[there] / bytes_of[there]
    active = time.time() - last_in[there] < inactive
    order = there[np.lexsort((-per_byte if productive_first else per_byte, active))]
    enough = int(np.searchsorted(np.cumsum(bytes_of[order]), wanted)) + 1
    return group_set(np.flatnonzero(np.isin(owner, order[:enough])).tolist())


def by_productivity(groups: Ints, sizes: Ints, statistics: GroupStatistics) -> Ints:
    """Groups in the order in which they come back: most results per byte first."""
    per_byte = statistics.results[groups] / np.maximum(sizes[groups], 1)
    return groups[np.argsort(-per_byte, kind="stable")]
