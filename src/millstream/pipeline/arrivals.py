"""When the rows of a batch arrived: by the times of the files Spark read for it, or else when the batch began.

Files that Spark is known to read more than once are refused.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

from millstream.engine.files import Files
from millstream.errors import PipelineFailed
from millstream.pipeline.locations import looks_like_pattern


def arrived(checkpoint: str, spark_batch: int, started: int, began: int) -> int:
    """In microseconds: the time of the batch's oldest file, but no earlier than this process began to look for any."""
    files = Files.at(checkpoint)
    before = _noted(files, spark_batch - 1)
    times = []
    for source, number in _noted(files, spark_batch).items():
        if number != before.get(source):
            times += _file_times(files.below(f"sources/{source}"), number, spark_batch)
    return max(started, min([*times, began]))


def _noted(checkpoint: Files, spark_batch: int) -> dict[int, int]:
    """How many batches each file source has logged up to this Spark batch: it counts those in which it had files."""
    name = f"offsets/{spark_batch}"
    if not checkpoint.has(name):
        return {}
    # A line for the version, one for the batch, then one for each source.
    lines = checkpoint.read(name).decode(errors="replace").splitlines()[2:]
    found = [re.fullmatch(r'\{"logOffset":(\d+)\}', line.strip()) for line in lines]
    return {source: int(offset[1]) for source, offset in enumerate(found) if offset}


def _file_times(notes: Files, number: int, spark_batch: int) -> list[int]:
    """The times of a batch's files. Spark's file source logs them, one JSON object a line after the version."""
    for name in (str(number), f"{number}.compact"):
        if notes.has(name):
            lines = [line for line in notes.read(name).decode(errors="replace").splitlines() if line.startswith("{")]
            entries = [entry for entry in map(json.loads, lines) if _is_of(entry, number)]
            _check_names([entry["path"] for entry in entries], notes.path(name), spark_batch)
            return [int(entry["timestamp"]) * 1_000 for entry in entries]
    return []


def _is_of(entry: dict[str, Any], number: int) -> bool:
    return "path" in entry and entry.get("batchId") == number


def _check_names(paths: list[str], note: str, spark_batch: int) -> None:
    """Where a batch has several files, Spark reads all again for each whose name looks like a pattern (SPARK-58518)."""
    for path in paths if len(paths) > 1 else ():
        name = unquote(path.rsplit("/", 1)[-1])
        if looks_like_pattern(name):
            # Spark has already fixed the files of the batch, and would read the others twice even if this one were
            # removed.
            offsets = f"{note.rsplit('/sources/', 1)[0]}/offsets/{spark_batch}"
            undo = f"Rename it, delete '{note}' and '{offsets}', where Spark has noted the batch, and start again"
            raise PipelineFailed(
                f"the file '{name}' has one of []{{}}*?\\ in its name, and Spark reads files beside it more than once; "
                + ("such a file may come alone, with maxFilesPerTrigger = 1. " + undo)
            )
