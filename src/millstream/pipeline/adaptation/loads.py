"""What the driver knows about memory and results: one load from every slot, summed up by executor."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from millstream.engine.arrow import Ints
from millstream.engine.groups import Groups, members
from millstream.model.sizes import text as size


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotLoad:
    """A slot's memory in bytes after a batch.

    `memory` is all that its state takes, `limit` its share of the executor's memory (0 is no limit), `disk` what the
    state that is on disk only would take. `results` are the rows of the last batch, `just_spilled` the bytes that went
    to disk in it. For each partition group of the pipeline, `group_bytes` is what it has in memory and `group_results`
    how many rows it has given. The slot serves `groups`; of these, `spilled` are on disk, whole or in part.
    """

    slot: int
    executor: str
    memory: int
    limit: int = 0
    disk: int = 0
    results: int = 0
    just_spilled: int = 0
    groups: Groups
    spilled: Groups = 0
    group_bytes: Ints
    group_results: Ints

    @property
    def need(self) -> int:
        """What it would take if all of it were in memory."""
        return self.memory + self.disk

    def in_memory(self) -> list[GroupLoad]:
        """The groups that have rows in memory and none on disk."""
        return [
            GroupLoad(
                group=group, slot=self.slot, nbytes=int(self.group_bytes[group]), results=int(self.group_results[group])
            )
            for group in members(self.groups & ~self.spilled)
            if self.group_bytes[group] > 0
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLoad:
    """A partition group in the memory of a slot."""

    group: int
    slot: int
    nbytes: int
    results: int

    @property
    def productivity(self) -> float:
        """Results for each byte of memory."""
        return self.results / self.nbytes


@dataclass(frozen=True, kw_only=True, eq=False)
class ExecutorLoad:
    """The slots that run in one executor, and so share its memory."""

    name: str
    slots: tuple[SlotLoad, ...]

    @cached_property
    def memory(self) -> int:
        return sum(one.memory for one in self.slots)

    @property
    def just_spilled(self) -> int:
        return sum(one.just_spilled for one in self.slots)

    @property
    def rate(self) -> float:
        """Results of the last batch for each of its partition groups."""
        groups = sum(one.groups.bit_count() for one in self.slots)
        return sum(one.results for one in self.slots) / groups if groups else 0.0

    def in_memory(self) -> list[GroupLoad]:
        return [group for one in self.slots for group in one.in_memory()]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterLoad:
    """All slots. `estimated` is how many bytes the state of all queries is expected to take; 0 where nobody knows, and
    then it is what it takes now.
    """

    slots: tuple[SlotLoad, ...]
    estimated: int = 0

    @cached_property
    def executors(self) -> tuple[ExecutorLoad, ...]:
        """By name; a place where no slot runs has no load."""
        found: dict[str, list[SlotLoad]] = {}
        for one in self.slots:
            found.setdefault(one.executor, []).append(one)
        return tuple(ExecutorLoad(name=name, slots=tuple(some)) for name, some in sorted(found.items()))

    @property
    def needed(self) -> int:
        """What all state takes or is expected to take, were it in memory."""
        return max(self.estimated, sum(one.need for one in self.slots))

    @property
    def limit(self) -> int:
        """The memory of all executors; 0 where there is no limit."""
        limits = [one.limit for one in self.slots]
        return sum(limits) if all(limits) else 0

    @property
    def disk(self) -> int:
        return sum(one.disk for one in self.slots)


def described(groups: Collection[GroupLoad]) -> str:
    """'3 groups with 9.8 MB'."""
    return f"{len(groups)} {'group' if len(groups) == 1 else 'groups'} with {size(total(groups))}"


def total(groups: Iterable[GroupLoad]) -> int:
    return sum(one.nbytes for one in groups)
