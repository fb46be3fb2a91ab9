"""Which pipeline owns a folder of results.

Every directory numbers its batches from 1, so two pipelines that wrote to one path would overwrite or mix their
batches. A folder outside the directory is therefore marked with the pipeline that writes to it, and no other may.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from millstream.engine.files import Files
from millstream.errors import ScriptError, Where
from millstream.model.query import Query
from millstream.pipeline.directory import Directory
from millstream.pipeline.locations import is_address
from millstream.pipeline.registry import Registry
from millstream.pipeline.sinks import folder_of

# Readers of a folder skip names with this prefix, or select names by the suffix of their format.
MARK = "_millstream.mark"


def can_be_claimed(folder: str) -> bool:
    """Whether Arrow can reach the folder: Spark knows file systems that Arrow does not."""
    try:
        Files.at(folder)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
        return False
    return True


def check_claims(queries: Iterable[Query], *, base: str, owner: str, directory: Directory) -> None:
    """Refuses a query that writes to a folder inside the pipeline's own directory, or to one of another pipeline."""
    for query in queries:
        folder = folder_of(query, base)
        if folder is None:
            continue
        if directory.files.is_local and Path(folder).is_relative_to(directory.location):
            raise ScriptError(
                f"{query.name} writes to '{folder}', inside the pipeline's own directory",
                "a path lies outside it; without one results are in results/",
                "Leave the path out, or give another.",
                query.where,
            )
        check_claim(folder, owner, directory.location, query.where)


def check_claim(folder: str, owner: str, place: str, where: Where) -> None:
    """Refuses a folder that another pipeline writes to; `owner` is ours, which lives in `place`."""
    if not can_be_claimed(folder) or not Files.at(folder).has(MARK):
        return
    found = _mark(Files.at(folder), where)
    same = found["pipeline"] == owner
    if same and (_real(found["directory"]) == _real(place) or not _lives(owner, found["directory"])):
        return
    whose = f"{'a copy of this pipeline' if same else 'another pipeline'}, in {found['directory']}"
    raise ScriptError(
        f"'{folder}' has results of {whose}",
        "a path takes the results of one pipeline, since each counts its batches from 1",
        "Give the query another path, or remove that folder and its results.",
        where,
    )


def _mark(files: Files, where: Where) -> dict[str, str]:
    try:
        found = json.loads(files.read(MARK))
        return {name: str(found[name]) for name in ("pipeline", "directory")}
    except (ValueError, KeyError, TypeError):
        raise ScriptError(
            f"'{files.path(MARK)}' cannot be read",
            "it says which pipeline writes to the folder",
            "Remove it if no other pipeline does.",
            where,
        ) from None


def claim(folder: str, owner: str, place: str) -> None:
    """Marks a folder as ours."""
    files = Files.at(folder)
    mark = json.dumps({"pipeline": owner, "directory": place}, indent=1).encode()
    try:
        if not files.has(MARK) or files.read(MARK) != mark:
            files.make()
            files.write(MARK, mark)
    except OSError as error:
        raise ScriptError(
            f"'{folder}' cannot be written to ({error})",
            "results go to a folder",
            "Correct the path, or its permissions.",
        ) from None


def _real(place: str) -> str:
    """The resolved path, since several paths may lead to the same folder."""
    return place if is_address(place) else os.path.realpath(place)


def _lives(owner: str, place: str) -> bool:
    """Whether the pipeline's directory is still there: if not, it was moved and not copied."""
    return Registry(Files.at(place).below("registry")).in_force().owner == owner
