"""A chain as it is saved between batches: its segments by name and the units that wait. It holds no rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment by the name it has in its store, with what there is to know of it without opening it."""

    number: int
    name: str
    side: str
    batch: int
    reach: int
    rows: int
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class WaitingUnit:
    """A unit by the numbers of its segments."""

    probe: int
    state: int
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class ChainManifest:
    """`numbered` is the last number given to a segment; `held` maps a query to the name of its rows kept in order."""

    numbered: int = 0
    segments: tuple[SegmentEntry, ...] = ()
    ledger: tuple[WaitingUnit, ...] = ()
    held: tuple[tuple[str, str], ...] = ()

    def names(self) -> set[str]:
        """Everything in the store that this chain still needs."""
        return {entry.name for entry in self.segments} | {name for _, name in self.held}

    def to_json(self) -> dict[str, Any]:
        return {
            "numbered": self.numbered,
            "segments": [asdict(entry) for entry in self.segments],
            "ledger": [[unit.probe, unit.state, unit.lo, unit.hi] for unit in self.ledger],
            "held": dict(self.held),
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> ChainManifest:
        return cls(
            saved["numbered"],
            tuple(SegmentEntry(**entry) for entry in saved["segments"]),
            tuple(WaitingUnit(*unit) for unit in saved["ledger"]),
            tuple(saved["held"].items()),
        )
