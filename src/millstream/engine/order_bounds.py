"""Strict order: for each query, the least sort key that a future result row can have."""

from __future__ import annotations

from millstream.engine.compiled_chain import CompiledChain
from millstream.engine.release import Bounds
from millstream.engine.slice_paths import ages
from millstream.engine.units import Ledger


def order_bounds(
    compiled: CompiledChain,
    ledger: Ledger,
    *,
    watermark: int,
    batch: int,
    releases_early: bool,
    owed: int | None = None,
) -> dict[str, Bounds]:
    """Future rows come from deferred units, from tuples that arrive after `batch`, and from what spilled groups owe.

    `releases_early` says whether the policy releases rows of a tuple before it has scanned the whole window.
    """
    least = (watermark, batch + 1, 0)
    if owed is not None:
        least = min(least, (owed, 0, 0))
    fresh = dict.fromkeys(compiled.members, least)
    held = dict(fresh)
    tasks = list(ledger.earliest())
    if any(came < compiled.youngest for _, _, came in tasks):
        tasks = [(task.interval, task.first, task.probe.batch) for task in ledger.tasks()]
    for interval, first, came in tasks:
        near = ages(interval)[0]
        for name in compiled.slice_of(interval).queries:
            if compiled.members[name].since <= came:
                fresh[name] = min(fresh[name], (first, came, near))
                held[name] = min(held[name], (first, came, near if releases_early else 0))
    return {name: Bounds(fresh[name], held[name]) for name in compiled.members}
