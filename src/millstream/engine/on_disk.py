"""A segment that has been spilled: what is known of it while its rows are on disk only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from millstream.engine.arrow import Ints
from millstream.engine.groups import Grouping, Groups
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.segment import Segment
from millstream.plan.nodes import Signature


class Piece(Protocol):
    """Rows of one stream with a number, in memory or on disk: what units are made of."""

    @property
    def number(self) -> int: ...

    @property
    def batch(self) -> int: ...

    @property
    def reach(self) -> int: ...

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def hidden_from(self) -> frozenset[Signature]: ...

    def __len__(self) -> int: ...

    def open(self) -> Segment: ...


@dataclass(frozen=True, eq=False)
class OnDisk:
    """`groups` are those of its rows; `count` says how many rows of each group an entry has. A part of a segment has
    the times of the whole.
    """

    entry: SegmentEntry
    groups: Groups
    grouping: Grouping
    load: Callable[[SegmentEntry], Segment]
    count: Callable[[SegmentEntry], Ints]

    @property
    def number(self) -> int:
        return self.entry.number

    @property
    def batch(self) -> int:
        return self.entry.batch

    @property
    def reach(self) -> int:
        return self.entry.reach

    @property
    def first(self) -> int:
        return self.entry.first

    @property
    def last(self) -> int:
        return self.entry.last

    @property
    def nbytes(self) -> int:
        return self.entry.nbytes

    @cached_property
    def hidden_from(self) -> frozenset[Signature]:
        return frozenset(self.entry.hidden_from)

    def __len__(self) -> int:
        return self.entry.rows

    def open(self) -> Segment:
        """Its rows, read anew each time."""
        return self.load(self.entry)

    @cached_property
    def group_rows(self) -> Ints:
        """How many rows each group has. It has to be read, unless it was counted before it was spilled."""
        return self.count(self.entry)

    @property
    def group_bytes(self) -> Ints:
        """About how many bytes each group has: by its rows, or an even part where they have not been counted."""
        if "group_rows" in self.__dict__:
            return self.group_rows * (self.nbytes // max(len(self), 1))
        return self.grouping.flags(self.groups) * (self.nbytes // max(self.groups.bit_count(), 1))

    def knowing(self, group_rows: Ints) -> OnDisk:
        """The same, whose rows have been counted already."""
        self.__dict__["group_rows"] = group_rows
        return self
