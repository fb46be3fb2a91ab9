"""The memory of Spark's Python workers, as the system sees it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY = 0.05


@dataclass(frozen=True, slots=True)
class Resident:
    """Bytes in memory of all workers together: all, and without those of files."""

    whole: int = 0
    own: int = 0
    workers: int = 0


def descendants(root: int) -> Iterator[int]:
    """A process and all that it has started, and they in turn."""
    yield root
    for task in _folders(Path(f"/proc/{root}/task")):
        for child in _text(task / "children").split():
            yield from descendants(int(child))


def workers(root: int) -> list[int]:
    """The Python workers of the Spark that a process runs: what Spark's daemons have forked."""
    return [
        child
        for pid in descendants(root)
        if _is_daemon(pid)
        for task in _folders(Path(f"/proc/{pid}/task"))
        for child in map(int, _text(task / "children").split())
    ]


def resident(pids: list[int]) -> Resident:
    whole = own = 0
    for pid in pids:
        fields = _text(Path(f"/proc/{pid}/statm")).split()
        if fields:
            whole += int(fields[1]) * _PAGE
            own += (int(fields[1]) - int(fields[2])) * _PAGE
    return Resident(whole, own, len(pids))


def _is_daemon(pid: int) -> bool:
    return "pyspark.daemon" in _text(Path(f"/proc/{pid}/cmdline"))


def _folders(place: Path) -> list[Path]:
    try:
        return list(place.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    """Empty where the process has ended meanwhile."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class Watch:
    """Samples the workers of a process until it is left."""

    def __init__(self, root: int) -> None:
        self._root, self._over = root, threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._peak = Resident()

    def _sample(self) -> None:
        while not self._over.wait(_EVERY):
            self._peak = max(self._peak, resident(workers(self._root)), key=lambda one: one.whole)

    def peak(self) -> Resident:
        """The most since it was last asked."""
        found, self._peak = self._peak, Resident()
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
