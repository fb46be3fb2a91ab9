"""Which partition groups have been spilled, and what they owe.

A spill cuts the rows of a group in two: those that came before it are on disk only, and those that come later join each
other and not these. So after every spill one more part of the group's rows is complete in itself, and what is owed is
the combinations of rows of different parts (state-adapt, equation 1). No list of work is kept: the batches after which
a group was spilled say it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from millstream.engine.groups import Groups
from millstream.engine.shard_manifest import Marks


@dataclass(slots=True)
class Spilled:
    """`owing` are the spilled groups that have got rows since."""

    by_marks: dict[Marks, Groups] = field(default_factory=dict)
    owing: Groups = 0

    @property
    def groups(self) -> Groups:
        """All spilled groups."""
        found = 0
        for groups in self.by_marks.values():
            found |= groups
        return found

    def add(self, groups: Groups, batch: int) -> None:
        """Groups are spilled after a batch."""
        for marks, some in self.take(groups):
            self._put((*marks, batch) if not marks or batch > marks[-1] else marks, some)

    def take(self, groups: Groups) -> list[tuple[Marks, Groups]]:
        """Takes groups out, with the batches after which they were spilled; those that were not come last."""
        found = []
        for marks, some in list(self.by_marks.items()):
            if some & groups:
                found.append((marks, some & groups))
                self.by_marks[marks] = some & ~groups
                if not self.by_marks[marks]:
                    del self.by_marks[marks]
                groups &= ~some
        return [*found, ((), groups)] if groups else found

    def _put(self, marks: Marks, groups: Groups) -> None:
        self.by_marks[marks] = self.by_marks.get(marks, 0) | groups

    def arrived(self, groups: Groups) -> None:
        """Rows of these groups have arrived."""
        self.owing |= groups & self.groups

    def settle(self, groups: Groups, batch: int | None) -> None:
        """These groups owe nothing any more. They are in memory, or on disk after a batch."""
        self.take(groups)
        self.owing &= ~groups
        if groups and batch is not None:
            self._put((batch,), groups)

    def give_up(self, groups: Groups) -> Spilled:
        """What another slot takes over."""
        given = {marks: some for marks, some in self.take(groups) if marks}
        owing, self.owing = self.owing & groups, self.owing & ~groups
        return Spilled(given, owing)

    def alike(self, groups: Groups) -> Iterator[tuple[Marks, Groups]]:
        """These groups by the batches after which they were spilled."""
        for marks, some in self.by_marks.items():
            if some & groups:
                yield marks, some & groups

    def beside(self, group: int) -> Groups:
        """The groups that were spilled after the same batches as this one."""
        return next(some for some in self.by_marks.values() if some >> group & 1)

    @property
    def marks(self) -> set[int]:
        """All batches after which a group was spilled."""
        return {batch for marks in self.by_marks for batch in marks}

    @property
    def first(self) -> int | None:
        """The first batch after which a group was spilled that owes results."""
        return min((marks[0] for marks, some in self.by_marks.items() if some & self.owing), default=None)
