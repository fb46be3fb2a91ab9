"""The manifest of a batch: everything a later batch or process needs to resume from it.

A batch is committed if and only if its manifest exists. Manifests are written atomically and never changed. The last
few are kept, with everything they name, so that a run can resume from an older one if one is damaged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from millstream.engine.files import DamagedFileError, Files, Stamp, damaged
from millstream.engine.shard_manifest import ShardManifest
from millstream.errors import ScriptError, Where
from millstream.pipeline.sealed import read_sealed, sealed
from millstream.plan.nodes import PoolName, Signature

VERSION = 4
KEPT = 3
_PUBLISHED = "published"
_NAME = re.compile(r"(\d{12,})\.json")


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """Where a result file is published: the folder of a query, and a name."""

    query: str
    folder: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A result file: where a slot wrote it, and where it is published once the batch is committed.

    One file may be published for several queries. A `shared` file has one place, which all its queries' manifests name.
    `size` is its length in bytes.
    """

    folder: str
    staged: str
    finals: tuple[PublishedFile, ...]
    rows: int
    shared: bool = False
    size: int = 0

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> StagedFile:
        return cls(**{**saved, "finals": tuple(PublishedFile(**final) for final in saved["finals"])})


@dataclass(frozen=True, slots=True)
class SlotManifest:
    """A slot's shard, and a token that identifies this state of it."""

    token: str
    shard: ShardManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`pipeline` is a random id for the life of a directory, so that files of two never have the same name.

    `spark_batch` is the last of Spark's batches that is committed, `statements` how many registry entries are in force.

    `greatest` is the greatest event time of each stream, `watermarks` the watermark of each chain, `codings` how the
    keys of each pool are coded. `arrived` holds the arrival times (microseconds) of batches with deferred units or held
    rows, `unfinished` for each chain in strict order the earliest time of a result row that is deferred or owed.

    `statistics` is what has been measured so far, `shed` what has been left out; both as they are saved.

    `registry` is a checksum of the statements in force. `offsets` is Spark's record of where `spark_batch` ends, and
    `sources` the checksums of its logs of files read: without them rows would be lost or come twice.
    """

    batch: int = 0
    pipeline: str = ""
    spark_batch: int = -1
    statements: int = 0
    routing: tuple[int, ...] = ()
    greatest: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[Signature, int] = field(default_factory=dict)
    codings: Mapping[PoolName, str] = field(default_factory=dict)
    slots: Mapping[int, SlotManifest] = field(default_factory=dict)
    outputs: tuple[StagedFile, ...] = ()
    arrived: Mapping[int, int] = field(default_factory=dict)
    unfinished: Mapping[Signature, int] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)
    shed: Mapping[str, Any] = field(default_factory=dict)
    registry: str = ""
    offsets: str = ""
    sources: Mapping[str, int] = field(default_factory=dict)

    @property
    def deferred(self) -> int:
        """The number of deferred units."""
        return sum(slot.shard.deferred for slot in self.slots.values())

    @property
    def owing(self) -> int:
        """The number of partition groups that owe results."""
        return sum(slot.shard.owing.bit_count() for slot in self.slots.values())

    def segment_files(self) -> dict[str, Stamp]:
        """Every file in `segments/` that this batch needs, with its stamp."""
        return {name: stamp for slot in self.slots.values() for name, stamp in slot.shard.files().items()}

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "batch": self.batch,
            "pipeline": self.pipeline,
            "spark_batch": self.spark_batch,
            "statements": self.statements,
            "routing": list(self.routing),
            "greatest_us": dict(self.greatest),
            "watermarks_us": dict(self.watermarks),
            "codings": dict(self.codings),
            "slots": {str(number): _slot_to_json(slot) for number, slot in self.slots.items()},
            "outputs": [asdict(output) for output in self.outputs],
            "arrived_us": {str(batch): time for batch, time in self.arrived.items()},
            "unfinished_us": dict(self.unfinished),
            "statistics": dict(self.statistics),
            "shed": dict(self.shed),
            "registry": self.registry,
            "offsets": self.offsets,
            "sources": dict(self.sources),
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Manifest:
        return cls(
            batch=saved["batch"],
            pipeline=saved["pipeline"],
            spark_batch=saved["spark_batch"],
            statements=saved["statements"],
            routing=tuple(saved["routing"]),
            greatest=saved["greatest_us"],
            watermarks=saved["watermarks_us"],
            codings=saved["codings"],
            slots={int(number): _slot_from_json(slot) for number, slot in saved["slots"].items()},
            outputs=tuple(StagedFile.from_json(output) for output in saved["outputs"]),
            arrived={int(batch): time for batch, time in saved["arrived_us"].items()},
            unfinished=saved.get("unfinished_us", {}),
            statistics=saved.get("statistics", {}),
            shed=saved.get("shed", {}),
            registry=saved["registry"],
            offsets=saved["offsets"],
            sources=saved["sources"],
        )


def _slot_to_json(slot: SlotManifest) -> dict[str, Any]:
    return {"token": slot.token, **slot.shard.to_json()}


def _slot_from_json(saved: dict[str, Any]) -> SlotManifest:
    return SlotManifest(saved["token"], ShardManifest.from_json(saved))


@dataclass(frozen=True, slots=True)
class SavedSlots:
    """The slots of a manifest, each parsed when it is asked for: a worker restores few of many."""

    path: str
    slots: Mapping[str, dict[str, Any]]

    @classmethod
    def read(cls, files: Files, batch: int) -> SavedSlots:
        """Raises DamagedFileError where the manifest is damaged."""
        name = name_of(batch)
        return cls(files.path(name), read_sealed(files, name, lambda saved: dict(saved["slots"])))

    def shard(self, slot: int) -> ShardManifest:
        """The saved shard of a slot. Raises DamagedFileError where the manifest has none."""
        if str(slot) not in self.slots:
            raise damaged(self.path, f"it has no slot {slot}")
        return _slot_from_json(self.slots[str(slot)]).shard


def commit(files: Files, manifest: Manifest, *, sync: bool = True) -> None:
    """Commits the batch, and deletes the manifest that is no longer kept.

    Raises ScriptError where the batch is committed already: then another run came and went while this one was
    suspended.
    """
    if files.has(name_of(manifest.batch)):
        raise ScriptError(
            f"another run has committed batch {manifest.batch}",
            "a directory belongs to one running pipeline",
            "Nothing of this batch counts. Start again, when the other one has stopped.",
            Where(file=files.path(name_of(manifest.batch))),
        )
    files.write(name_of(manifest.batch), sealed(manifest.to_json()), sync=sync)
    files.delete(name_of(manifest.batch - KEPT))


def note_published(files: Files, batch: int) -> None:
    """Notes that all results of a batch are published. Without the note, a later start checks the files."""
    if files.is_local:
        files.write(_PUBLISHED, str(batch).encode(), sync=False)


def published(files: Files) -> int:
    """The last batch known to be published; on object stores, where the note would be slow to write, simply the last
    batch.
    """
    if not files.is_local:
        return max(batches(files), default=0)
    note = files.read(_PUBLISHED) if files.size(_PUBLISHED) is not None else b""
    return int(note) if note.isdigit() else 0


def latest(files: Files) -> Manifest | None:
    """The newest undamaged manifest. Raises DamagedFileError where all of them are damaged."""
    first: DamagedFileError | None = None
    for batch in batches(files):
        try:
            return read(files, batch)
        except DamagedFileError as error:
            first = first or error
    if first is not None:
        raise first
    return None


def batches(files: Files) -> list[int]:
    """The batches that have a manifest, damaged or not, newest first."""
    return sorted(_batches(files.names()), reverse=True)


def read(files: Files, batch: int) -> Manifest:
    """The manifest of a batch. Raises DamagedFileError where it is damaged."""
    name = name_of(batch)
    _check_version(files, name)
    manifest = read_sealed(files, name, Manifest.from_json)
    if manifest.batch != batch:
        raise damaged(files.path(name), f"the file is the manifest of batch {manifest.batch}")
    return manifest


def _check_version(files: Files, name: str) -> None:
    """Comes before the checksum is verified, since another version may have none or a different one."""
    try:
        saved = json.loads(files.read(name))
    except (ValueError, FileNotFoundError):
        return
    version = saved.get("version") if isinstance(saved, dict) and "batch" in saved else None
    if isinstance(version, int) and version != VERSION:
        raise ScriptError(
            f"the state was written in format {version}",
            f"this Millstream reads format {VERSION}",
            "Run the version that wrote it, or start in a new directory.",
            Where(file=files.path(name)),
        )


def _batches(names: Iterable[str]) -> Iterator[int]:
    for name in names:
        number = _NAME.fullmatch(name)
        if number:
            yield int(number[1])


def name_of(batch: int) -> str:
    return f"{batch:012}.json"
