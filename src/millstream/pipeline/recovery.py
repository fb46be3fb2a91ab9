"""Recovery: from the files of a directory to a state that a run can resume from.

Recovery uses the newest manifest that is undamaged together with its state and its unpublished results. Newer ones are
set aside and their batches undone: what they published is removed, and Spark delivers their rows again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from millstream.engine.files import DamagedFileError, Files
from millstream.errors import ScriptError, Where
from millstream.pipeline import manifest as manifests
from millstream.pipeline.checkpoint import Checkpoint
from millstream.pipeline.directory import Directory
from millstream.pipeline.manifest import Manifest
from millstream.pipeline.registry import Registry
from millstream.pipeline.results import Target, check_staged, has_results, remove_later, sweep_staged
from millstream.pipeline.sealed import set_aside
from millstream.pipeline.shared_results import mend_shared
from millstream.pipeline.sinks import Sinks

_SEGMENT = re.compile(r"\d{8,}-\d{3,}-[0-9a-f]{10}-(?:\d+-\d+(?:\.index)?|held-\w+-[0-9a-f]+-[0-9a-f]{8})\.arrow")
_FOLDER = re.compile(r"batch=(\d{8,})")
Tell = Callable[[str], None]


def recover(directory: Directory, tell: Tell) -> None:
    """Called before anything is read: leaves undamaged manifests, statements and Spark logs that belong together."""
    _clear_the_way(directory.files, tell)
    files, damaged = directory.files.below("manifest"), []
    newest = None
    for batch in manifests.batches(files):
        try:
            newest = _whole(directory.files, batch)
            break
        except DamagedFileError as error:
            damaged.append((batch, error))
    if newest is None and damaged:
        raise _nothing_left(damaged)
    if newest is None:
        _check_unused(directory)
    _check_statements(directory.files, newest or Manifest())
    for batch, why in damaged:
        aside = set_aside(files, manifests.name_of(batch))
        tell(f"batch {batch} cannot be gone on from: {why.where}: {why.found}; its manifest is set aside as {aside}")
    if newest is not None and damaged:
        tell(f"the pipeline goes back to batch {newest.batch}: later batches never happened, and their rows come again")
    Registry(directory.files.below("registry")).mend(tell)
    Checkpoint(directory.files.below("spark")).reconcile(kept_manifests(directory), tell)


def kept_manifests(directory: Directory) -> list[Manifest]:
    """The undamaged ones of the kept manifests, newest first."""
    files, found = directory.files.below("manifest"), []
    for batch in manifests.batches(files):
        try:
            found.append(manifests.read(files, batch))
        except DamagedFileError:
            continue  # an older one, which is not needed
    return found[: manifests.KEPT]


def tidy(directory: Directory, last: Manifest, targets: Iterable[Target], sinks: Sinks, tell: Tell) -> None:
    """Called once the last batches are published: removes the files of all later batches."""
    own = _own_folders(directory)
    given = {target.folder for target in targets} - set(own)
    sweep_staged(own)
    sweep_staged(given, last.pipeline)
    removed = remove_later([*own, *sorted(given)], last.pipeline, last.batch)
    for sink in set(sinks.external.values()):
        if sink.is_files and last.batch:
            removed += _remove_folders(dict(sink.options), last.batch)
    if removed:
        tell(f"{removed} result files of batches after batch {last.batch} are removed: their rows come again")


def sweep(segments: Files, kept: Iterable[Manifest]) -> None:
    """Deletes every segment file that no kept batch names."""
    needed = {name for manifest in kept for name in manifest.segment_files()}
    for name in segments.names():
        if name not in needed and _SEGMENT.fullmatch(name):
            segments.delete(name)


def _whole(files: Files, batch: int) -> Manifest:
    """The manifest of a batch. Raises DamagedFileError where it or a file it relies on is damaged."""
    found = manifests.read(files.below("manifest"), batch)
    segments = files.below("segments")
    # Of remote files only the length is checked here; slots check the checksum of what they load.
    check = segments.check if segments.is_local else segments.check_size
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda one: check(*one), found.segment_files().items()))
        is_published = manifests.published(files.below("manifest")) >= batch
        list(pool.map(lambda output: check_staged(output, published=is_published), found.outputs))
    return found


def _nothing_left(damaged: list[tuple[int, DamagedFileError]]) -> ScriptError:
    batch, first = damaged[0]
    others = f", nor any of the {len(damaged) - 1} manifests before it" if len(damaged) > 1 else ""
    return ScriptError(
        f"batch {batch} cannot be gone on from{others}: {first.found}",
        f"one of the last {manifests.KEPT} manifests is whole, with all the files it names",
        "Put manifest/ and segments/ back from a backup, or start in a new directory.",
        first.where,
    )


def _check_unused(directory: Directory) -> None:
    """Refuses a directory with results but without a manifest: no batch was committed, so nothing can be published."""
    if directory.exists() and any(map(has_results, _own_folders(directory))):
        raise ScriptError(
            "there are results here, and no manifest",
            "a batch that has published results has a manifest",
            "Put manifest/ back from a backup, or start in a new directory.",
            Where(file=directory.files.path("manifest")),
        )


def _own_folders(directory: Directory) -> list[str]:
    return [
        f"{directory.location}/{parent}/{name}"
        for parent in ("results", "results/shared", "late", "outbox")
        for name in directory.files.folders(parent)
    ]


def _check_statements(files: Files, last: Manifest) -> None:
    registry = Registry(files.below("registry"))
    count = registry.count()
    where = Where(file=files.path("registry"))
    valid = "a pipeline goes on with the statements that were in force in its last batch"
    if count < last.statements or (last.batch and registry.checksum(last.statements) != last.registry):
        found = f"batch {last.batch} had {last.statements} entries in force; {min(count, last.statements)} of "
        found += "these are there" if count < last.statements else "these are there, and they are not the same"
        raise ScriptError(found, valid, "Put registry/ back from a backup, or start in a new directory.", where)
    for number in range(last.statements + 1, count + 1):
        entry = registry.entry(number)
        if entry.batch > last.batch + 1:
            raise ScriptError(
                f"batch {last.batch} is the newest that is whole, and entry {number} took effect with batch "
                f"{entry.batch}, in between batches that are lost",
                valid,
                f"Put the newer manifests back from a backup; or move {number:06}.json and those after it away, here "
                "and in copies/, and ask for these changes again.",
                where,
            )


def _clear_the_way(files: Files, tell: Tell) -> None:
    """Sets aside a folder that has the name of a file, since the first write of that file would fail."""
    for folder, pattern in (("manifest", r"\d{12,}\.json"), ("registry", r"\d{6,}\.json"), ("registry/copies", r".*")):
        for name in files.folders(folder):
            if re.fullmatch(pattern, name) and not name.endswith(".damaged"):
                aside = set_aside(files, f"{folder}/{name}")
                tell(f"{files.path(f'{folder}/{name}')} is a folder where a file belongs; it is set aside as {aside}")


def _remove_folders(options: dict[str, str], batch: int) -> int:
    path = {name.lower(): value for name, value in options.items()}.get("path")
    if path is None:
        return 0
    files, later = Files.at(path), range(batch + 1, batch + manifests.KEPT + 1)
    found = [name for name in files.folders() if (match := _FOLDER.fullmatch(name)) and int(match[1]) in later]
    for name in found:
        files.system.delete_dir(files.path(name))
    return len(found)


def prepare(directory: Directory, folders: Iterable[str], tell: Tell) -> None:
    """Called before anything is published. Raises ScriptError where the path of a result folder is not a folder."""
    mend_shared(f"{directory.location}/results", tell)
    for folder in folders:
        if "://" not in folder and Path(folder).exists() and not Path(folder).is_dir():
            raise ScriptError(
                "there is a file where a folder of results belongs",
                "every query and every stream has a folder",
                "Move the file away, or give the query another path.",
                Where(file=folder),
            )
