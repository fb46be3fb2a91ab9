"""Dates and times as text: the forms that Spark reads, shared by constants (Python) and columns (Arrow's RE2)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

# The blanks that a cast from text ignores: all characters up to the space, and the control characters above ASCII.
BLANKS = "".join(map(chr, [*range(0x21), *range(0x7F, 0xA0)]))
_DAY = r"^(?P<year>[+-]?\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
_OFFSET = (
    r"(?P<sign>[+-])(?:(?P<offset_hour>\d{1,2})(?::(?P<offset_minute>\d{1,2})(?::(?P<offset_second>\d{1,2}))?)?"
    r"|(?P<short_hour>\d{2})(?P<short_minute>\d{2})(?P<short_second>\d{2})?)"
)
_ZONE = rf"(?: ?(?:Z|UTC|(?:UTC|GMT|UT)?{_OFFSET}|GMT|UT))?"
_CLOCK = rf"(?P<hour>\d{{1,2}})(?::(?P<minute>\d{{1,2}})(?::(?P<second>\d{{1,2}})(?:\.(?P<fraction>\d*))?{_ZONE})?)?"
DATE_FORM = rf"(?s){_DAY}(?:[ T].*)?)?)?$"
TIME_FORM = rf"{_DAY}(?:[ T]{_CLOCK})?)?)?$"
PARTS = ("year", "month", "day", "hour", "minute", "second")
LIMITS = {"month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59), "second": (0, 59)}
LONGEST_OFFSET = 18 * 3600
SECOND, DAY = 1_000_000, 86_400_000_000
_YEAR = 31_556_952_000_000
MOST_DAYS = {"DATE": 2**31, "TIMESTAMP": 2**63 // DAY - 1}
"""The range of each type around 1970, in whole days."""


def days_of(year: Any, month: Any, day: Any) -> Any:
    """Days since 1970 in the Gregorian calendar, for numbers or arrays.

    Years are counted from March, so that a leap day is the last day of its year.
    """
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def in_month(year: Any, month: Any, day: Any) -> Any:
    """Whether the month, which is 1 to 12, has this day; for numbers or arrays."""
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    length = 30 + ((month + (month >> 3)) & 1) - (month == 2) * (2 - leap)
    return (day >= 1) & (day <= length)


def date_days(text: str) -> int | None:
    """A text's date in days since 1970, or None where it is no date."""
    found = re.match(DATE_FORM, text.strip(BLANKS), re.ASCII)
    return None if found is None else _days(found, "DATE")


def time_microseconds(text: str, *, zoned: bool) -> int | None:
    """A text's time in microseconds since 1970 in UTC, or None where it is no time; without `zoned` its zone is
    ignored.
    """
    found = re.match(TIME_FORM, text.strip(BLANKS), re.ASCII)
    days = None if found is None else _days(found, "TIMESTAMP")
    if found is None or days is None:
        return None
    clock = [int(found[part] or 0) for part in PARTS[3:]]
    if any(value > LIMITS[part][1] for value, part in zip(clock, PARTS[3:], strict=True)):
        return None
    hours, minutes, seconds = (
        int(found[f"offset_{part}"] or found[f"short_{part}"] or 0) for part in ("hour", "minute", "second")
    )
    offset = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or offset > LONGEST_OFFSET:
        return None
    fraction = int((found["fraction"] or "")[:6].ljust(6, "0"))
    offset = (-offset if found["sign"] == "-" else offset) if zoned else 0
    return days * DAY + (clock[0] * 3600 + clock[1] * 60 + clock[2] - offset) * SECOND + fraction


def _days(found: re.Match[str], kind: str) -> int | None:
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    if not 1 <= month <= 12 or not in_month(year, month, day):
        return None
    days = int(days_of(year, month, day))
    return days if abs(days) < MOST_DAYS[kind] else None


def text(microseconds: int) -> str:
    """A time for people: '2024-05-31 12:00:00.5 UTC', or the year alone where that has more than four digits."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return f"the year {1970 + microseconds // _YEAR}"
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} UTC"
