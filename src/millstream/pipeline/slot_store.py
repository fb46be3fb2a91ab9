"""A slot's segments between batches: files that are opened once and that only the driver deletes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from millstream.engine.chain_manifest import ChainManifest, SegmentEntry
from millstream.engine.files import Files
from millstream.engine.segment import Segment
from millstream.engine.store import FileStore
from millstream.plan.nodes import Signature


class SlotStore(FileStore):
    """The segments of one chain. A file is deleted by the driver, once no committed batch names it."""

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
        self._opened_as = {name: segment for name, segment in self._opened_as.items() if name in names}


class SlotStores:
    """The stores of all chains of a slot."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._stores: dict[Signature, SlotStore] = {}

    def of(self, chain: Signature) -> SlotStore:
        """A new store for a new chain."""
        self._stores[chain] = SlotStore(self._files)
        return self._stores[chain]

    def begin(self, prefix: str) -> None:
        """Begins a batch, whose file names start with the prefix."""
        for number, store in enumerate(self._stores.values()):
            store.prefix = f"{prefix}{number}-"

    def forget_all_but(self, chains: Mapping[Signature, ChainManifest]) -> None:
        """Closes segments that these chains no longer name, and drops the stores of all other chains."""
        self._stores = {signature: store for signature, store in self._stores.items() if signature in chains}
        for signature, store in self._stores.items():
            store.forget_all_but({entry.name for entry in chains[signature].segments})
