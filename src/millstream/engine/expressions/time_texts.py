"""Times as text: read in the forms of `moments`, all rows at once, and written as Spark writes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Bools, Ints
from millstream.engine.expressions import times
from millstream.engine.expressions.some_rows import spread
from millstream.engine.expressions.strings import joined, unblanked
from millstream.engine.expressions.values import as_bools
from millstream.model import moments

_YEAR_0, _YEAR_9999 = moments.days_of(0, 1, 1), moments.days_of(9999, 12, 31)
_FOUR_CENTURIES = 146_097
"""Days after which the calendar repeats."""


class _Parts:
    """The parts of times, cut out of texts; `ok` says which texts have a valid form with every part in its range."""

    def __init__(self, value: pa.Array, form: str) -> None:
        found = pc.extract_regex(value, form)
        self.ok: Bools = as_bools(pc.is_valid(found))
        self._parts = dict(zip((field.name for field in found.type), found.flatten(), strict=True))

    def text(self, name: str) -> pa.Array:
        return pc.fill_null(self._parts[name], "")

    def number(self, name: str, default: int = 0) -> Ints:
        text = pc.replace_substring_regex(self.text(name), r"^\+", "")
        text = pc.if_else(pc.equal(text, pa.scalar("")), pa.scalar(str(default)), text)
        return np.asarray(pc.cast(text, pa.int64()))

    def limited(self, name: str) -> Ints:
        low, high = moments.LIMITS[name]
        found = self.number(name, low)
        self.ok &= (found >= low) & (found <= high)
        return found

    def days(self, kind: str) -> Ints:
        year, month, day = self.number("year", 1970), self.limited("month"), self.limited("day")
        self.ok &= moments.in_month(year, np.clip(month, 1, 12), day)
        found = np.asarray(moments.days_of(year, month, day), dtype=np.int64)
        self.ok &= np.abs(found) < moments.MOST_DAYS[kind]
        return found

    def offset(self) -> Ints:
        """Seconds east of UTC."""
        hours, minutes, seconds = (
            self.number(f"offset_{part}") + self.number(f"short_{part}") for part in ("hour", "minute", "second")
        )
        found = hours * 3600 + minutes * 60 + seconds
        self.ok &= (minutes < 60) & (seconds < 60) & (found <= moments.LONGEST_OFFSET)
        west = as_bools(pc.equal(self.text("sign"), pa.scalar("-")))
        return np.asarray(np.where(west, -found, found), dtype=np.int64)


def read_days(value: pa.Array) -> pa.Array:
    """Days since 1970."""
    parts = _Parts(unblanked(value), moments.DATE_FORM)
    days = parts.days("DATE")
    return pa.array(np.where(parts.ok, days, 0).astype(np.int32), mask=~parts.ok)


def read_microseconds(value: pa.Array, *, zoned: bool) -> pa.Array:
    """Microseconds since 1970; an offset counts if `zoned`."""
    parts = _Parts(unblanked(value), moments.TIME_FORM)
    days = parts.days("TIMESTAMP")
    hour, minute, second = (parts.limited(name) for name in ("hour", "minute", "second"))
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(parts.text("fraction"), 0, 6), 6, "0")
    offset = parts.offset()
    clock = hour * 3600 + minute * 60 + second - (offset if zoned else 0)
    found = (
        np.where(parts.ok, days, 0) * moments.DAY + clock * moments.SECOND + np.asarray(pc.cast(fraction, pa.int64()))
    )
    return pa.array(found, mask=~parts.ok)


def time_texts(value: pa.Array) -> pa.Array:
    """Texts of timestamps without a zone: the fraction has as many digits as it needs."""
    days = pc.floor_temporal(value, 1, "day")
    clock = pc.cast(pa.array(times.clock(value)).view(pa.timestamp("us")), pa.string())
    clock = pc.utf8_rtrim(pc.utf8_rtrim(pc.utf8_slice_codeunits(clock, -15), "0"), ".")
    return joined(day_texts(pc.cast(days, pa.date32(), safe=False)), pa.scalar(" "), clock)


def day_texts(value: pa.Array) -> pa.Array:
    """Texts of dates; years before 0 and after 9999 have a sign."""
    days = np.asarray(pc.fill_null(value.view(pa.int32()), 0)).astype(np.int64)
    far = np.flatnonzero((days < _YEAR_0) | (days > _YEAR_9999))
    if not len(far):
        return pc.cast(value, pa.string())
    usual = np.ones(len(days), dtype=np.bool_)
    usual[far] = False
    near = pc.cast(pc.if_else(pa.array(usual), value, pa.scalar(None, value.type)), pa.string())
    return pc.if_else(pa.array(usual), near, spread(_far_day_texts(days[far]), far, len(days)))


def _far_day_texts(days: Ints) -> pa.Array:
    """Texts of dates whose year has a sign. Arrow counts years in 16 bits, so a day some multiple of 400 years away is
    formatted.
    """
    steps, near = np.divmod(days, _FOUR_CENTURIES)
    texts = pc.cast(pa.array(near.astype(np.int32)).view(pa.date32()), pa.string())
    years = np.asarray(pc.cast(pc.utf8_slice_codeunits(texts, 0, 4), pa.int64())) + steps * 400
    digits = pc.utf8_lpad(pc.cast(pa.array(np.abs(years)), pa.string()), 4, "0")
    sign = pc.if_else(pa.array(years < 0), pa.scalar("-"), pa.scalar("+"))
    return joined(sign, digits, pc.utf8_slice_codeunits(texts, 4))
