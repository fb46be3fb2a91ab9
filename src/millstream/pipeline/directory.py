"""A pipeline's directory: its layout, and the lock of the running pipeline.

registry/   statements in the order they took effect; registry/inbox/ changes that wait for the next batch;
            registry/copies/ the same again
manifest/   one file per committed batch, the last few
segments/   state
results/    a folder per query, unless it has a path of its own
outbox/     a folder per query whose sink is not a folder of Parquet files: rows the sink has not yet written
late/       a folder per stream: late rows: too old, too far in the future, without a time or not parsed
spark/      Spark's own checkpoint
lock        held by the running pipeline

Files with other names are neither read nor deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from millstream.engine.files import Files, above, sync_paths
from millstream.errors import ScriptError, Where
from millstream.pipeline.lease import Held, Lease, Lock, in_use
from millstream.pipeline.registry import Registry

FOLDERS = ("registry", "registry/copies", "registry/inbox", "manifest", "segments", "results", "late")


@dataclass
class Directory:
    """`location` is a local path or an address that both Spark and Arrow can reach."""

    location: str
    files: Files
    _held: Held | None = field(default=None, init=False, repr=False)

    @classmethod
    def at(cls, location: str | Path) -> Directory:
        try:
            files = Files.at(location)
        except (pa.ArrowException, ValueError, OSError) as error:
            raise ScriptError(
                f"the directory cannot be reached ({error})",
                "it is a path, or an address of a file system that both Spark and Arrow know, such as s3://",
                "Choose another with --directory.",
                Where(file=str(location)),
            ) from None
        return cls(files.root if files.is_local else str(location), files)

    def make(self) -> None:
        """Creates the folders that are missing."""
        try:
            for folder in FOLDERS:
                self.files.make(folder)
            if self.files.is_local:
                sync_paths(above(self.files.path(f"{FOLDERS[0]}/x")))
        except OSError as error:
            raise ScriptError(
                f"the directory cannot be made ({error})",
                "a pipeline keeps its state and results in a directory it may write to",
                "Choose another with --directory.",
                Where(file=self.location),
            ) from None

    def exists(self) -> bool:
        """Whether a pipeline was ever started here."""
        return bool(Registry(self.files.below("registry")).count())

    @property
    def checkpoint(self) -> str:
        """Spark's own checkpoint."""
        return f"{self.location}/spark"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock: one process at a time."""
        with self._lock().held() as held:
            self._held = held
            try:
                yield
            finally:
                self._held = None

    def check_ours(self) -> None:
        """Called before a commit: raises ScriptError where another run has taken over the directory."""
        if self._held is None:
            raise RuntimeError("the directory is not locked")
        self._held.check()

    def in_use(self) -> ScriptError:
        """The error for a second pipeline."""
        return in_use(self._lock().owner(), self.location)

    def is_running(self) -> bool:
        """Whether some process holds the lock. The check does not keep a pipeline from starting."""
        return self._lock().is_taken()

    def _lock(self) -> Lock | Lease:
        return Lock(self.files) if self.files.is_local else Lease(self.files)
