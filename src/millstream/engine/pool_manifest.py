"""A pool as it is saved between batches: its segments by name. It holds no rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from millstream.engine.files import Stamp
from millstream.engine.groups import Groups
from millstream.engine.groups import from_json as groups_from_json
from millstream.engine.groups import to_json as groups_to_json
from millstream.engine.watermark import NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEntry:
    """A segment by its name in the store, with what a reader needs to know before opening it.

    Its rows came too late for the chains it is `hidden_from`. `stamps` are those of its files, in the order the store
    names them; none where it has no files. Where `groups` are given, it is the rows of these partition groups only, and
    its files hold others too. One that is `on_disk` has been spilled. A `retired` one is there for deferred units only.
    """

    number: int
    name: str
    batch: int
    reach: int
    rows: int
    nbytes: int
    first: int
    last: int
    hidden_from: tuple[str, ...] = ()
    stamps: tuple[Stamp, ...] = ()
    groups: Groups | None = None
    on_disk: bool = False
    retired: bool = False

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "groups": groups_to_json(self.groups)}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> SegmentEntry:
        stamps = tuple(Stamp(**stamp) for stamp in saved["stamps"])
        groups = groups_from_json(saved["groups"])
        return cls(**{**saved, "hidden_from": tuple(saved["hidden_from"]), "stamps": stamps, "groups": groups})


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolManifest:
    """`taken` counts the rows that ever became state, `expired` those of them that have expired or gone to another
    slot, so the segments hold exactly the difference. `watermark` is the one up to which they have expired.
    """

    taken: int = 0
    expired: int = 0
    watermark: int = NEVER
    segments: tuple[SegmentEntry, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "taken": self.taken,
            "expired": self.expired,
            "watermark_us": self.watermark,
            "segments": [entry.to_json() for entry in self.segments],
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> PoolManifest:
        return cls(
            taken=saved["taken"],
            expired=saved["expired"],
            watermark=saved["watermark_us"],
            segments=tuple(SegmentEntry.from_json(entry) for entry in saved["segments"]),
        )
