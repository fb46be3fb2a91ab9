"""Which query has rows in which shared folder, recorded twice: with the query, for readers, and with the folder.

`results/<query>/manifest.json` names the folders that hold a query's rows; `results/shared/<folder>/.queries` names the
queries of a folder. Each can be rebuilt from the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from millstream.engine.files import DamagedFileError, Files, damaged
from millstream.pipeline.sealed import read_sealed, sealed, set_aside

_MANIFEST = "manifest.json"
_QUERIES = ".queries"


def shared_folders(folder: str) -> list[str]:
    """The names of the shared folders a query's manifest lists. Raises DamagedFileError where it cannot be read."""
    files = Files.at(folder)
    if not files.has(_MANIFEST):
        return []
    try:
        folders = json.loads(files.read(_MANIFEST))["folders"]
        return [str(one).rsplit("/", 1)[-1] for one in folders]
    except (ValueError, KeyError, TypeError, OSError):
        raise damaged(files.path(_MANIFEST), "the list of a query's shared folders cannot be read") from None


def note_folders(results: str, query: str, folders: Iterable[str]) -> None:
    """Records the folders that hold a query's rows."""
    files = Files.at(f"{results}/{query}")
    files.make()
    listed = [f"../shared/{one}" for one in sorted(folders)]
    files.write(_MANIFEST, json.dumps({"query": query, "folders": listed}, indent=1).encode())


def note_queries(folder: str, queries: Iterable[str]) -> None:
    """Records the queries of a shared folder."""
    files = Files.at(folder)
    files.make()
    files.write(_QUERIES, sealed({"queries": sorted(queries)}))


def mend_shared(results: str, tell: Callable[[str], None]) -> None:
    """Rebuilds lists that are lost or damaged."""
    shared = Files.at(f"{results}/shared")
    by_query: dict[str, set[str]] = {}
    for folder in shared.folders():
        for query in _queries_of(shared.below(folder)):
            by_query.setdefault(query, set()).add(folder)
    for query, folders in by_query.items():
        files = Files.at(f"{results}/{query}")
        try:
            missing = folders - set(shared_folders(files.root))
            found = f"{files.path(_MANIFEST)}: it lacks {', '.join(sorted(missing))}"
            known = folders | set(shared_folders(files.root))
        except DamagedFileError as error:
            set_aside(files, _MANIFEST)
            missing, found, known = folders, str(error.where), folders
        if missing:
            note_folders(results, query, known)
            tell(f"{found}; the list of the query's shared folders is made anew")


def _queries_of(files: Files) -> list[str]:
    if not files.has(_QUERIES):
        return []
    try:
        return read_sealed(files, _QUERIES, lambda saved: [str(one) for one in saved["queries"]])
    except DamagedFileError:
        return []  # readers use only the lists of the queries
