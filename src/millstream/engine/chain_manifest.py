"""A chain as it is saved between batches: its deferred units and the rows it holds back, by name. It holds no rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from millstream.plan.nodes import PoolName


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredUnit:
    """A unit by the numbers of its segments: the one that probes, from its position, and those it looks up at each of
    the others.
    """

    probe: int
    at: int
    lookup: tuple[tuple[int, ...], ...]
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
    """`floors` are the watermarks that pools had when the chain came to read them: of rows that had expired by then
    it sees none, whether they were still there or not. These are rows of batches up to `began_after`.
    """

    began_after: int = 0
    floors: Mapping[PoolName, int] = field(default_factory=dict)
    ledger: tuple[DeferredUnit, ...] = ()
    held: tuple[HeldEntry, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "began_after": self.began_after,
            "floors_us": dict(self.floors),
            "ledger": [[unit.probe, unit.at, unit.lookup, unit.lo, unit.hi] for unit in self.ledger],
            "held": [asdict(entry) for entry in self.held],
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> ChainManifest:
        return cls(
            began_after=saved["began_after"],
            floors=saved["floors_us"],
            ledger=tuple(
                DeferredUnit(probe=probe, at=at, lookup=tuple(map(tuple, lookup)), lo=lo, hi=hi)
                for probe, at, lookup, lo, hi in saved["ledger"]
            ),
            held=tuple(HeldEntry(**entry) for entry in saved["held"]),
        )
