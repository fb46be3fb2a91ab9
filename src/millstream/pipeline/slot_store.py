"""A slot's segments between batches: files that are opened once and that only the driver deletes."""

from __future__ import annotations

from collections.abc import Collection

from millstream.engine.files import Files
from millstream.engine.on_disk import Piece
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.segment import Segment
from millstream.engine.store import FileStore


class SlotStore(FileStore):
    """The segments of all pools of a slot. A file is deleted by the driver, once no committed batch names it."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._opened_as: dict[str, Segment] = {}

    def keep(self, segment: Segment) -> Segment:
        kept = super().keep(segment)
        self._opened_as[self.name(kept)] = kept
        return kept

    def load(self, entry: SegmentEntry) -> Segment:
        if entry.groups is not None:
            # Only a part of the file is needed: the rest must not stay in memory.
            known = self._opened_as.get(entry.name)
            self.expect(entry)
            return known or super().load(entry)
        if entry.name not in self._opened_as:
            self._opened_as[entry.name] = super().load(entry)
        self.expect(entry)
        return self._opened_as[entry.name]

    def share(self, segment: Piece, number: int) -> None:
        super().share(segment, number)
        self.release(segment)

    def release(self, segment: Piece) -> None:
        self._opened_as.pop(self.name(segment), None)

    def drop(self, segment: Piece) -> None:
        name = self._forgotten(segment)
        if name:
            self._opened_as.pop(name, None)

    def forget_all_but(self, names: Collection[str]) -> None:
        """Closes the segments that have none of these names."""
        self._opened_as = {name: segment for name, segment in self._opened_as.items() if name in names}
