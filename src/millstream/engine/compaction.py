"""Which neighbouring segments to merge, so that many small batches do not mean many segments.

A segment stays as it is while it is some times larger than all younger ones together; otherwise they become one. So
sizes fall geometrically from the oldest to the youngest: the segments a probe touches, and the merges a row goes
through, grow with the logarithm of the window. The smaller the batches, the more a probe pays per segment compared with
its rows, so the more is merged; the last few small batches are always one segment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from millstream.engine import widths
from millstream.engine.segment import Segment

SMALL = 8_192
"""Batches with fewer rows than this pay more for starting a probe than for its rows."""
_LEAST, _MOST = 2, 8
"""How many times larger than all younger ones a segment must be to stay as it is."""
SPANS = 4
"""Into how many parts a window is divided where batches are large."""


def run_to_merge(
    lane: Sequence[Segment], busy: Collection[int], spans: int = SPANS, largest: int | None = None
) -> slice | None:
    """The newest run of a lane (oldest segment first) worth merging; segments with deferred units are left alone.

    No segment is made longer than the window, after which rows expire, nor larger than columns can hold. In large
    batches the pairs of each segment are routed separately, and a shorter segment contains fewer cuts: there a segment
    spans at most one of `spans` parts of the window. Where memory is short, no run of over `largest` bytes is merged.
    """
    stop = len(lane)
    while stop > 1:
        newest = len(lane[stop - 1])
        oldest = _oldest(lane, stop, busy, max(lane[0].reach, 0) // (1 if newest < SMALL else spans), largest)
        larger, small = min(_LEAST + SMALL / 2 / newest, _MOST), min(_MOST * newest, SMALL)
        younger, start = 0, stop - 1
        for index in range(stop - 1, oldest - 1, -1):
            size = len(lane[index])
            if size < larger * younger or size + younger <= small:
                start = index
            younger += size
        if start < stop - 1:
            return slice(start, stop)
        stop = min(oldest, stop - 1)
    return None


def _oldest(lane: Sequence[Segment], stop: int, busy: Collection[int], longest: int, largest: int | None) -> int:
    """Where the run of free neighbours before `stop` begins that spans no more than the longest time and fits in one
    segment.
    """
    start, first, last, bulk, nbytes = stop, lane[stop - 1].first, lane[stop - 1].last, 0, 0
    while start > 0 and lane[start - 1].number not in busy:
        first, last = min(first, lane[start - 1].first), max(last, lane[start - 1].last)
        bulk += lane[start - 1].bulk
        nbytes += lane[start - 1].nbytes if largest is not None else 0
        if last - first > longest or (start < stop and (bulk > widths.LARGEST or nbytes > (largest or nbytes))):
            break
        start -= 1
    return start
