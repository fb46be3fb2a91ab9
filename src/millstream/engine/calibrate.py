"""What the engine's steps cost on this machine, measured with its own code."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pyarrow as pa

from millstream.engine.keys import codes
from millstream.engine.pairs import Pairs
from millstream.engine.probe import matches
from millstream.engine.segment import Segment, build
from millstream.engine.serving import routed
from millstream.model.interval import Interval
from millstream.plan import Calibration

_ROWS, _KEYS, _SPAN = 40_000, 8_000, 100_000_000
_SLICES, _CUTS = 8, 7


def measure() -> Calibration:
    """Takes well under two seconds."""
    rows, coded = _rows(1)
    insert = _best(lambda: build(1, "left", 1, _SPAN, rows, "Ts", coded)) / _ROWS
    state, probe = _segment("left", 1), _segment("right", 2)
    everything = Interval(-2 * _SPAN, 2 * _SPAN)
    whole = list(matches(probe, state, everything, "index"))
    count = sum(len(some) for some, _ in whole)
    matched = _best(lambda: list(matches(probe, state, everything, "index")))
    keyed = _best(lambda: np.repeat(state.ranges(probe.keys), probe.counts, axis=1))
    borders = np.linspace(-_SPAN, _SPAN, _SLICES + 1).astype(np.int64).tolist()
    slices = [Interval(lo, hi) for lo, hi in pairwise(borders)]
    sliced = _best(lambda: [list(matches(probe, state, piece, "index")) for piece in slices])
    pairs = Pairs(state, probe, whole[0][1], whole[0][0], {})
    sides, names = ((state, whole[0][1]), (probe, whole[0][0])), rows.schema.names
    gathered = _best(lambda: [segment.gather(name, picked) for segment, picked in sides for name in names]) / len(pairs)
    apart = _best(lambda: pairs.at(routed(pairs.differences(), borders[1:-1])[0])) / len(pairs)
    small = 400
    few = _segment("right", 3, small)
    scanned = _best(lambda: list(matches(few, state, everything, "scan"))) / (small * _ROWS)
    values = np.asarray(rows.column("a"))
    access = (matched - keyed) / count
    measured = Calibration(
        index_insert=insert,
        index_probe=keyed / _ROWS,
        boundary_search=max((sliced - matched) / (_SLICES - 1) / _ROWS, 1.0),
        index_access=max(access, 0.1),
        scan_compare=scanned,
        pair_emit=max(access, 0.1) + gathered,
        route=apart / (1 + np.log2(_CUTS + 1)),
        filter=_best(lambda: values > 0.5) / _ROWS,
    )
    return Calibration(**{name: round(float(value), 3) for name, value in asdict(measured).items()})


def _rows(seed: int, count: int = _ROWS) -> tuple[pa.RecordBatch, np.ndarray]:
    rng = np.random.default_rng(seed)
    keys = pa.array(rng.integers(0, _KEYS, count))
    times = pa.array(np.sort(rng.integers(0, _SPAN, count))).view(pa.timestamp("us", "UTC"))
    values = [pa.array(rng.random(count)) for _ in range(2)]
    rows = pa.RecordBatch.from_arrays([keys, *values, times], names=["k", "a", "b", "Ts"])
    return rows, codes([keys], count)


def _segment(side: str, seed: int, count: int = _ROWS) -> Segment:
    rows, coded = _rows(seed, count)
    return build(seed, side, seed, _SPAN, rows, "Ts", coded)


def _best(work: Callable[[], object]) -> float:
    """Nanoseconds of the fastest of five."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter_ns()
        work()
        best = min(best, time.perf_counter_ns() - start)
    return best
