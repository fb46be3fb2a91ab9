"""A slot's segments between batches: files that are opened once and that only the driver deletes."""

from __future__ import annotations

from collections.abc import Collection

from millstream.engine.files import Files
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
        if entry.name not in self._opened_as:
            self._opened_as[entry.name] = super().load(entry)
        self._names[entry.number], self._stamps[entry.name] = entry.name, entry.stamps
        return self._opened_as[entry.name]

    def drop(self, segment: Segment) -> None:
        self._opened_as.pop(self._forgotten(segment), None)

    def forget_all_but(self, names: Collection[str]) -> None:
        """Closes the segments that have none of these names."""
        self._opened_as = {name: segment for name, segment in self._opened_as.items() if name in names}
