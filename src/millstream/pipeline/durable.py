"""Durability: what a commit relies on is on disk before the manifest. Slots sync their files, the driver the folders.

Only local disks need this; object stores and HDFS are durable by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

from millstream.engine.files import Files, above, sync_paths
from millstream.engine.shard_manifest import ShardManifest
from millstream.pipeline.manifest import StagedFile


def sync_slot(segments: Files, mark: str, states: Iterable[ShardManifest], begun: Iterable[Future[None]]) -> None:
    """Syncs the files a slot has written in a batch: segments whose names begin with `mark`; waits for syncs that have
    `begun`.
    """
    if segments.is_local:
        named = {name for state in states for name in state.files()}
        sync_paths(segments.path(name) for name in named if name.startswith(mark))
    for one in begun:
        one.result()


class Folders:
    """The folders of results: new and renamed files in them are on disk before the next manifest."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._renamed: set[str] = set()

    def renamed(self, outputs: Iterable[StagedFile]) -> None:
        """Notes the folders of published results. A restart before the next commit would publish them again."""
        finals = (final.folder for output in outputs for final in output.finals)
        self._renamed |= {folder for folder in finals if is_local(folder)}

    def to_sync(self, outputs: Iterable[StagedFile]) -> list[str]:
        """What to sync before a commit: folders with new files, and the parents of new folders."""
        found = {output.folder for output in outputs if is_local(output.folder)}
        new = {parent for folder in found - self._known for parent in above(folder)}
        self._known |= found
        renamed, self._renamed = self._renamed, set()
        return sorted(found | new | renamed)


def is_local(folder: str) -> bool:
    return "://" not in folder
