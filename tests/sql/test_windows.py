"""WINDOW and interval predicates: however it is written, the same interval."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.model import Bound, Interval, Query, RowsWindow, TimeWindow
from millstream.model.duration import DAY, HOUR, MILLISECOND, MINUTE, SECOND

ReadQuery = Callable[..., Query]


def interval_of(query: Query) -> Interval:
    assert isinstance(query.window, TimeWindow)
    (bound,) = query.window.bounds
    assert (bound.left, bound.right) == (0, 1)
    return bound.interval


@pytest.mark.parametrize(
    ("window", "left", "right"),
    [
        ("1 MINUTE", MINUTE, MINUTE),
        ("90 SECONDS", 90 * SECOND, 90 * SECOND),
        ("1.5 minutes", 90 * SECOND, 90 * SECOND),
        ("'90 seconds'", 90 * SECOND, 90 * SECOND),
        ("'1 minute 30 seconds'", 90 * SECOND, 90 * SECOND),
        ("'90' SECONDS", 90 * SECOND, 90 * SECOND),
        ("INTERVAL '5' MINUTE", 5 * MINUTE, 5 * MINUTE),
        ("INTERVAL 5 MINUTES", 5 * MINUTE, 5 * MINUTE),
        ("INTERVAL '2 hours'", 2 * HOUR, 2 * HOUR),
        ("250 MILLISECONDS", 250 * MILLISECOND, 250 * MILLISECOND),
        ("1 MICROSECOND", 1, 1),
        ("2 DAYS", 2 * DAY, 2 * DAY),
        ("1 week", 7 * DAY, 7 * DAY),
        ("T 5 MINUTES, H 1 MINUTE", 5 * MINUTE, MINUTE),
        ("H 1 MINUTE, T 5 MINUTES", 5 * MINUTE, MINUTE),
        ("t '5 minutes', h '1 minute'", 5 * MINUTE, MINUTE),
    ],
)
def test_every_form_of_window(query: ReadQuery, window: str, left: int, right: int) -> None:
    found = interval_of(query(f"SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW {window}"))
    assert found == Interval(1 - right, left)


def test_a_window_is_strict_on_both_sides(query: ReadQuery) -> None:
    found = interval_of(query("SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 1 SECOND"))
    assert (found.lo, found.hi - 1) == (-SECOND + 1, SECOND - 1)


def test_a_window_per_source_is_how_long_its_rows_wait(query: ReadQuery) -> None:
    """T waits 5 minutes for a later H, H waits 1 minute for a later T."""
    found = interval_of(query("SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW T 5 MINUTES, H 1 MINUTE"))
    assert found.covers(Interval.between(0, 5 * MINUTE - 1))
    assert not found.covers(Interval.between(5 * MINUTE, 5 * MINUTE))
    assert found.covers(Interval.between(-MINUTE + 1, 0))
    assert not found.covers(Interval.between(-MINUTE, -MINUTE))


SAME = [
    "H.Ts BETWEEN T.Ts - INTERVAL '5' MINUTE AND T.Ts + INTERVAL '30' SECOND",
    "H.Ts >= T.Ts - INTERVAL '5' MINUTE AND H.Ts <= T.Ts + INTERVAL '30' SECOND",
    "H.Ts <= T.Ts + INTERVAL '30' SECOND AND T.Ts <= H.Ts + INTERVAL '5' MINUTE",
    "T.Ts - INTERVAL '5' MINUTE <= H.Ts AND T.Ts + INTERVAL '30' SECOND >= H.Ts",
    "T.Ts BETWEEN H.Ts - INTERVAL '30' SECOND AND H.Ts + INTERVAL '5' MINUTE",
    "H.Ts - T.Ts BETWEEN INTERVAL '-5' MINUTE AND INTERVAL '30' SECOND",
    "H.Ts - T.Ts BETWEEN -INTERVAL '5' MINUTE AND INTERVAL 30 SECONDS",
    "T.Ts - H.Ts BETWEEN INTERVAL '-30 seconds' AND INTERVAL '5 minutes'",
    "INTERVAL '-5' MINUTE <= H.Ts - T.Ts AND H.Ts - T.Ts <= INTERVAL '30' SECOND",
    "H.Ts > T.Ts - INTERVAL '300000001' MICROSECOND AND H.Ts < T.Ts + INTERVAL '30000001' MICROSECONDS",
    "H.Ts + INTERVAL '5' MINUTE >= T.Ts AND H.Ts - INTERVAL '30' SECOND <= T.Ts",
    "H.Ts BETWEEN T.Ts - INTERVAL '4' MINUTE - INTERVAL '1' MINUTE AND INTERVAL '30' SECOND + T.Ts",
    "(H.Ts >= T.Ts - INTERVAL '5' MINUTE) AND (H.Ts <= T.Ts + INTERVAL '30' SECOND AND H.Ts <= T.Ts + INTERVAL 1 DAY)",
    "-(H.Ts - T.Ts) <= INTERVAL '5' MINUTE AND -(H.Ts - T.Ts) >= INTERVAL '-30' SECOND",
]


@pytest.mark.parametrize("predicate", SAME)
@pytest.mark.parametrize(
    "form",
    [
        "FROM T, H WHERE T.Id = H.Id AND {}",
        "FROM T JOIN H ON T.Id = H.Id AND {}",
        "FROM T JOIN H ON {} WHERE T.Id = H.Id",
    ],
)
def test_one_interval_written_in_many_ways(query: ReadQuery, predicate: str, form: str) -> None:
    found = query(f"SELECT T.Id {form.format(predicate)}")
    assert interval_of(found) == Interval.between(-5 * MINUTE, 30 * SECOND)
    assert found.residual == ()


@pytest.mark.parametrize("predicate", SAME[:6])
def test_exchanged_sources_mirror_the_interval(query: ReadQuery, predicate: str) -> None:
    found = query(f"SELECT T.Id FROM H, T WHERE T.Id = H.Id AND {predicate}")
    assert interval_of(found) == Interval.between(-5 * MINUTE, 30 * SECOND).mirrored()


@pytest.mark.parametrize(
    ("predicate", "first", "last"),
    [
        ("H.Ts >= T.Ts AND H.Ts <= T.Ts + INTERVAL '1' SECOND", 0, SECOND),
        ("H.Ts > T.Ts AND H.Ts <= T.Ts + INTERVAL '1' SECOND", 1, SECOND),
        ("H.Ts >= T.Ts AND H.Ts < T.Ts + INTERVAL '1' SECOND", 0, SECOND - 1),
        ("H.Ts > T.Ts AND H.Ts < T.Ts + INTERVAL '1' SECOND", 1, SECOND - 1),
        ("H.Ts BETWEEN T.Ts + INTERVAL '1' MINUTE AND T.Ts + INTERVAL '1' HOUR", MINUTE, HOUR),
        ("H.Ts BETWEEN T.Ts - INTERVAL '1' HOUR AND T.Ts - INTERVAL '1' MINUTE", -HOUR, -MINUTE),
        ("H.Ts = T.Ts", 0, 0),
        ("H.Ts = T.Ts + INTERVAL '1' SECOND", SECOND, SECOND),
        ("abs(H.Ts - T.Ts) < INTERVAL '1' SECOND", -SECOND + 1, SECOND - 1),
        ("abs(T.Ts - H.Ts) <= INTERVAL '1' SECOND", -SECOND, SECOND),
        ("INTERVAL '1' SECOND >= abs(T.Ts - H.Ts)", -SECOND, SECOND),
        ("abs(H.Ts - T.Ts - INTERVAL '1' MINUTE) <= INTERVAL '1' SECOND", MINUTE - SECOND, MINUTE + SECOND),
        ("abs(T.Ts - H.Ts) < INTERVAL '1' HOUR AND H.Ts >= T.Ts", 0, HOUR - 1),
    ],
)
def test_either_sign_and_either_inclusiveness(query: ReadQuery, predicate: str, first: int, last: int) -> None:
    found = interval_of(query(f"SELECT T.Id FROM T, H WHERE T.Id = H.Id AND {predicate}"))
    assert found == Interval.between(first, last)


@pytest.mark.parametrize(
    "predicate",
    ["T.Ts > T.At", "T.Ts - T.At < INTERVAL '1' MINUTE", "T.Ts > '2024-01-01'", "T.Ts > T.Ts - INTERVAL 1 DAY"],
)
def test_times_of_one_source_are_a_selection(query: ReadQuery, predicate: str) -> None:
    found = query(f"SELECT T.Id FROM T, H WHERE T.Id = H.Id AND {predicate} WINDOW 1 MINUTE")
    assert len(found.selections[0]) == 1
    assert interval_of(found) == Interval.window(MINUTE)


@pytest.mark.parametrize(
    "predicate", ["H.Ts > T.At", "H.Ts <> T.Ts", "(H.Ts > T.Ts OR T.Ok)", "abs(H.Ts - T.Ts) > INTERVAL '1' SECOND"]
)
def test_what_is_no_bound_stays_a_residual_predicate(query: ReadQuery, predicate: str) -> None:
    found = query(f"SELECT T.Id FROM T, H WHERE T.Id = H.Id AND {predicate} WINDOW 1 MINUTE")
    assert len(found.residual) == 1
    assert interval_of(found) == Interval.window(MINUTE)


def test_bounds_of_three_streams_are_closed(query: ReadQuery) -> None:
    found = query(
        "SELECT T.Id FROM T, H, P WHERE T.Id = H.Id AND H.Id = P.Id"
        " AND H.Ts BETWEEN T.Ts AND T.Ts + INTERVAL '1' MINUTE AND P.Ts BETWEEN H.Ts AND H.Ts + INTERVAL '2' MINUTES"
    )
    assert found.window == TimeWindow(
        (
            Bound(0, 1, Interval.between(0, MINUTE)),
            Bound(0, 2, Interval.between(0, 3 * MINUTE)),
            Bound(1, 2, Interval.between(0, 2 * MINUTE)),
        )
    )


def test_a_longer_way_round_tightens_a_bound(query: ReadQuery) -> None:
    found = query(
        "SELECT T.Id FROM T, H, P WHERE T.Id = H.Id AND H.Id = P.Id"
        " AND abs(T.Ts - H.Ts) <= INTERVAL '1' HOUR AND H.Ts = P.Ts AND abs(T.Ts - P.Ts) <= INTERVAL '1' SECOND"
    )
    assert isinstance(found.window, TimeWindow)
    assert found.window.bounds[0] == Bound(0, 1, Interval.between(-SECOND, SECOND))


def test_a_window_over_three_streams_bounds_every_pair(query: ReadQuery) -> None:
    found = query(
        "SELECT T.Id FROM T, H, P WHERE T.Id = H.Id AND H.Id = P.Id WINDOW T 1 SECOND, H 2 SECONDS, P 3 SECONDS"
    )
    assert found.window == TimeWindow(
        (
            Bound(0, 1, Interval.windows(SECOND, 2 * SECOND)),
            Bound(0, 2, Interval.windows(SECOND, 3 * SECOND)),
            Bound(1, 2, Interval.windows(2 * SECOND, 3 * SECOND)),
        )
    )


@pytest.mark.parametrize(
    ("window", "rows"), [("100 ROWS", (100, 100)), ("1 ROW", (1, 1)), ("H 5 ROWS, T 7 ROWS", (7, 5))]
)
def test_windows_in_rows(query: ReadQuery, window: str, rows: tuple[int, int]) -> None:
    found = query(f"SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW {window}")
    assert found.window == RowsWindow(rows)
