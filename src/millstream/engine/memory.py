"""A shard's memory: partition groups that go to disk when it is short, and come back.

Everything is made of one step: the segments of all pools, and the deferred units that name them, are divided into those
of some groups and the others. What is divided can be spilled, cleaned up, or handed to another slot.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from millstream.engine.arrow import Ints
from millstream.engine.chain_run import ChainRun
from millstream.engine.groups import Grouping, Groups, group_set, members
from millstream.engine.joiner import Joined
from millstream.engine.on_disk import Piece
from millstream.engine.pool_groups import Parts
from millstream.engine.pool_run import PoolRun
from millstream.engine.productivity import GroupStatistics, by_productivity, to_spill
from millstream.engine.segment import Segment
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.spilled import Spilled
from millstream.model.settings import Settings
from millstream.plan.nodes import PoolName

_LEAST = 4 << 20
"""How many bytes are merged or cleaned up at a time however short memory is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """How many bytes a shard may hold in memory, and what it does about it.

    `nbytes` are for its state and for the work on it: merging, spilling, clean-up. When it holds more than its
    `state` may take, it spills `share` of it, groups without rows for `inactive` seconds first. Groups come back while
    it holds less than `room` of that. At least `extra` bytes are spilled: the driver says so.
    """

    nbytes: int
    share: float = 0.3
    inactive: float = 60.0
    room: float = 0.6
    extra: int = 0
    productive_first: bool = False

    @property
    def state(self) -> int:
        """The bytes for state: two thirds."""
        return self.nbytes * 2 // 3

    @property
    def at_once(self) -> int:
        """How many bytes are merged or cleaned up at a time: work holds them several times."""
        return max(self.nbytes // 8, _LEAST)

    @classmethod
    def of(cls, settings: Settings, nbytes: int | None = None, extra: int = 0) -> MemoryLimit:
        """As settings say, for all their memory or for a part of it."""
        return cls(
            nbytes=settings.memory if nbytes is None else nbytes,
            share=settings.spill_share,
            inactive=settings.inactive / 1e6,
            room=settings.room,
            extra=extra,
        )


class Memory:
    """The groups of a shard. `pools` and `chains` are those of the plan in use."""

    def __init__(self, grouping: Grouping, *, strict: bool) -> None:
        self.grouping, self.strict = grouping, strict
        self.spilled = Spilled()
        self.statistics = GroupStatistics(grouping)
        self.pools: Mapping[PoolName, PoolRun] = {}
        self.chains: list[ChainRun] = []
        self.just_spilled = 0
        """The bytes that the last batch has spilled."""
        self._measures = False

    @property
    def keeps_apart(self) -> bool:
        """Whether rows of different batches stay apart: in strict order, and where rows came before a query did."""
        oldest = min((one.batch for pool in self.pools.values() for one in pool.pieces), default=0)
        return self.strict or any(first > oldest for chain in self.chains for first in chain.since().values())

    def arrived(self) -> None:
        """Notes the groups of the rows that have just arrived, where a limit or something spilled needs it."""
        if not self._measures and not self.spilled.by_marks:
            return
        for pool in self.pools.values():
            if pool.fresh:
                flags = pool.arrived_groups()
                self.statistics.arrived(flags)
                self.spilled.arrived(self.grouping.set_of(flags))

    def measure(self, limit: MemoryLimit | None) -> None:
        """Chains count what each group gives where there is a limit; it takes time, and nothing else needs it."""
        on = limit is not None
        if not on and not self._measures:
            return
        self._measures, self.just_spilled = on, 0
        self.statistics.fade()
        for chain in self.chains:
            chain.productivity = self.statistics if on else None
        for pool in self.pools.values():
            pool.merge_up_to(None if limit is None else limit.at_once)

    @property
    def nbytes(self) -> int:
        """The bytes of state in memory."""
        return sum(pool.nbytes for pool in self.pools.values())

    @property
    def nbytes_on_disk(self) -> int:
        """The bytes of state on disk only."""
        return sum(one.nbytes for pool in self.pools.values() for one in pool.on_disk)

    def group_bytes(self) -> Ints:
        """The bytes of each group in memory."""
        return sum(
            (pool.groups.nbytes() for pool in self.pools.values()), np.zeros(self.grouping.count, dtype=np.int64)
        )

    def group_bytes_on_disk(self) -> Ints:
        """The bytes of each group on disk only."""
        none = np.zeros(self.grouping.count, dtype=np.int64)
        return sum((pool.groups.nbytes_on_disk() for pool in self.pools.values()), none)

    def relieve(self, limit: MemoryLimit, batch: int, beside: int = 0) -> None:
        """Spills groups while the shard holds more than it may, with so many bytes `beside` its state. What a group
        takes is an estimate, so one turn may not be enough.
        """
        held = before = self.nbytes
        most = max(limit.state - beside, 0)
        wanted = float(limit.extra)
        if held > most:
            wanted = max(wanted, limit.share * held, held - most)
        while wanted > 0:
            groups = to_spill(
                self.group_bytes(),
                self.statistics,
                wanted,
                inactive=limit.inactive,
                # Groups that were spilled together stay together, so that they can be cleaned up together.
                together=self.spilled.by_marks.values(),
                productive_first=limit.productive_first,
            )
            if not groups:
                break
            self.spill(groups, batch)
            held = self.nbytes
            wanted = held - most
        self.just_spilled = before - held

    def _part(self, groups: Groups, *, on_disk: bool = True, spilling: bool = False) -> Parts:
        """Divides all pools, and the deferred units with them."""
        parts = self._parts(groups, on_disk=on_disk, spilling=spilling)
        for chain in self.chains:
            chain.ledger.add(chain.part(parts))
        return parts

    def _parts(self, groups: Groups, *, on_disk: bool = True, spilling: bool = False) -> Parts:
        """Divides all pools."""
        divided = [pool.part(groups, on_disk=on_disk, spilling=spilling) for pool in self.pools.values()]
        return {number: both for parts in divided for number, both in parts.items()}

    def spill(self, groups: Groups, batch: int) -> None:
        """Groups leave memory after a batch; their deferred units open them when it is their turn."""
        groups &= self.grouping.set_of(self.group_bytes() > 0) | self.spilled.groups
        if not groups:
            return
        # What is on disk already may stay in one piece, unless deferred units name it.
        self._part(groups, on_disk=bool(self.busy()), spilling=True)
        for pool in self.pools.values():
            if pool.groups.is_grouped:
                pool.spill(groups)
            else:
                pool.part_at(batch)
        self.spilled.add(groups, batch)
        self._name_on_disk()

    def _name_on_disk(self) -> None:
        """Deferred units name segments in memory; those that have just been spilled are on disk now."""
        there = {number: one for pool in self.pools.values() for number, one in pool.by_number().items()}
        parts = {number: (None, one) for number, one in there.items()}
        for chain in self.chains:
            chain.part(parts)

    def give_up(self, groups: Groups) -> ShardManifest:
        """What another slot takes over: groups with their segments, deferred units and what they owe. No row is
        copied.
        """
        parts = self._parts(groups)
        chains = {chain.chain.signature: chain.saved_with(chain.part(parts)) for chain in self.chains}
        pools = {name: pool.give_up(groups) for name, pool in self.pools.items()}
        spilled = self.spilled.give_up(groups)
        return ShardManifest(spilled=spilled.by_marks, owing=spilled.owing, pools=pools, chains=chains)

    def clean_up(self, groups: Groups, batch: int, *, keep: bool) -> Iterator[tuple[ChainRun, Joined]]:
        """Finds the results that groups owe. Then they stay in memory, or on disk."""
        for marks, some in list(self.spilled.alike(groups)):
            parts, opened = self._part(some), dict[int, Segment]()
            if some & self.spilled.owing:
                yield from self._owed(marks, {one.number for one, _ in parts.values() if one is not None}, opened)
            for pool in self.pools.values() if keep else ():
                if pool.groups.is_grouped:
                    pool.bring_back(some)
            self.spilled.settle(some, None if keep else batch)
            for pool in self.pools.values() if not keep else ():
                if pool.groups.is_grouped:
                    pool.spill(some)
                    pool.groups.merge_on_disk(some, opened, self.busy(), pool.watermark)
            self._name_on_disk()

    def busy(self) -> frozenset[int]:
        """The segments that deferred units name."""
        return frozenset().union(*(chain.ledger.segments() for chain in self.chains))

    def _owed(
        self, marks: tuple[int, ...], own: set[int], opened: dict[int, Segment]
    ) -> Iterator[tuple[ChainRun, Joined]]:
        pieces = {
            name: [one for one in pool.pieces if not pool.groups.is_grouped or one.number in own]
            for name, pool in self.pools.items()
        }
        if self.keeps_apart or any(chain.floors for chain in self.chains) or not all(self._grouped(pieces)):
            seams = {one.batch for some in pieces.values() for one in some} if self.keeps_apart else set[int]()
            yield from self._owed_among(pieces, marks, seams, opened)
            return
        # Neighbouring stretches between spills are joined, then merged, until one is left: units do not grow with the
        # square of the spills.
        stretches: list[Mapping[PoolName, Sequence[Piece]]] = [
            {name: [one for one in some if bisect_left(marks, one.batch) == place] for name, some in pieces.items()}
            for place in range(len(marks) + 1)
        ]
        while marks:
            longer = []
            for place in range(0, len(stretches) - 1, 2):
                left, right = stretches[place : place + 2]
                both = {name: [*left[name], *right[name]] for name in pieces}
                yield from self._owed_among(both, marks[place : place + 1], (), opened)
                if len(marks) > 1:
                    both = {name: self.pools[name].groups.merged(some, opened) for name, some in both.items()}
                longer.append(both)
            stretches = [*longer, *stretches[2 * len(longer) :]]
            marks = marks[1::2]

    def _grouped(self, pools: Iterable[PoolName]) -> Iterator[bool]:
        return (self.pools[name].groups.is_grouped for name in pools)

    def _owed_among(
        self,
        pieces: Mapping[PoolName, Sequence[Piece]],
        marks: tuple[int, ...],
        seams: Collection[int],
        opened: dict[int, Segment],
    ) -> Iterator[tuple[ChainRun, Joined]]:
        grouped = {name for name, is_grouped in zip(pieces, self._grouped(pieces), strict=True) if is_grouped}
        for chain in self.chains:
            for unit in chain.owed(pieces, grouped, marks, seams):
                for joined in chain.execute([unit], opened):
                    yield chain, joined

    def clean_up_within(
        self, limit: MemoryLimit | None, batch: int, seconds: float | None
    ) -> Iterator[tuple[ChainRun, Joined]]:
        """Cleans up the groups that owe results, the most productive first, a few at a time where memory is short,
        until none is left or the time is over.
        """
        began = time.perf_counter()
        while self.spilled.owing and (seconds is None or time.perf_counter() - began < seconds):
            sizes = self.group_bytes_on_disk() + self.group_bytes()
            order = by_productivity(np.array(members(self.spilled.owing)), sizes, self.statistics)
            if limit is None:
                yield from self.clean_up(group_set(order.tolist()), batch, keep=True)
                return
            # Those that were spilled together have the same files to open.
            order = order[self.grouping.flags(self.spilled.beside(int(order[0])))[order]]
            count = max(1, int(np.searchsorted(np.cumsum(sizes[order]), limit.at_once, side="right")))
            yield from self.clean_up(group_set(order[:count].tolist()), batch, keep=False)

    def bring_back(self, limit: MemoryLimit | None, batch: int, beside: int = 0) -> Iterator[tuple[ChainRun, Joined]]:
        """Brings groups back while there is room, the most productive first."""
        room = float("inf") if limit is None else limit.state * limit.room - self.nbytes - beside
        if room <= 0 or not self.spilled.by_marks:
            return
        sizes = self.group_bytes_on_disk()
        order = by_productivity(np.array(members(self.spilled.groups)), sizes, self.statistics)
        count = int(np.searchsorted(np.cumsum(sizes[order]), room, side="right"))
        if count:
            yield from self.clean_up(group_set(order[:count].tolist()), batch, keep=True)

    def earliest_owed(self) -> int | None:
        """The earliest time of a result row that a group owes: its youngest row came after the first spill."""
        first = self.spilled.first if self.spilled.owing else None
        if first is None:
            return None
        later = (one for pool in self.pools.values() for one in pool.pieces if one.batch > first)
        return min((one.first for one in later), default=None)
