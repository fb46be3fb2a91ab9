"""A chain as it is saved between batches: its segments by name and its deferred units. It holds no rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from millstream.engine.files import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEntry:
    """A segment by its name in the store, with what a reader needs to know before opening it.

    `stamps` are those of its files, in the order the store names them; none where it has no files.
    """

    number: int
    name: str
    side: str
    batch: int
    reach: int
    rows: int
    nbytes: int
    first: int
    last: int
    stamps: tuple[Stamp, ...] = ()

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> SegmentEntry:
        return cls(**{**saved, "stamps": tuple(Stamp(**stamp) for stamp in saved["stamps"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredUnit:
    """A unit by the numbers of its segments."""

    probe: int
    state: int
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """The name of stored rows that a query holds back for order. `since` tells the query from an earlier one of its
    name.
    """

    query: str
    since: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainManifest:
    """`numbered` is the last number given to a segment; `taken` counts the rows that ever became state, `expired` those
    of them that have expired, so the segments hold exactly the difference.
    """

    numbered: int = 0
    taken: int = 0
    expired: int = 0
    segments: tuple[SegmentEntry, ...] = ()
    ledger: tuple[DeferredUnit, ...] = ()
    held: tuple[HeldEntry, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "numbered": self.numbered,
            "taken": self.taken,
            "expired": self.expired,
            "segments": [asdict(entry) for entry in self.segments],
            "ledger": [[unit.probe, unit.state, unit.lo, unit.hi] for unit in self.ledger],
            "held": [asdict(entry) for entry in self.held],
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> ChainManifest:
        return cls(
            numbered=saved["numbered"],
            taken=saved["taken"],
            expired=saved["expired"],
            segments=tuple(SegmentEntry.from_json(entry) for entry in saved["segments"]),
            ledger=tuple(
                DeferredUnit(probe=probe, state=state, lo=lo, hi=hi) for probe, state, lo, hi in saved["ledger"]
            ),
            held=tuple(HeldEntry(**entry) for entry in saved["held"]),
        )
