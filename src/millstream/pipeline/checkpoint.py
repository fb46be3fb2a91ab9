"""Spark's checkpoint, as far as recovery depends on it: which rows Spark has delivered, and which come next.

spark/offsets/<n>       where batch n ends, written before it begins
spark/commits/<n>       batch n is done
spark/sources/<i>/<n>   the files a source found in its n-th listing; every tenth, <n>.compact, holds all before it too

A manifest records the state of Spark's logs at its commit. At a start both are compared. Log files that Spark has lost
are restored where the manifests hold them. Entries beyond the manifest are removed, so that Spark delivers those rows
again. If Spark would lose or duplicate rows, the start is refused.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.engine.files import Files
from millstream.errors import ScriptError, Where
from millstream.pipeline.manifest import Manifest
from millstream.pipeline.sealed import set_aside

_VERSION = re.compile(r"v\d+")
_LOG = re.compile(r"(\d+)(\.compact)?")


@dataclass(frozen=True, slots=True)
class Marks:
    """Spark's log entries of its last batch: the text of its offsets, and a checksum of each source's log file.

    `to_sync` are the local files and folders that hold them.
    """

    offsets: str
    sources: Mapping[str, int]
    to_sync: tuple[str, ...] = ()


class Checkpoint:
    """The folder of Spark's checkpoint."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def marks(self, before: Manifest, spark_batch: int) -> Marks:
        """The marks of a batch about to be committed."""
        if spark_batch == before.spark_batch:
            return Marks(before.offsets, before.sources)
        try:
            offsets = self._files.read(f"offsets/{spark_batch}").decode()
        except FileNotFoundError:
            raise self._error(
                f"what Spark noted of its batch {spark_batch} is gone",
                self._files.path(f"offsets/{spark_batch}"),
                "Nothing of this batch counts. Put spark/ back from a backup, or start in a new directory.",
            ) from None
        sources, written = dict(before.sources), ["offsets", f"offsets/{spark_batch}"]
        if before.spark_batch < 0:
            written += ["", *(["sources"] if self._files.has("sources") else [])]
        for source, last in _looks(offsets).items():
            first = max(_numbers(sources, source), default=-1) + 1
            for number in range(first, last + 1):
                name = self._log(source, number)
                if name is None:
                    continue
                if name.endswith(".compact"):
                    sources = {known: crc for known, crc in sources.items() if not known.startswith(f"{source}/")}
                sources[name] = zlib.crc32(self._files.read(f"sources/{name}"))
                written += [f"sources/{source}", f"sources/{name}"]
        paths = sorted({self._files.path(name) if name else self._files.root for name in written})
        return Marks(offsets, sources, tuple(paths) if self._files.is_local else ())

    def reconcile(self, kept: Sequence[Manifest], tell: Callable[[str], None]) -> None:
        """Makes Spark resume right after the newest of these manifests. Raises ScriptError where it cannot."""
        last = kept[0] if kept else Manifest()
        if not kept and self._numbered("commits"):
            raise self._error(
                "Spark has finished batches of which no manifest is left",
                self._files.path("commits"),
                "Put manifest/ back from a backup, or start in a new directory.",
            )
        self._check_sources(last)
        self._mend_metadata(tell)
        self._take_back(last, tell)
        self._mend_offsets(last, kept, tell)
        self._mend_commits(tell)

    def _check_sources(self, last: Manifest) -> None:
        """Refuses a lost or changed source log, with which Spark would read files a second time."""
        for name, crc in last.sources.items():
            source, _, number = name.partition("/")
            newest = max((int(one[1]) for one in self._logs(source) if one[2]), default=-1)
            if newest > int(number.partition(".")[0]) and self._is_log(source, newest):
                continue  # Spark reads the newer one, and may have deleted those before it
            path = f"sources/{name}"
            found = self._files.size(path)
            if found is None or zlib.crc32(self._files.read(path)) != crc:
                raise self._error(
                    "what Spark noted of the files it has read "
                    + ("is gone" if found is None else "is not what it was"),
                    self._files.path(path),
                    "Put spark/ back from a backup, or start in a new directory.",
                )

    def _mend_metadata(self, tell: Callable[[str], None]) -> None:
        """Restores `metadata`, which holds only a random id; without it Spark does not resume from the checkpoint."""
        there = self._files.size("metadata") is not None
        if there and "id" in _json(self._files.read("metadata")):
            return
        if there:
            set_aside(self._files, "metadata")
        if there or self._numbered("offsets"):
            self._files.write("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
            tell(f"{self._files.path('metadata')} was lost or damaged; it is made anew")

    def _take_back(self, last: Manifest, tell: Callable[[str], None]) -> None:
        """Removes batches that are not in the manifest from Spark's logs; the first of them keeps its offsets."""
        commits = [number for number in self._numbered("commits") if number > last.spark_batch]
        offsets = [number for number in self._numbered("offsets") if number > last.spark_batch + 1]
        for folder, numbers in (("commits", commits), ("offsets", offsets)):
            for number in numbers:
                self._delete(folder, number)
        if commits or offsets:
            tell(
                f"Spark gives the rows that came after batch {last.batch} again; sinks outside the pipeline's own "
                "files, and callbacks, may see these a second time"
            )
        looks = _looks(last.offsets)
        for source in self._files.folders("sources"):
            unsure = sorted(int(one[1]) for one in self._logs(source) if int(one[1]) > looks.get(source, -1))
            cut = next((number for number in unsure if not self._is_log(source, number)), None)
            if cut is not None:
                # Files of listings that no batch has used will be found again.
                for number in (number for number in unsure if number >= cut):
                    set_aside(self._files, f"sources/{self._log(source, number)}")
                self._delete("offsets", last.spark_batch + 1)
                tell(f"{self._files.path(f'sources/{source}/{cut}')} makes no sense; it is set aside and made anew")

    def _mend_offsets(self, last: Manifest, kept: Sequence[Manifest], tell: Callable[[str], None]) -> None:
        known = {one.spark_batch: one.offsets for one in reversed(kept) if one.spark_batch >= 0}
        if last.spark_batch > 0:
            # Spark needs two batches to be there, though it uses only the last.
            known.setdefault(last.spark_batch - 1, "")
        for number in sorted(number for number in known if number >= last.spark_batch - 1):
            name, text = f"offsets/{number}", known[number]
            found = self._files.read(name) if self._files.size(name) is not None else b""
            if found.decode(errors="replace") == text or (not text and _is_note(found)):
                continue
            if found:
                set_aside(self._files, name)
            self._delete("offsets", number)
            self._files.make("offsets")
            self._files.write(name, (text or last.offsets).encode())
            tell(f"{self._files.path(name)} was lost or damaged; it is restored")
        planned = f"offsets/{last.spark_batch + 1}"
        if self._files.size(planned) is not None and not _is_note(self._files.read(planned)):
            set_aside(self._files, planned)
            tell(f"{self._files.path(planned)} makes no sense; it is set aside, and Spark plans that batch anew")

    def _mend_commits(self, tell: Callable[[str], None]) -> None:
        """Sets damaged commit files aside. Spark then repeats the batch, which is recognised by its number as
        committed.
        """
        for number in sorted(self._numbered("commits"), reverse=True):
            if _is_note(self._files.read(f"commits/{number}")):
                return
            set_aside(self._files, f"commits/{number}")
            tell(f"{self._files.path(f'commits/{number}')} makes no sense; it is set aside")

    def _numbered(self, folder: str) -> list[int]:
        return [int(name) for name in self._files.names(folder) if name.isdigit()]

    def _logs(self, source: str) -> Iterator[re.Match[str]]:
        return filter(None, map(_LOG.fullmatch, self._files.names(f"sources/{source}")))

    def _log(self, source: str, number: int) -> str | None:
        """The name of a source's log file; sources other than files have none."""
        names = (f"{source}/{number}", f"{source}/{number}.compact")
        return next((name for name in names if self._files.size(f"sources/{name}") is not None), None)

    def _is_log(self, source: str, number: int) -> bool:
        content = self._files.read(f"sources/{self._log(source, number)}")
        version, *lines = _lines(content)
        return bool(_VERSION.fullmatch(version)) and all("path" in _json(line.encode()) for line in lines)

    def _delete(self, folder: str, number: int) -> None:
        """Deletes a file with the checksum file that some of Hadoop's file systems write beside it."""
        self._files.delete(f"{folder}/{number}")
        self._files.delete(f"{folder}/.{number}.crc")

    def _error(self, found: str, path: str, todo: str) -> ScriptError:
        valid = "a pipeline goes on from its own manifest and Spark's checkpoint, and both belong together"
        return ScriptError(found, valid, todo, Where(file=path))


def refused(checkpoint: str, said: str) -> ScriptError | None:
    """An error for Spark's failure to read its own logs; None for any other failure."""
    path = checkpoint.rpartition("://")[2]
    first = next((line.strip() for line in said.splitlines() if path in line), None)
    if first is None:
        return None
    return ScriptError(
        f"Spark cannot go on from its checkpoint: {first}",
        "a pipeline goes on from its own manifest and Spark's checkpoint, and both belong together",
        "Put spark/ back from a backup, or start in a new directory.",
        Where(file=checkpoint),
    )


def _numbers(names: Iterable[str], source: str) -> list[int]:
    mine = (name.partition("/")[2] for name in names if name.startswith(f"{source}/"))
    return [int(name.partition(".")[0]) for name in mine]


def _looks(offsets: str) -> dict[str, int]:
    """The number of each source's last committed listing, by Spark's offsets; only file sources have one."""
    found = {}
    for source, line in enumerate(offsets.splitlines()[2:]):
        last = _json(line.encode()).get("logOffset")
        if isinstance(last, int):
            found[str(source)] = last
    return found


def _is_note(content: bytes) -> bool:
    """Whether it has Spark's log format: a version, then a JSON object a line, or a dash where a source has none."""
    version, *lines = _lines(content)
    return bool(_VERSION.fullmatch(version) and lines) and all(line == "-" or _reads(line) for line in lines)


def _lines(content: bytes) -> list[str]:
    """At least one line; what is not UTF-8 is no line, since Spark could not read it."""
    try:
        return content.decode().splitlines() or [""]
    except UnicodeDecodeError:
        return [""]


def _reads(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _json(content: bytes) -> dict[str, Any]:
    """A JSON object, empty where the content is none."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
