"""The manifest of a batch: everything a later batch, or a later process, needs to go on from it.

A batch has happened if and only if its manifest exists. Manifests are written atomically and never changed. The last
few are kept, with everything they name, so that one that is damaged is not the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from millstream.engine.chain_manifest import ChainManifest
from millstream.engine.files import DamagedFileError, Files, Stamp, damaged
from millstream.engine.store import chain_files
from millstream.errors import ScriptError, Where
from millstream.pipeline.sealed import read_sealed, sealed
from millstream.plan.nodes import Signature

VERSION = 2
KEPT = 3
_PUBLISHED = "published"
_NAME = re.compile(r"(\d{12,})\.json")


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """Where a result file is seen: in the folder of a query, under a name."""

    query: str
    folder: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A result file: where a slot wrote it, and where it is seen once the batch is committed.

    One file may be seen by several queries. A `shared` one has one place, which all its queries' manifests name.
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
    """A slot's chains, and the token of the run that left them so."""

    token: str
    chains: Mapping[Signature, ChainManifest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`pipeline` is a random id for the life of a directory, so that files of two never have the same name.

    `spark_batch` is the last of Spark's batches that is in, `statements` how much of the registry is in force.

    `greatest` is the greatest event time of each stream, `watermarks` how far time has come for each chain, `codings`
    how its keys are coded. `arrived` says when (microseconds) batches came whose units still wait.

    `registry` is a checksum of the statements in force. `offsets` is what Spark noted of where `spark_batch` ends, and
    `sources` the checksums of its notes of the files it has read: without them rows would be lost or come twice.
    """

    batch: int = 0
    pipeline: str = ""
    spark_batch: int = -1
    statements: int = 0
    routing: tuple[int, ...] = ()
    greatest: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[Signature, int] = field(default_factory=dict)
    codings: Mapping[Signature, str] = field(default_factory=dict)
    slots: Mapping[int, SlotManifest] = field(default_factory=dict)
    outputs: tuple[StagedFile, ...] = ()
    arrived: Mapping[int, int] = field(default_factory=dict)
    registry: str = ""
    offsets: str = ""
    sources: Mapping[str, int] = field(default_factory=dict)

    @property
    def deferred(self) -> int:
        """How many units wait."""
        return sum(len(chain.ledger) for slot in self.slots.values() for chain in slot.chains.values())

    def segment_files(self) -> dict[str, Stamp]:
        """Every file in `segments/` this batch needs, and what it is known by."""
        chains = (chain for slot in self.slots.values() for chain in slot.chains.values())
        return {name: stamp for chain in chains for name, stamp in chain_files(chain).items()}

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
            registry=saved["registry"],
            offsets=saved["offsets"],
            sources=saved["sources"],
        )


def _slot_to_json(slot: SlotManifest) -> dict[str, Any]:
    chains = [{"signature": key, **chain.to_json()} for key, chain in slot.chains.items()]
    return {"token": slot.token, "chains": chains}


def _slot_from_json(saved: dict[str, Any]) -> SlotManifest:
    chains = {chain["signature"]: ChainManifest.from_json(chain) for chain in saved["chains"]}
    return SlotManifest(saved["token"], chains)


def commit(files: Files, manifest: Manifest, *, sync: bool = True) -> None:
    """From here on the batch has happened. Manifests that nobody needs any more go.

    Raises ScriptError where it has happened already: then this run has slept while another one came and went.
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
    """All results of a batch are where they are seen. Where that is not noted a later start looks itself."""
    if files.is_local:
        files.write(_PUBLISHED, str(batch).encode(), sync=False)


def published(files: Files) -> int:
    """The last batch known to be published; on object stores, where such a note is slow to write, simply the last."""
    if not files.is_local:
        return max(batches(files), default=0)
    note = files.read(_PUBLISHED) if files.size(_PUBLISHED) is not None else b""
    return int(note) if note.isdigit() else 0


def latest(files: Files) -> Manifest | None:
    """The newest manifest that is whole. Raises DamagedFileError where there are some and none of them is."""
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
    """The batches whose manifests are there, whole or not, newest first."""
    return sorted(_batches(files.names()), reverse=True)


def read(files: Files, batch: int) -> Manifest:
    """The manifest of a batch. Raises DamagedFileError where it is not whole."""
    name = name_of(batch)
    _check_version(files, name)
    manifest = read_sealed(files, name, Manifest.from_json)
    if manifest.batch != batch:
        raise damaged(files.path(name), f"the file is the manifest of batch {manifest.batch}")
    return manifest


def _check_version(files: Files, name: str) -> None:
    """Another version may have had no checksum or another one, so its files are known before they are checked."""
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
