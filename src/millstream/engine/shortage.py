"""Why a shard cannot keep to its memory: rows that spilling does not reach, or one key that fills a group."""

from __future__ import annotations

import numpy as np

from millstream.engine.memory import Memory, MemoryLimit
from millstream.engine.pool_run import PoolRun
from millstream.engine.segment import Segment
from millstream.model.sizes import text as size

_MOST = 0.5
"""From this share of a group's rows on, a key is named."""


def shortage(memory: Memory, limit: MemoryLimit, held: int) -> str:
    """What is in the way of the limit, for people to read; empty where nothing is. `held` are the bytes of rows that
    are held back for order.
    """
    return "; ".join(filter(None, (_over(memory, limit, held), _large_group(memory, limit))))


def _over(memory: Memory, limit: MemoryLimit, held: int) -> str:
    taken = memory.nbytes + held
    if taken <= limit.nbytes:
        return ""
    everywhere = sum(pool.nbytes for pool in memory.pools.values() if not pool.groups.is_grouped)
    reasons = [f"{size(everywhere)} of rows that every slot has"] if everywhere else []
    reasons += [f"{size(held)} of rows held back for order"] if held else []
    return f"state takes {size(taken)} of {size(limit.nbytes)}, with {' and '.join(reasons) or 'nothing left to spill'}"


def _large_group(memory: Memory, limit: MemoryLimit) -> str:
    """A group that does not fit: it is on disk whenever it is not being joined."""
    sizes = memory.group_bytes() + memory.group_bytes_on_disk()
    group = int(sizes.argmax())
    if sizes[group] <= limit.state:
        return ""
    found = f"partition group {group} alone takes {size(sizes[group])}, more than the {size(limit.state)} there are"
    pools = [pool for pool in memory.pools.values() if pool.groups.is_grouped]
    key = _hot_key(max(pools, key=lambda pool: pool.groups.rows_of(group)), group)
    return f"{found}{key}"


def _hot_key(pool: PoolRun, group: int) -> str:
    """The key of most of a group's rows, as the largest segment of it says."""
    some = max(pool.pieces, key=lambda one: pool.groups.rows_in(one, group), default=None)
    if some is None:
        return ""
    segment: Segment = some.open()
    rows = np.flatnonzero(pool.groups.groups_of(segment) == group)
    if not len(rows):
        return ""
    _, first, counts = np.unique(segment.row_keys().take(rows), return_index=True, return_counts=True)
    most = int(counts.argmax())
    if counts[most] < _MOST * len(rows):
        return ""
    values = ", ".join(map(str, pool.key_of(segment, int(rows[first[most]]))))
    return f"; {100 * counts[most] // len(rows)} % of its rows of {pool.pool.title} have the key {values}"
