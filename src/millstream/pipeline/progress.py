"""The progress of a committed batch: rows, response times, state and where the time went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream.model.interval import Interval
from millstream.pipeline.adaptation import STRATEGIES
from millstream.pipeline.adaptation.decision import DEFAULTS
from millstream.plan.nodes import RIGHT

if TYPE_CHECKING:
    from millstream.pipeline.step import CommittedBatch


@dataclass(frozen=True, slots=True)
class SliceState:
    """State rows whose age lies in a slice, estimated from their segments' times."""

    interval: Interval
    rows: int


@dataclass(frozen=True, slots=True)
class Response:
    """Seconds from the arrival of a result's later row to the commit of the result."""

    rows: int
    median: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """One batch. Seconds are wall time on the driver; those of the slots are of the slowest slot.

    `warnings` are those in force, about late and unreadable rows. `shed` are rows that were left out because too many
    came, `reaches` for how many seconds pools keep rows that are cut short because memory is, `completeness` the
    estimated share of each query's results that is there, if rows were ever left out or cut, and `completeness_by` how
    it was estimated.
    `memory_bytes` of the state are in memory, of the `memory_limit` of all executors (0 where there is none), and
    `disk_bytes` on disk only; `owing` partition groups have results that wait for it. `adaptation` says what has been
    done about memory, and why. `held_back` says that new rows had to wait for this batch, `committed` is the time of
    the commit in seconds since 1970.
    """

    batch: int
    rows_in: Mapping[str, int]
    late: Mapping[str, int]
    queries: Mapping[str, Response]
    state_rows: int
    state_bytes: int
    slices: Mapping[str, tuple[SliceState, ...]]
    lag_seconds: Mapping[str, float]
    memory_bytes: int
    memory_limit: int
    disk_bytes: int
    deferred: int
    owing: int
    adaptation: str
    held_back: bool
    seconds: float
    split: Mapping[str, float]
    committed: float
    warnings: tuple[str, ...] = ()
    shed: Mapping[str, int] = field(default_factory=dict)
    completeness: Mapping[str, float] = field(default_factory=dict)
    reaches: Mapping[str, float] = field(default_factory=dict)
    completeness_by: str = ""

    def to_json(self) -> dict[str, Any]:
        shown = asdict(self)
        shown["slices"] = {
            chain: [{"lo_us": one.interval.lo, "hi_us": one.interval.hi, "rows": one.rows} for one in slices]
            for chain, slices in self.slices.items()
        }
        return shown


def progress(done: CommittedBatch, *, held_back: bool = False, delivered: float = 0.0) -> BatchProgress:
    """`delivered` are the seconds that external sinks took."""
    slowest = max(done.reports, key=lambda report: sum(report.seconds.values()))
    split = {name: slowest.seconds.get(name, 0.0) for name in ("read", "restore", "join", "write")}
    split["spark"] = max(0.0, done.worked - done.began - sum(slowest.seconds.values()))
    split["commit"] = done.published - done.worked
    split["deliver"] = delivered
    segments = [entry for slot in done.manifest.slots.values() for entry in slot.shard.segments]
    return BatchProgress(
        batch=done.manifest.batch,
        rows_in=_sums([*(report.rows_in for report in done.reports), done.shed.rows]),
        late=_sums(report.late for report in done.reports),
        queries=_responses(done),
        state_rows=sum(entry.rows for entry in segments),
        state_bytes=sum(entry.nbytes for entry in segments),
        slices=_slices(done),
        lag_seconds={stream: done.committed - greatest / 1e6 for stream, greatest in done.manifest.greatest.items()},
        memory_bytes=sum(entry.nbytes for entry in segments if not entry.on_disk),
        memory_limit=_limit(done),
        disk_bytes=sum(entry.nbytes for entry in segments if entry.on_disk),
        deferred=done.manifest.deferred,
        owing=done.manifest.owing,
        adaptation=done.adaptation,
        held_back=held_back,
        seconds=done.published - done.began + delivered,
        split=split,
        committed=done.committed,
        shed=done.shed.rows,
        completeness=done.completeness,
        reaches=done.reaches,
        completeness_by=done.completeness_by,
    )


def _limit(done: CommittedBatch) -> int:
    """The memory for state of all executors together; 0 where nothing is done to keep to it."""
    settings = done.plan.script.settings
    keeps = settings.memory_short == "shrink" or STRATEGIES[settings.adaptation](DEFAULTS).spills
    return settings.memory * len({report.executor for report in done.reports}) if keeps else 0


def _sums(parts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


def _responses(done: CommittedBatch) -> dict[str, Response]:
    waits: dict[str, list[tuple[float, int]]] = {}
    for report in done.reports:
        for (query, batch), rows in report.served.items():
            waits.setdefault(query, []).append((done.committed - _came(done, batch) / 1e6, rows))
    return {query: _quantiles(some) for query, some in waits.items()}


def _came(done: CommittedBatch, batch: int) -> int:
    """When a batch arrived; if that was not recorded, when the current one arrived."""
    return done.arrived.get(batch, done.arrived[done.manifest.batch])


def _quantiles(waits: list[tuple[float, int]]) -> Response:
    ordered = sorted(waits)
    counts = np.cumsum([rows for _, rows in ordered])
    at = [float(ordered[int(np.searchsorted(counts, share * counts[-1]))][0]) for share in (0.5, 0.99)]
    return Response(int(counts[-1]), *at)


def _slices(done: CommittedBatch) -> dict[str, tuple[SliceState, ...]]:
    """For each chain, the state rows by slice, with all positions on one axis."""
    found = {}
    for number, chain in enumerate(done.plan.chains, 1):
        entries = [
            (position, entry)
            for slot in done.manifest.slots.values()
            for position, pool in enumerate(chain.pools)
            for entry in slot.shard.pools[pool].segments
            if chain.signature not in entry.hidden_from
        ]
        newest = max((entry.last for _, entry in entries), default=0)
        slices = []
        for piece in chain.slices:
            lo, hi = piece.interval.lo, piece.interval.hi
            rows = 0.0
            for position, entry in entries:
                # A left row of age a waits for differences of a, a right row for -a; of more streams, for a span of a.
                near, far = (1 - hi, 1 - lo) if chain.is_pairwise and position == RIGHT else (lo, hi)
                oldest, youngest = newest - far + 1, newest - max(near, 0)
                rows += entry.rows * _share(entry.first, entry.last, oldest, youngest)
            slices.append(SliceState(piece.interval, round(rows)))
        found[f"chain {number}"] = tuple(slices)
    return found


def _share(first: int, last: int, oldest: int, youngest: int) -> float:
    """The share of a segment between two times, both inclusive, assuming evenly spread rows."""
    inside = min(last, youngest) - max(first, oldest) + 1
    return max(0.0, inside / (last - first + 1))
