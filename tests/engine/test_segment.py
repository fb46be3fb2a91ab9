"""Segments: rows in the order of their codes and times, or of their times only, and every way to find them against
nested loops.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine import segment as module
from millstream.engine.keys import codes
from millstream.engine.segment import Lot, Segment, _order, build, merge

tuples = st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 20)), min_size=1, max_size=12)
wide = st.integers(0, 2**64 - 1)
# Few leading bits differ, few last bits differ, or all.
some_codes = st.lists(
    st.one_of(wide, st.integers(0, 20), st.integers(0, 15).map(lambda n: n << 60), st.integers(2**64 - 9, 2**64 - 1)),
    min_size=1,
    max_size=40,
)


def segment(
    rows: list[tuple[int, int]],
    number: int = 1,
    batch: int = 1,
    hidden_from: frozenset[str] = frozenset(),
    *,
    indexed: bool = True,
) -> Segment:
    keys = pa.array([key for key, _ in rows], pa.int64())
    times = pa.array([time for _, time in rows], pa.int64()).view(pa.timestamp("us", "UTC"))
    rows_ = pa.RecordBatch.from_arrays([keys, times], names=["k", "Ts"])
    return build(number, batch, Lot(7, hidden_from), rows_, "Ts", codes([keys], len(rows)), indexed=indexed)


def of_codes(given: list[int]) -> Segment:
    times = pa.array(range(len(given)), pa.int64()).view(pa.timestamp("us", "UTC"))
    rows = pa.RecordBatch.from_arrays([times], names=["Ts"])
    return build(1, 1, Lot(1), rows, "Ts", np.array(given, dtype=np.uint64))


def rows_of(one: Segment) -> list[tuple[int, int]]:
    return list(zip(one.rows.column("k").to_pylist(), one.times.tolist(), strict=True))


@given(tuples)
def test_a_segment_holds_its_rows_by_code_and_time(rows: list[tuple[int, int]]) -> None:
    one = segment(rows)
    by_code = dict(zip(*[list(some) for some in (range(4), codes([pa.array(range(4))], 4).tolist())], strict=True))
    assert rows_of(one) == sorted(rows, key=lambda row: (by_code[row[0]], row[1]))
    assert (one.first, one.last) == (min(time for _, time in rows), max(time for _, time in rows))
    assert one.keys.tolist() == sorted({by_code[key] for key, _ in rows})
    assert one.counts.tolist() == [sum(by_code[key] == code for key, _ in rows) for code in one.keys.tolist()]
    assert one.row_keys().tolist() == [by_code[key] for key, _ in rows_of(one)]


@given(st.lists(tuples, min_size=1, max_size=4))
def test_merged_segments_hold_the_same_rows_in_order(parts: list[list[tuple[int, int]]]) -> None:
    merged = merge(9, [segment(rows, number) for number, rows in enumerate(parts, start=1)])
    assert sorted(rows_of(merged)) == sorted(row for rows in parts for row in rows)
    row_keys = merged.row_keys()
    assert np.all(row_keys[1:] >= row_keys[:-1])
    same = row_keys[1:] == row_keys[:-1]
    assert np.all(merged.times[1:][same] >= merged.times[:-1][same])


@given(st.lists(tuples, min_size=1, max_size=4), st.integers(-21, 19), st.booleans())
def test_expired_rows_do_not_survive_a_merge(parts: list[list[tuple[int, int]]], expired: int, in_time: bool) -> None:
    """Of parts that follow each other in time too, which are sorted in another way."""
    if in_time:
        parts = [[(key, 100 * number + time) for key, time in rows] for number, rows in enumerate(parts)]
    kept = [row for rows in parts for row in rows if row[1] > expired]
    if not kept:
        return
    hidden = frozenset({"AB"})
    segments = [segment(rows, number, number, hidden) for number, rows in enumerate(parts, start=1)]
    one = merge(9, segments, expired)
    assert sorted(rows_of(one)) == sorted(kept)
    assert rows_of(one) == rows_of(segment(kept))
    assert (one.number, one.batch, one.lot) == (9, len(parts), Lot(7, hidden)), "still hidden from whom it was"
    assert one.first == min(time for _, time in kept)
    assert one.last >= max(time for _, time in kept)


def in_time(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Rows by time; those of the same time as they came."""
    return sorted(rows, key=lambda row: row[1])


@given(tuples)
def test_a_segment_to_be_scanned_is_in_order_of_time(rows: list[tuple[int, int]]) -> None:
    one = segment(rows, indexed=False)
    assert rows_of(one) == in_time(rows)
    assert (one.first, one.last) == (one.times[0], one.times[-1])
    assert one.row_keys().tolist() == codes([pa.array([key for key, _ in rows_of(one)])], len(rows)).tolist()
    assert one.counts.sum() == len(one)
    assert one.is_indexed == (len({key for key, _ in rows}) == 1), "one key is an index already"
    assert rows_of(one.indexed) == rows_of(segment(in_time(rows)))
    assert one.indexed is one.indexed, "sorted once"
    assert one.is_resorted != one.is_indexed


@given(st.lists(st.tuples(tuples, st.booleans()), min_size=1, max_size=4), st.integers(-21, 19), st.booleans())
def test_segments_are_appended_whatever_they_were_kept_for(
    parts: list[tuple[list[tuple[int, int]], bool]], expired: int, follow: bool
) -> None:
    if follow:
        parts = [([(key, 100 * n + time) for key, time in rows], indexed) for n, (rows, indexed) in enumerate(parts)]
    kept = [row for rows, _ in parts for row in rows if row[1] > expired]
    if not kept:
        return
    one = merge(
        9, [segment(rows, n, n, indexed=indexed) for n, (rows, indexed) in enumerate(parts)], expired, indexed=False
    )
    assert sorted(rows_of(one)) == sorted(kept)
    assert one.times.tolist() == sorted(time for _, time in kept)
    assert (one.first, one.last) == (one.times[0], one.times[-1])
    assert one.row_keys().tolist() == codes([pa.array([key for key, _ in rows_of(one)])], len(kept)).tolist()


def test_the_sorted_copy_of_a_scanned_segment_counts() -> None:
    one = segment([(1, 5), (2, 6), (1, 7)], indexed=False)
    before = one.nbytes
    assert before < segment([(1, 5), (2, 6), (1, 7)]).nbytes, "it has no index"
    assert one.nbytes == before
    assert one.indexed.nbytes == one.nbytes - before


def test_codes_that_differ_in_their_last_bits_only_are_sorted_too() -> None:
    given = np.array([5, 3, 4, 3, 2**63 + 1, 2**63, 5], dtype=np.uint64)
    times = pa.array(range(len(given)), pa.int64()).view(pa.timestamp("us", "UTC"))
    one = build(1, 1, Lot(1), pa.RecordBatch.from_arrays([times], names=["Ts"]), "Ts", given)
    assert one.row_keys().tolist() == sorted(given.tolist())
    assert one.times.tolist() == [1, 3, 2, 0, 6, 5, 4]


@given(some_codes)
def test_the_order_is_that_of_a_stable_sort(given: list[int]) -> None:
    some = np.array(given, dtype=np.uint64)
    assert _order(some).tolist() == np.argsort(some, kind="stable").tolist()


@given(some_codes, some_codes)
def test_keys_are_found_by_their_leading_bits_as_by_a_search(given: list[int], sought: list[int]) -> None:
    one = of_codes(given)
    asked = np.array([*sought, *given], dtype=np.uint64)
    assert one._positions(asked).tolist() == np.searchsorted(one.keys, asked).tolist()


@given(some_codes, some_codes, st.booleans())
def test_ranges_are_the_rows_of_a_code(given: list[int], sought: list[int], many: bool) -> None:
    """Among few keys and, with the limit lowered, among many."""
    one = of_codes(given)
    asked = np.array([*sought, *given], dtype=np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW", 0 if many else 10**6)
        begin, end = one.ranges(asked)
    rows = one.row_keys()
    for code, start, stop in zip(asked.tolist(), begin.tolist(), end.tolist(), strict=True):
        assert rows[start:stop].tolist() == [code] * given.count(code)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=20), st.lists(st.integers(-7, 7), min_size=1, max_size=6))
def test_times_are_located_in_each_range(times: list[int], asked: list[int]) -> None:
    one = segment([(0, time) for time in times])
    found = one.times
    for begin in range(len(times) + 1):
        for end in (begin, len(times)):
            ranges = np.full(len(asked), begin), np.full(len(asked), end)
            wanted = [begin + int(np.searchsorted(found[begin:end], time)) for time in asked]
            assert one.locate(*ranges, np.array(asked)).tolist() == wanted


def test_a_condition_is_evaluated_once() -> None:
    one, asked = segment([(1, 5), (2, 6)]), []

    def evaluate(some: Segment) -> np.ndarray:
        asked.append(some)
        return some.times > 5

    before = one.nbytes
    for _ in range(2):
        assert sorted(one.passes(frozenset(), evaluate).tolist()) == [False, True]
    assert asked == [one]
    assert one.nbytes == before + 2, "a mask counts"
