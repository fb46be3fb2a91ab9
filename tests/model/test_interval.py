"""Intervals of time differences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import ScriptError
from millstream.model import Interval
from millstream.model.duration import LONGEST, MINUTE, SECOND
from millstream.model.interval import cut_text, lower_text, upper_text

TIMES = st.integers(-LONGEST // 4, LONGEST // 4)
INTERVALS = st.tuples(TIMES, st.integers(1, LONGEST // 4)).map(lambda pair: Interval(pair[0], pair[0] + pair[1]))
NEAR = st.integers(-50, 50)
SMALL = st.tuples(NEAR, st.integers(1, 60)).map(lambda pair: Interval(pair[0], pair[0] + pair[1]))


def holds(interval: Interval, difference: int) -> bool:
    return interval.lo <= difference < interval.hi


def test_a_window_is_strict_and_between_is_inclusive() -> None:
    assert Interval.window(SECOND) == Interval.between(-SECOND + 1, SECOND - 1)
    assert Interval.windows(5 * MINUTE, MINUTE) == Interval.between(-MINUTE + 1, 5 * MINUTE - 1)
    assert Interval.between(3, 3) == Interval(3, 4)


@given(SMALL, NEAR)
def test_windows_hold_what_their_definition_says(interval: Interval, difference: int) -> None:
    size = interval.hi - interval.lo
    assert holds(Interval.window(size), difference) == (abs(difference) < size)
    first, last = interval.lo, interval.hi - 1
    assert holds(Interval.between(first, last), difference) == (first <= difference <= last)


@given(st.integers(1, 50), st.integers(1, 50), NEAR)
def test_per_stream_windows_hold_what_their_definition_says(left: int, right: int, difference: int) -> None:
    later_right = 0 <= difference < left
    later_left = 0 <= -difference < right
    assert holds(Interval.windows(left, right), difference) == (later_right or later_left)


@given(INTERVALS)
def test_mirrored_twice_is_itself(interval: Interval) -> None:
    assert interval.mirrored().mirrored() == interval


@given(SMALL, NEAR)
def test_mirrored_holds_the_opposite_differences(interval: Interval, difference: int) -> None:
    assert holds(interval, difference) == holds(interval.mirrored(), -difference)


@given(SMALL, SMALL)
def test_covers_is_holding_every_difference(one: Interval, other: Interval) -> None:
    assert one.covers(other) == all(holds(one, difference) for difference in range(other.lo, other.hi))


@given(SMALL)
def test_spans_are_the_ages_on_either_side_of_zero(interval: Interval) -> None:
    """A left tuple waits for d >= 0, a right one for d < 0."""
    differences = range(interval.lo, interval.hi)
    left, right = interval.left_span, interval.right_span
    assert [d for d in differences if d >= 0] == (list(range(*left)) if left else [])
    ages = [-d for d in differences if d < 0]
    assert set(ages) == {age for age in (range(*right) if right else ()) if age > 0}


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: Interval(5, 5), "no time difference is both at least 5 us and at most 4 us"),
        (lambda: Interval.between(MINUTE, -MINUTE), "at least 1 min and at most -1 min"),
        (lambda: Interval.window(0), "a window of 0 s holds nothing"),
        (lambda: Interval.window(-SECOND), "a window of -1 s holds nothing"),
        (lambda: Interval.windows(SECOND, 0), "a window of 0 s holds nothing"),
        (lambda: Interval(0, LONGEST + 1), "a time difference of"),
        (lambda: Interval(-LONGEST, 0), "a time difference of"),
    ],
)
def test_an_empty_or_endless_interval_cannot_be_made(make: object, found: str) -> None:
    with pytest.raises(ScriptError) as caught:
        make()
    assert found in caught.value.found


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval.window(MINUTE), "(-1 min, +1 min)"),
        (Interval.between(-MINUTE, 30 * SECOND), "[-1 min, +30 s]"),
        (Interval.between(0, 10 * SECOND), "[0, +10 s]"),
        (Interval(0, 10 * SECOND), "[0, +10 s)"),
        (Interval(1, 10 * SECOND), "(0, +10 s)"),
        (Interval.between(-5 * MINUTE, -MINUTE), "[-5 min, -1 min]"),
    ],
)
def test_text_uses_the_rounder_end(interval: Interval, text: str) -> None:
    assert str(interval) == text


@pytest.mark.parametrize(
    ("cut", "text"), [(MINUTE, "+1 min"), (MINUTE + 1, "+1 min"), (0, "0"), (1 - MINUTE, "-1 min")]
)
def test_a_ruler_leaves_out_the_microsecond_of_strictness(cut: int, text: str) -> None:
    assert cut_text(cut) == text


@pytest.mark.parametrize(
    ("time", "lower", "upper"),
    [
        (MINUTE, "at least 1 min", "at most 1 min"),
        (MINUTE + 1, "more than 1 min", "at most 60.000001 s"),
        (MINUTE - 1, "at least 59.999999 s", "less than 1 min"),
        (0, "at least 0 s", "at most 0 s"),
        (1, "more than 0 s", "at most 1 us"),
        (-1, "at least -1 us", "less than 0 s"),
        (4, "at least 4 us", "at most 4 us"),
    ],
)
def test_a_bound_in_words_is_strict_where_that_is_rounder(time: int, lower: str, upper: str) -> None:
    assert (lower_text(time), upper_text(time)) == (lower, upper)
