"""Probes: which rows of a state segment match which rows of a probing one, within an interval.

Two access paths behind one function: *index* (keys and times found by binary search) and *scan* (every pair of rows
in the window compared, block by block). Matches come out in chunks of bounded size, so a hot key needs no more memory
than any other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from millstream.engine.arrow import Ints
from millstream.engine.on_disk import Piece
from millstream.engine.segment import Segment
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT

CHUNK = 1 << 16
_NUMBERS = np.arange(CHUNK)


Matches = tuple[Ints, Ints]
"""Rows of the probing segment and the matching rows of the state."""


def spread(begin: Ints, counts: Ints) -> Ints:
    """The row numbers of all ranges, concatenated; a chunk uses a precomputed array of numbers (bench tricks)."""
    ends = counts.cumsum()
    numbers: Ints = (begin - ends + counts).repeat(counts)
    numbers += _NUMBERS[: len(numbers)] if len(numbers) <= CHUNK else np.arange(len(numbers))
    return numbers


def matches(
    probe: Segment, at: int, state: Segment, interval: Interval, access: str, chunk: int = CHUNK
) -> Iterator[Matches]:
    """All pairs with equal codes whose time difference T_right - T_left lies in the interval; the probing segment is
    `at` the left or the right position.

    Where each side has one key only, as in a join without an equality, the index finds the rows in the window directly,
    so it serves scans too. The rows of the state are those of `searched`.
    """
    scanned = access == "scan" and (len(probe.keys) > 1 or len(state.keys) > 1)
    return _scan(probe, at, state, interval, chunk) if scanned else _index(probe, at, state, interval, chunk)


def searched(state: Segment, access: str) -> Segment:
    """The state as an access path finds its rows: an index needs them sorted, a scan takes them as they are."""
    return state if access == "scan" else state.indexed


def differences(probe: Piece, at: int, state: Piece) -> tuple[int, int]:
    """The least and the greatest time difference any pair of these rows can have."""
    left, right = (probe, state) if at == LEFT else (state, probe)
    return right.first - left.last, right.last - left.first


def _state_times(at: int, interval: Interval, times: Ints) -> tuple[Ints, Ints]:
    """For each probing row, the state times it matches: from the first, up to but not including the second."""
    if at == LEFT:
        return times + interval.lo, times + interval.hi
    return times - interval.hi + 1, times - interval.lo + 1


def ranges(probe: Segment, at: int, state: Segment, interval: Interval) -> tuple[Ints, Ints]:
    """For each probing row, where its matching rows in the state begin and end."""
    if not probe.is_indexed or 2 * len(probe.keys) > len(
        probe
    ):  # else each key is looked up once for all its rows (bench tricks)
        begin, end = state.ranges(probe.row_keys())
    else:
        begin, end = (found.repeat(probe.counts) for found in state.ranges(probe.keys))
    least, greatest = differences(probe, at, state)
    if interval.lo > least or interval.hi <= greatest:
        first, stop = _state_times(at, interval, probe.times)
        if first.max() > state.first:
            begin = state.locate(begin, end, first)
        if stop.min() <= state.last:
            end = state.locate(begin, end, stop)
    return begin, end


def _index(probe: Segment, at: int, state: Segment, interval: Interval, chunk: int) -> Iterator[Matches]:
    begin, end = ranges(probe, at, state, interval)
    rows = (end > begin).nonzero()[0]
    if len(rows):
        begin, end = begin.take(rows), end.take(rows)
        yield from in_chunks(rows, begin, end - begin, chunk)


def in_chunks(rows: Ints, begin: Ints, counts: Ints, chunk: int) -> Iterator[Matches]:
    """A bounded number of pairs at a time; a longer range is cut."""
    ends = counts.cumsum()
    start, done, total = 0, 0, int(ends[-1])
    while done < total:
        stop = len(rows) if total - done <= chunk else int(np.searchsorted(ends, done + chunk, side="right"))
        if stop == start:
            for offset in range(0, int(counts[start]), chunk):
                state_rows = np.arange(begin[start] + offset, begin[start] + min(offset + chunk, int(counts[start])))
                yield np.full(len(state_rows), rows[start]), state_rows
            stop = start + 1
        else:
            some = counts[start:stop]
            yield rows[start:stop].repeat(some), spread(begin[start:stop], some)
        done, start = int(ends[stop - 1]), stop


def _scan(probe: Segment, at: int, state: Segment, interval: Interval, chunk: int) -> Iterator[Matches]:
    """Compares keys, block by block. Where the state is in order of time, only the rows between the first and the last
    that a block of probing rows may match are looked at; where a block has several probing rows, or the state is in
    another order, the times of equal keys are compared too.
    """
    probe_keys, state_keys = probe.row_keys(), state.row_keys()
    first, stop = _state_times(at, interval, probe.times)
    least, greatest = differences(probe, at, state)
    is_timed = interval.lo > least or interval.hi <= greatest
    begin, end = np.zeros(len(probe), dtype=np.int64), np.full(len(probe), len(state))
    if is_timed and state.is_in_time:
        begin, end = state.times.searchsorted(first), state.times.searchsorted(stop)
    height = max(1, chunk // len(state))
    if height == 1:
        is_timed &= not state.is_in_time
    for top in range(0, len(probe), height):
        some = slice(top, top + height)
        low, high = int(begin[some].min()), int(end[some].max())
        for left in range(low, high, chunk):
            hit = probe_keys[some, None] == state_keys[None, left : min(left + chunk, high)]
            if height == 1:
                state_rows = hit[0].nonzero()[0]
                rows = np.full(len(state_rows), top)
            else:
                rows, state_rows = hit.nonzero()
                rows += top
            state_rows += left
            if is_timed and len(rows):
                times = state.times.take(state_rows)
                inside = (times >= first.take(rows)) & (times < stop.take(rows))
                rows, state_rows = rows[inside], state_rows[inside]
            if len(rows):
                yield rows, state_rows
