"""Partition groups: the leading bits of the codes by which rows are routed.

A group is the smallest part of the state that goes to disk or to another slot. A set of groups is a whole number whose
bit g stands for group g, so that sets are compared, saved and sent as plain values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from millstream.engine.arrow import Bools, Ints
from millstream.engine.keys import Codes

Groups = int


@dataclass(frozen=True, slots=True)
class Grouping:
    """How many groups there are: a power of two."""

    count: int = 1024

    @property
    def every(self) -> Groups:
        """The set of all groups."""
        return (1 << self.count) - 1

    def of(self, codes: Codes) -> Ints:
        """The group of each code."""
        bits = self.count.bit_length() - 1
        if not bits:
            return np.zeros(len(codes), dtype=np.int64)
        return (codes >> np.uint64(64 - bits)).view(np.int64)

    def flags(self, groups: Groups) -> Bools:
        """For each group whether it is in a set."""
        packed = groups.to_bytes(-(-self.count // 8), "little")
        return np.unpackbits(np.frombuffer(packed, dtype=np.uint8), bitorder="little")[: self.count].view(np.bool_)

    def set_of(self, flags: Bools) -> Groups:
        """The groups that have a flag."""
        return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def group_set(groups: Iterable[int]) -> Groups:
    found = 0
    for group in groups:
        found |= 1 << group
    return found


def members(groups: Groups) -> list[int]:
    """The groups of a set, in order."""
    return [place for place, bit in enumerate(reversed(bin(groups)[2:])) if bit == "1"] if groups else []


def to_json(groups: Groups | None) -> str | None:
    return None if groups is None else f"{groups:x}"


def from_json(saved: str | None) -> Groups | None:
    return None if saved is None else int(saved, 16)
