"""The manifest of a batch: everything a later batch, or a later process, needs to go on from it.

A batch has happened if and only if its manifest exists. Manifests are written atomically and never changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from millstream.engine.chain_manifest import ChainManifest
from millstream.engine.files import Files
from millstream.errors import ScriptError, Where

VERSION = 1
_KEPT = 3
Signature = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Final:
    """Where a result file is seen: in the folder of a query, under a name."""

    query: str
    folder: str
    name: str


@dataclass(frozen=True, slots=True)
class Output:
    """A result file: where a slot wrote it, and where it is seen once the batch is committed.

    One file may be seen by several queries. A `shared` one has one place, which all its queries' manifests name.
    """

    folder: str
    staged: str
    finals: tuple[Final, ...]
    rows: int
    shared: bool = False

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Output:
        return cls(**{**saved, "finals": tuple(Final(**final) for final in saved["finals"])})


@dataclass(frozen=True, slots=True)
class SlotManifest:
    """A slot's chains, and the token of the run that left them so."""

    token: str
    chains: Mapping[Signature, ChainManifest]


@dataclass(frozen=True, slots=True)
class Clock:
    """The greatest event time of a stream, and when its last row came."""

    greatest: int
    heard: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """`pipeline` is a name of chance for the life of a directory, so that files of two never have the same name.

    `spark_batch` is the last of Spark's batches that is in, `statements` how much of the registry is in force.

    `arrived` says when (microseconds) batches came whose units still wait.
    """

    batch: int = 0
    pipeline: str = ""
    spark_batch: int = -1
    statements: int = 0
    started: int = 0
    routing: tuple[int, ...] = ()
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    slots: Mapping[int, SlotManifest] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    arrived: Mapping[int, int] = field(default_factory=dict)

    @property
    def deferred(self) -> int:
        """How many units wait."""
        return sum(len(chain.ledger) for slot in self.slots.values() for chain in slot.chains.values())

    def segment_names(self) -> set[str]:
        """Everything in `segments/` this batch needs."""
        return {name for slot in self.slots.values() for chain in slot.chains.values() for name in chain.names()}

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "batch": self.batch,
            "pipeline": self.pipeline,
            "spark_batch": self.spark_batch,
            "statements": self.statements,
            "started_us": self.started,
            "routing": list(self.routing),
            "clocks": {name: asdict(clock) for name, clock in self.clocks.items()},
            "slots": {str(number): _slot_to_json(slot) for number, slot in self.slots.items()},
            "outputs": [asdict(output) for output in self.outputs],
            "arrived_us": {str(batch): time for batch, time in self.arrived.items()},
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Manifest:
        return cls(
            saved["batch"],
            saved["pipeline"],
            saved["spark_batch"],
            saved["statements"],
            saved["started_us"],
            tuple(saved["routing"]),
            {name: Clock(**clock) for name, clock in saved["clocks"].items()},
            {int(number): _slot_from_json(slot) for number, slot in saved["slots"].items()},
            tuple(Output.from_json(output) for output in saved["outputs"]),
            {int(batch): time for batch, time in saved["arrived_us"].items()},
        )


def _slot_to_json(slot: SlotManifest) -> dict[str, Any]:
    chains = [{"signature": list(key), **chain.to_json()} for key, chain in slot.chains.items()]
    return {"token": slot.token, "chains": chains}


def _slot_from_json(saved: dict[str, Any]) -> SlotManifest:
    chains = {tuple(chain["signature"]): ChainManifest.from_json(chain) for chain in saved["chains"]}
    return SlotManifest(saved["token"], chains)


def commit(files: Files, manifest: Manifest) -> None:
    """From here on the batch has happened. Manifests that nobody needs any more go."""
    content = json.dumps(manifest.to_json(), separators=(",", ":"))
    files.write(_name(manifest.batch), content.encode())
    files.delete(_name(manifest.batch - _KEPT))


def latest(files: Files) -> Manifest | None:
    """The manifest of the last committed batch."""
    batches = list(_batches(files.names()))
    if not batches:
        return None
    name = _name(max(batches))
    saved = json.loads(files.read(name))
    if saved["version"] != VERSION:
        raise ScriptError(
            f"the state was written in format {saved['version']}",
            f"this Millstream reads format {VERSION}",
            "Run the version that wrote it, or start in a new directory.",
            Where(file=files.path(name)),
        )
    return Manifest.from_json(saved)


def _batches(names: Iterable[str]) -> Iterable[int]:
    for name in names:
        number, _, ending = name.partition(".")
        if ending == "json" and number.isdigit():
            yield int(number)


def _name(batch: int) -> str:
    return f"{batch:012}.json"
