"""A pipeline's directory: what lies where, and whose it is while a pipeline runs.

registry/   statements in the order they took effect; registry/inbox/ those that wait for the next batch
manifest/   one file per committed batch, the last few
segments/   state
results/    a folder per query, unless it has a path of its own
late/       a folder per stream: rows that came too late, have no time or do not parse
spark/      Spark's own checkpoint
lock        held by the running pipeline
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millstream.engine.files import Files
from millstream.errors import ScriptError, Where

FOLDERS = ("registry", "registry/inbox", "manifest", "segments", "results", "late")


@dataclass(frozen=True)
class Directory:
    """`place` is a local path or an address that both Spark and Arrow can reach."""

    place: str
    files: Files

    @classmethod
    def at(cls, place: str | Path) -> Directory:
        files = Files.at(place)
        return cls(files.root if files.is_local else str(place), files)

    def make(self) -> None:
        """The folders, where they are missing."""
        try:
            for folder in FOLDERS:
                self.files.make(folder)
        except OSError as error:
            raise ScriptError(
                f"the directory cannot be made ({error})",
                "a pipeline keeps its state and results in a directory it may write to",
                "Choose another with --directory.",
                Where(file=self.place),
            ) from None

    def exists(self) -> bool:
        """Whether a pipeline has ever been here."""
        return bool(self.files.names("registry"))

    @property
    def checkpoint(self) -> str:
        """Where Spark keeps its own notes."""
        return f"{self.place}/spark"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time. The system lets go of the lock however the process ends."""
        if not self.files.is_local:
            yield
            return
        path = Path(self.files.path("lock"))
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self.in_use() from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def in_use(self) -> ScriptError:
        """What to say to a second pipeline."""
        return ScriptError(
            f"a pipeline is running here (process {self.files.read('lock').decode().strip() or 'unknown'})",
            "a directory belongs to one running pipeline",
            "Stop that one, or choose another directory. `millstream query` changes a running one.",
            Where(file=self.place),
        )

    def is_running(self) -> bool:
        """Whether some process holds the lock."""
        path = Path(self.files.path("lock"))
        if not self.files.is_local or not path.exists():
            return False
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False
