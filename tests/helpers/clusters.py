"""A cluster in numbers: groups of some bytes on slots of some executors, that do what a strategy decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from millstream.engine.groups import Groups, group_set, members
from millstream.pipeline.adaptation.decision import Decision
from millstream.pipeline.adaptation.loads import ClusterLoad, SlotLoad


@dataclass
class Cluster:
    """`table` has the slot of each group, `executors` the executor of each slot. Groups do not change, they only move
    and spill.
    """

    table: list[int]
    executors: Sequence[str]
    nbytes: Sequence[int]
    results: Sequence[int]
    limit: int = 0
    spilled: Groups = 0
    just_spilled: dict[int, int] = field(default_factory=dict)

    def groups_of(self, slot: int) -> Groups:
        return group_set(group for group, owner in enumerate(self.table) if owner == slot)

    def load(self) -> ClusterLoad:
        return ClusterLoad(slots=tuple(map(self._slot, range(len(self.executors)))))

    def _slot(self, slot: int) -> SlotLoad:
        groups = self.groups_of(slot)
        there = np.array([self.nbytes[group] if groups >> group & 1 else 0 for group in range(len(self.table))], int)
        on_disk = np.array([bool(self.spilled >> group & 1) for group in range(len(self.table))])
        results = np.array([self.results[group] if groups >> group & 1 else 0 for group in range(len(self.table))], int)
        return SlotLoad(
            slot=slot,
            executor=self.executors[slot],
            memory=int(there[~on_disk].sum()),
            limit=self.limit,
            disk=int(there[on_disk].sum()),
            results=int(results[~on_disk].sum()),
            just_spilled=self.just_spilled.get(slot, 0),
            groups=groups,
            spilled=groups & self.spilled,
            group_bytes=np.where(on_disk, 0, there),
            group_results=results,
        )

    def follow(self, decision: Decision) -> None:
        """Does what was decided."""
        self.just_spilled = {}
        for move in decision.moves:
            for group in members(move.groups):
                assert self.table[group] == move.sender, "only its own groups"
                assert not self.spilled >> group & 1, "only groups that are not on disk"
                self.table[group] = move.receiver
        for spill in decision.spills:
            self._spill(spill.slot, spill.nbytes)

    def _spill(self, slot: int, nbytes: int) -> None:
        """Whole groups, the least productive first, until there are enough bytes."""
        left = members(self.groups_of(slot) & ~self.spilled)
        done = 0
        for group in sorted(left, key=lambda group: (self.results[group] / max(1, self.nbytes[group]), group)):
            if done < nbytes and self.nbytes[group]:
                self.spilled |= 1 << group
                done += self.nbytes[group]
        self.just_spilled[slot] = done

    def memory(self) -> dict[str, int]:
        return {one.name: one.memory for one in self.load().executors}
