"""Lengths of time: text to microseconds and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import ScriptError
from millstream.model import duration
from millstream.model.duration import DAY, HOUR, LONGEST, MILLISECOND, MINUTE, SECOND


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("90 seconds", 90 * SECOND),
        ("1 minute 30 seconds", 90 * SECOND),
        ("1 min 30 s", 90 * SECOND),
        ("2.5 hours", 150 * MINUTE),
        (".5 s", 500 * MILLISECOND),
        ("-5 s", -5 * SECOND),
        ("1 day -1 hour", DAY - HOUR),
        ("  7MS ", 7 * MILLISECOND),
        ("1 us", 1),
        ("0 s", 0),
        ("1 week", 7 * DAY),
        ("3 D", 3 * DAY),
    ],
)
def test_parse(text: str, microseconds: int) -> None:
    assert duration.parse(text) == microseconds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "'' is not a length of time"),
        ("   ", "is not a length of time"),
        ("5", "'5' is not a length of time"),
        ("seconds", "is not a length of time"),
        ("5 seconds and more", "is not a length of time"),
        ("5 seconds,", "is not a length of time"),
        ("5 parsecs", 'unknown unit of time "parsecs"'),
        ("1 month", "a month has no fixed length"),
        ("2 years", "a year has no fixed length"),
        ("0.1 us", "is not a whole number of microseconds"),
        ("1e3 s", "unknown unit"),
        ("999999999 weeks", "is too long"),
        ("7000000 weeks 7000000 weeks", "is too long"),
        ("٣ s", "is not a length of time"),
    ],
)
def test_parse_refuses(text: str, found: str) -> None:
    with pytest.raises(ScriptError) as caught:
        duration.parse(text)
    assert found in caught.value.found


@pytest.mark.parametrize(
    ("amount", "unit", "microseconds"),
    [("5", "MINUTES", 5 * MINUTE), ("1.5", "s", 1_500_000), ("1e3", "ms", SECOND), (" -2 ", "Hours", -2 * HOUR)],
)
def test_of(amount: str, unit: str, microseconds: int) -> None:
    assert duration.of(amount, unit) == microseconds


@pytest.mark.parametrize("amount", ["", "x", "NaN", "Infinity", "1_000", "1e999999999", "5 minutes", "9" * 5000])
def test_of_refuses_what_is_no_number(amount: str) -> None:
    with pytest.raises(ScriptError, match="is not a number"):
        duration.of(amount, "seconds")


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0 s"),
        (1, "1 us"),
        (999, "999 us"),
        (1_500, "1.5 ms"),
        (SECOND, "1 s"),
        (SECOND + 1, "1.000001 s"),
        (2_500_000, "2.5 s"),
        (90 * SECOND, "90 s"),
        (10 * MINUTE, "10 min"),
        (90 * MINUTE, "90 min"),
        (25 * HOUR, "25 h"),
        (2 * DAY, "2 d"),
        (-90 * SECOND, "-90 s"),
        (100 * DAY, "100 d"),
    ],
)
def test_text(microseconds: int, text: str) -> None:
    assert duration.text(microseconds) == text


@given(st.integers(-LONGEST + 1, LONGEST - 1))
def test_what_is_printed_is_read_as_the_same_length(microseconds: int) -> None:
    assert duration.parse(duration.text(microseconds)) == microseconds


UNITS = ["us", "microseconds", "ms", "millisecond", "s", "SECONDS", "min", "minutes", "h", "Hour", "d", "days", "week"]


@given(st.lists(st.tuples(st.integers(-1000, 1000), st.sampled_from(UNITS)), min_size=1, max_size=4))
def test_pieces_add_up(pieces: list[tuple[int, str]]) -> None:
    text = " ".join(f"{amount} {unit}" for amount, unit in pieces)
    assert duration.parse(text) == sum(amount * duration.unit(unit) for amount, unit in pieces)


@given(st.text())
def test_any_text_is_a_length_or_refused_in_words(text: str) -> None:
    try:
        found: object = duration.parse(text)
    except ScriptError as error:
        found = error.found
    assert isinstance(found, int) or found
