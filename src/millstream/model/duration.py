"""Lengths of time: text to integer microseconds and back."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from millstream.errors import ScriptError

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# Event times are 64-bit microseconds; half of that range leaves room for time plus window.
LONGEST = 2**62

_UNITS = {
    "microsecond": MICROSECOND,
    "us": MICROSECOND,
    "millisecond": MILLISECOND,
    "ms": MILLISECOND,
    "second": SECOND,
    "sec": SECOND,
    "s": SECOND,
    "minute": MINUTE,
    "min": MINUTE,
    "hour": HOUR,
    "h": HOUR,
    "day": DAY,
    "d": DAY,
    "week": 7 * DAY,
}
_SHOWN = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))
_PIECE = re.compile(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([A-Za-z]+)\s*", re.ASCII)
_AMOUNT = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?\s*", re.ASCII)
_LIMIT = "times reach about 146,000 years"
VALID_UNITS = "microseconds, milliseconds, seconds, minutes, hours, days and weeks are valid"


def unit(name: str) -> int:
    """Microseconds in one unit of time, by its singular, plural or short name."""
    lower = name.lower()
    size = _UNITS.get(lower) or (_UNITS.get(lower[:-1]) if lower.endswith("s") else None)
    if size is not None:
        return size
    if lower.rstrip("s") in ("month", "quarter", "year"):
        raise ScriptError(f"a {lower.rstrip('s')} has no fixed length", VALID_UNITS, "Write it in days.")
    raise ScriptError(f'unknown unit of time "{name}"', VALID_UNITS, "Write for example 90 SECONDS.")


def units(text: str) -> list[str]:
    """The units that a valid length is written with."""
    return [piece[2] for piece in _PIECE.finditer(text)]


def of(amount: str, unit_name: str) -> int:
    """An amount of a unit in microseconds; refuses fractions of a microsecond."""
    size = unit(unit_name)
    if not _AMOUNT.fullmatch(amount) or len(amount) > 60:
        found, valid = f"'{amount}' is not a number", "a length is a number and a unit"
        raise ScriptError(found, valid, "Write for example 5 MINUTES.")
    exact = Fraction(amount.strip()) * size
    if abs(exact) >= LONGEST:
        raise ScriptError(f"{amount} {unit_name} is too long", _LIMIT, "Use a shorter time.")
    if exact.denominator != 1:
        raise ScriptError(
            f"{amount} {unit_name} is not a whole number of microseconds",
            "time is counted in whole microseconds",
            "Round it to a microsecond.",
        )
    return int(exact)


def parse(text: str) -> int:
    """'90 seconds' or '1 minute 30 seconds' in microseconds."""
    position, total = 0, 0
    while position < len(text):
        piece = _PIECE.match(text, position)
        if piece is None:
            break
        total += of(piece[1], piece[2])
        position = piece.end()
    if not text.strip() or position < len(text):
        raise ScriptError(
            f"'{text}' is not a length of time",
            "a length is a number and a unit, such as '90 seconds' or '1 minute 30 seconds'",
            "Write the number, a space and the unit.",
        )
    if abs(total) >= LONGEST:
        raise ScriptError(f"'{text}' is too long", _LIMIT, "Use a shorter time.")
    return total


def text(microseconds: int) -> str:
    """The shortest exact text of a length of time: '10 min', '2.5 s', '1.000001 s'."""
    if microseconds == 0:
        return "0 s"
    size = abs(microseconds)
    sign = "-" if microseconds < 0 else ""
    for factor, name in _SHOWN:
        if size % factor == 0:
            return f"{sign}{size // factor} {name}"
    factor, name = (SECOND, "s") if size >= SECOND else (MILLISECOND, "ms") if size >= MILLISECOND else (1, "us")
    return f"{sign}{(Decimal(size) / factor).normalize():f} {name}"
