"""Intervals on the time-difference axis d = T_right - T_left.

Half-open `[lo, hi)` in integer microseconds. Since time is whole microseconds, strict and inclusive ends are the
same thing one microsecond apart: `d > a` is `lo = a + 1`, `d <= b` is `hi = b + 1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millstream.errors import ScriptError
from millstream.model import duration


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A non-empty interval of time differences."""

    lo: int
    hi: int

    def __post_init__(self) -> None:
        if self.lo >= self.hi:
            first, last = duration.text(self.lo), duration.text(self.hi - 1)
            raise ScriptError(
                f"no time difference is both at least {first} and at most {last}",
                "the lower bound must not lie above the upper one",
                "Swap the bounds or widen one of them.",
            )
        if self.lo <= -duration.LONGEST or self.hi > duration.LONGEST:
            far = self.lo if self.lo <= -duration.LONGEST else self.hi
            raise ScriptError(
                f"a time difference of {duration.text(far)}", "times reach about 146,000 years", "Use a shorter time."
            )

    @classmethod
    def window(cls, size: int) -> Interval:
        """`WINDOW size`: |d| < size."""
        return cls.windows(size, size)

    @classmethod
    def windows(cls, left: int, right: int) -> Interval:
        """Per-stream windows: d < left when the right tuple is later, -d < right when the left tuple is later."""
        for size in (left, right):
            if size <= 0:
                raise ScriptError(
                    f"a window of {duration.text(size)} holds nothing",
                    "a window must be longer than zero",
                    "Give a positive length such as 1 MINUTE.",
                )
        return cls(1 - right, left)

    @classmethod
    def between(cls, first: int, last: int) -> Interval:
        """An interval with both ends inclusive."""
        return cls(first, last + 1)

    def mirrored(self) -> Interval:
        """The same pairs with left and right exchanged."""
        return Interval(1 - self.hi, 1 - self.lo)

    def covers(self, other: Interval) -> bool:
        return self.lo <= other.lo and other.hi <= self.hi

    @property
    def left_span(self) -> tuple[int, int] | None:
        """The ages at which a left tuple in the state matches right tuples that are no earlier (d >= 0)."""
        return (max(self.lo, 0), self.hi) if self.hi > 0 else None

    @property
    def right_span(self) -> tuple[int, int] | None:
        """The ages at which a right tuple in the state matches later left tuples (d < 0)."""
        return (max(1 - self.hi, 0), 1 - self.lo) if self.lo < 0 else None

    def __str__(self) -> str:
        """Interval notation; each end is written inclusive or strict, whichever number is rounder."""
        lo = f"({signed(self.lo - 1)}" if _rounder(self.lo - 1, self.lo) else f"[{signed(self.lo)}"
        hi = f"{signed(self.hi - 1)}]" if _rounder(self.hi - 1, self.hi) else f"{signed(self.hi)})"
        return f"{lo}, {hi}"


def signed(time: int) -> str:
    """A point on the axis with its sign: '-1 min', '0', '+1 min'."""
    return "0" if time == 0 else f"{'+' if time > 0 else ''}{duration.text(time)}"


def lower_text(first: int) -> str:
    """A lower bound in words; strict where that is the rounder number: 'at least 1 min', 'more than 0 s'."""
    strict = _rounder(first - 1, first)
    return f"more than {duration.text(first - 1)}" if strict else f"at least {duration.text(first)}"


def upper_text(last: int) -> str:
    """An upper bound in words: 'at most 1 min', 'less than 0 s'."""
    strict = _rounder(last + 1, last)
    return f"less than {duration.text(last + 1)}" if strict else f"at most {duration.text(last)}"


def cut_text(cut: int) -> str:
    """A cut as `explain` shows it, without the microsecond that makes an end strict or inclusive."""
    return signed(cut - 1) if _rounder(cut - 1, cut) else signed(cut)


def cut_texts(cuts: Sequence[int]) -> list[str]:
    """The same for several cuts; exact where two that differ by a microsecond would read alike."""
    rounded = [cut_text(cut) for cut in cuts]
    return [text if rounded.count(text) == 1 else signed(cut) for cut, text in zip(cuts, rounded, strict=True)]


def _rounder(a: int, b: int) -> bool:
    return _zeros(a) > _zeros(b)


def _zeros(time: int) -> int:
    if time == 0:
        return 99
    digits = str(abs(time))
    return len(digits) - len(digits.rstrip("0"))
