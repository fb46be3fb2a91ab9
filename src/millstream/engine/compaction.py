"""Which neighbouring segments to merge, so that many small batches do not mean many segments.

A run of neighbours is merged when its largest is not much larger than the others together: then every merge makes the
rows' segment half as large again, and a row is merged a logarithmic number of times. Very small segments count as
equal. A merged segment must not span too long a time, or its first rows would stay until its last may go.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from millstream.engine.segment import Segment

_RUN = 3
_SPANS_PER_REACH = 4
_TINY = 4_096
_MANY = 32


def run_to_merge(lane: Sequence[Segment], busy: Collection[int]) -> slice | None:
    """The newest run of a lane (oldest segment first) worth merging; segments with deferred units are left alone."""
    longest = max(lane[0].reach, 0) // _SPANS_PER_REACH if lane else 0
    for start in range(len(lane) - _RUN, -1, -1):
        sizes = [max(len(segment), _TINY) for segment in lane[start : start + _RUN]]
        if max(sizes) <= 2 * (sum(sizes) - max(sizes)):
            run = _fitting(lane, start, _RUN, busy, longest)
            if run is not None:
                return run
    if len(lane) <= _MANY:
        return None
    found = [_fitting(lane, start, 2, busy, longest) for start in range(len(lane) - 1)]
    pairs = [run for run in found if run is not None]
    return min(pairs, key=lambda run: len(lane[run.start]) + len(lane[run.start + 1]), default=None)


def _fitting(lane: Sequence[Segment], start: int, count: int, busy: Collection[int], longest: int) -> slice | None:
    """As many of these neighbours, from the oldest on, as are free and span no more than the longest time."""
    stop, first, last = start, lane[start].first, lane[start].last
    while stop < start + count and lane[stop].number not in busy:
        first, last = min(first, lane[stop].first), max(last, lane[stop].last)
        if last - first > longest:
            break
        stop += 1
    return slice(start, stop) if stop - start > 1 else None
