"""Who may write to a directory, so that two runs never do.

On a local disk the operating system holds a file lock for a process and releases it however the process ends. Object
stores and HDFS have no such lock: there the owner writes a lease object and renews it while it runs. Another run takes
the lease over only when it has not been renewed for a while, by the clock of the store. Conditional writes are not
used: two runs that start at the same moment may both believe for a moment that they are the owner. Each checks the
lease again before every commit, and the one that is not the owner stops.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Protocol

from millstream.engine.files import DamagedFileError, Files
from millstream.errors import ScriptError, Where
from millstream.pipeline.sealed import read_sealed, sealed

LOCK = "lock"
_TRIES = 100
_LOOKS = 5
_PAUSE = 0.01


class Held(Protocol):
    """A directory held by this run."""

    def check(self) -> None:
        """Raises ScriptError where this run no longer holds it."""


class Lock:
    """A local file, locked by the system."""

    def __init__(self, files: Files) -> None:
        self._path = Path(files.path(LOCK))
        self._place = files.root
        self._file: IO[str] | None = None

    @contextmanager
    def held(self) -> Iterator[Lock]:
        self._take()
        try:
            yield self
        finally:
            if self._file is not None:
                self._file.close()

    def check(self) -> None:
        """A deleted lock file would not stop a second run: if it is gone, it is created and locked again."""
        if self._file is None:
            raise RuntimeError("the lock is not held")
        mine = os.fstat(self._file.fileno())
        try:
            there = self._path.stat()
        except FileNotFoundError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            old = self._file
            self._take()
            old.close()

    def _take(self) -> None:
        """Tries several times, since a process that only checks the lock holds it for an instant."""
        try:
            file = self._path.open("a+")
        except OSError as error:
            raise ScriptError(
                f"the lock cannot be opened ({error.strerror})",
                "a pipeline holds a file named lock in its directory while it runs",
                "Remove what is in its place, or choose another directory.",
                Where(file=str(self._path)),
            ) from None
        for left in reversed(range(_TRIES)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not left:
                    file.close()
                    raise in_use(f"process {_owner(self._path)}", self._place) from None
                time.sleep(_PAUSE)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file

    def is_taken(self) -> bool:
        """Whether some process holds it."""
        try:
            with self._path.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def owner(self) -> str:
        return f"process {_owner(self._path)}"


def _owner(path: Path) -> str:
    text = path.read_bytes().decode(errors="replace").strip()
    return text if text.isdigit() else "unknown"


@dataclass(frozen=True, slots=True)
class Claim:
    """The content of a lease: a random id, a description of the owner, and the time in seconds since 1970."""

    owner: str
    who: str
    time: float


class Lease:
    """An object that names the owner, renewed every `renew` seconds and free after `expire` seconds without."""

    def __init__(self, files: Files, *, renew: float = 10.0, expire: float = 60.0, settle: float = 1.0) -> None:
        self._files, self._renew, self._expire, self._settle = files, renew, expire, settle
        self._me = uuid.uuid4().hex
        self._done = threading.Event()

    @contextmanager
    def held(self) -> Iterator[Lease]:
        self.take()
        keeper = threading.Thread(target=self._keep, name="millstream-lease", daemon=True)
        keeper.start()
        try:
            yield self
        finally:
            self._done.set()
            keeper.join()
            self.leave()

    def take(self) -> None:
        if self._is_alive():
            raise in_use(self.owner(), self._files.root)
        self.renew()
        # A run that checked before this write may write now; the last to write is the owner.
        self._done.wait(self._settle)
        if not self._is_mine():
            raise in_use(self.owner(), self._files.root)

    def renew(self) -> None:
        claim = Claim(self._me, f"process {os.getpid()} on {socket.gethostname()}", time.time())
        self._files.write(LOCK, sealed(asdict(claim)))

    def leave(self) -> None:
        """Frees the lease at once, unless another run owns it by now."""
        if self._is_mine():
            self._files.delete(LOCK)

    def check(self) -> None:
        if self._claim() is None:
            self.renew()  # the lease was deleted or damaged, and no other run has claimed it
        if not self._is_mine():
            raise ScriptError(
                f"another run has taken over this directory ({self.owner()})",
                f"a run that does not renew its lease for {self._expire:.0f} seconds loses it",
                "Nothing of this batch counts. Let the other one run, or stop it and start again.",
                Where(file=self._files.path(LOCK)),
            )

    def is_taken(self) -> bool:
        """Whether the lease is held, by the clock of this machine, so that a check writes nothing."""
        claim = self._claim()
        return claim is not None and time.time() - claim.time < self._expire

    def owner(self) -> str:
        claim = self._claim()
        return claim.who if claim else "process unknown"

    def _keep(self) -> None:
        while not self._done.wait(self._renew):
            try:
                claim = self._claim()
                if claim is not None and claim.owner != self._me:
                    return  # the next commit raises the error
                self.renew()
            except OSError:
                continue  # a store that does not answer now may do so before the lease is over

    def _is_mine(self) -> bool:
        claim = self._claim()
        return claim is not None and claim.owner == self._me

    def _is_alive(self) -> bool:
        """Whether the lease was renewed lately, by the store's own clock where it has one."""
        if not self._files.has(LOCK):
            return False
        written = self._files.modified(LOCK)
        probe = f"{LOCK}.{self._me}"
        self._files.write(probe, b"")
        now = self._files.modified(probe)
        self._files.delete(probe)
        if written is not None and now is not None:
            return now - written < self._expire
        return self.is_taken()

    def _claim(self) -> Claim | None:
        """The current lease; None where there is none or it cannot be read, perhaps because it is being rewritten."""
        for left in reversed(range(_LOOKS)):
            try:
                return read_sealed(self._files, LOCK, lambda saved: Claim(**saved))
            except DamagedFileError:
                if left and self._files.has(LOCK):
                    time.sleep(_PAUSE)
        return None


def in_use(who: str, place: str) -> ScriptError:
    """The error for a second pipeline."""
    return ScriptError(
        f"a pipeline is running here ({who})",
        "a directory belongs to one running pipeline",
        "Stop that one, or choose another directory. `millstream query` changes a running one.",
        Where(file=place),
    )
