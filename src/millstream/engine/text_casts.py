"""Casts from text and to text, in the forms that Spark reads and writes."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine import times
from millstream.engine.arrow import Bools, Ints, arrow_type
from millstream.engine.numbers import WIDEST, rescaled
from millstream.engine.some_rows import spread
from millstream.errors import InternalError
from millstream.model import moments, types
from millstream.model.types import BINARY, BOOLEAN, DataType, Family

Cast = Callable[[pa.Array], pa.Array]
ToInteger = Callable[[pa.Array, pa.DataType], pa.Array]
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_INTEGER = r"^[+-]?[0-9]+$"
_PLAIN_INTEGER = r"^-?[0-9]{1,18}$"
_PLAIN_REAL = r"^-?[0-9]+(\.[0-9]+)?$"
_LONG_INTEGER = r"^[+-]?0*[0-9]{39,}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SHORT_NUMBER = r"^[+-]?([0-9]{1,37}(\.[0-9]{0,38})?|\.[0-9]{1,38})$"
_REAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
_INFINITE = r"^(?i:[+-]?inf(inity)?)$"
_LONGEST_EXPONENT = 10_000
_YEAR_0, _YEAR_9999 = moments.days_of(0, 1, 1), moments.days_of(9999, 12, 31)
_FOUR_CENTURIES = 146_097
"""Days after which the calendar repeats."""
_OTHER_DIGITS = str.maketrans(
    {chr(code): str(unicodedata.decimal(chr(code))) for code in range(0x80, 0x10000) if chr(code).isdecimal()}
)
"""Of other scripts, as far as Java has one `char` for them."""
_NO_LIMIT = Context(prec=5_000, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999)


def from_text(target: DataType, to_integer: ToInteger) -> Cast:
    """Null where the text means no value of the type."""
    kind = arrow_type(target)
    if target == BINARY:
        return lambda value: pc.cast(value, kind)
    read = _reader(target, kind, to_integer)

    def trimmed(value: pa.Array) -> pa.Array:
        return read(pc.utf8_trim(value, moments.BLANKS))

    if not (target.is_integer or target.is_float):
        return trimmed
    form, plain = (_PLAIN_INTEGER, pa.int64()) if target.is_integer else (_PLAIN_REAL, kind)
    return lambda value: _mostly(value, form, lambda some: pc.cast(pc.cast(some, plain), kind), trimmed)


def _mostly(value: pa.Array, form: str, quick: Cast, slow: Cast) -> pa.Array:
    """Texts of the usual form quickly, the others as carefully as they need."""
    usual = _bools(pc.fill_null(pc.match_substring_regex(value, form), True))
    if usual.all():
        try:
            return quick(value)
        except pa.ArrowInvalid:
            return slow(value)
    rows = np.flatnonzero(~usual)
    rest = spread(slow(value.take(pa.array(rows))), rows, len(value))
    found = _mostly(pc.if_else(pa.array(usual), value, pa.scalar(None, value.type)), form, quick, slow)
    return pc.if_else(pa.array(usual), found, rest)


def _reader(target: DataType, kind: pa.DataType, to_integer: ToInteger) -> Cast:
    if target.is_integer:
        return lambda value: to_integer(_integers(value), kind)
    if target.is_float:
        return lambda value: _reals(value, kind)
    if target.name == "DECIMAL":
        return lambda value: _decimals(value, kind)
    if target == BOOLEAN:
        return _booleans
    if target.name == "DATE":
        return lambda value: _days(value).view(kind)
    if target.is_timestamp:
        return lambda value: _microseconds(value, zoned=target.name == "TIMESTAMP").view(kind)
    raise InternalError(f"no cast from STRING to {target}")


def _only(value: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(value, pattern), value, pa.scalar(None, value.type))


def _integers(value: pa.Array) -> pa.Array:
    """As DECIMALs that no whole number of the language reaches the end of."""
    known = _only(value, _INTEGER)
    known = pc.if_else(pc.match_substring_regex(known, _LONG_INTEGER), pa.scalar("9" * 38), known)
    known = pc.replace_substring_regex(known, r"^([+-]?)0+([0-9])", r"\1\2")
    return pc.cast(known, pa.decimal128(types.MOST_DIGITS, 0))


def _reals(value: pa.Array, kind: pa.DataType) -> pa.Array:
    infinite = pc.match_substring_regex(value, _INFINITE)
    unknown = pc.equal(pc.utf8_lower(value), pa.scalar("nan"))
    text = pc.utf8_rtrim(_only(value, _REAL), "dDfF")
    text = pc.replace_substring_regex(text, r"^\+", "")
    found = pc.cast(text, kind)
    if pc.any(infinite).as_py():
        signed = pc.if_else(pc.starts_with(value, "-"), pa.scalar(-np.inf, kind), pa.scalar(np.inf, kind))
        found = pc.if_else(infinite, signed, found)
    return pc.if_else(unknown, pa.scalar(np.nan, kind), found) if pc.any(unknown).as_py() else found


def _decimals(value: pa.Array, kind: pa.DataType) -> pa.Array:
    value = _common_digits(value)
    short = _only(value, _SHORT_NUMBER)
    found = rescaled(pc.cast(short, pa.decimal256(WIDEST, types.MOST_DIGITS)), kind)
    rest = np.flatnonzero(pc.and_(pc.is_null(short), pc.match_substring_regex(value, _NUMBER)).fill_null(False))
    if not len(rest):
        return found
    # Exponents and more digits than anyone needs: one by one.
    values = found.to_pylist()
    for row in rest.tolist():
        values[row] = _decimal(value[row].as_py(), kind)
    return pa.array(values, kind)


def _common_digits(value: pa.Array) -> pa.Array:
    """Spark reads digits of every script in a DECIMAL, and in no other number."""
    other = _bools(pc.fill_null(pc.invert(pc.string_is_ascii(value)), False))
    rows = np.flatnonzero(other)
    if not len(rows):
        return value
    texts = [text.translate(_OTHER_DIGITS) for text in value.take(pa.array(rows)).to_pylist()]
    return pc.if_else(pa.array(other), spread(pa.array(texts, value.type), rows, len(value)), value)


def _decimal(text: str, kind: pa.DataType) -> Decimal | None:
    try:
        number = Decimal(text)
        if not number or number.adjusted() < -_LONGEST_EXPONENT:
            return Decimal(0)
        if number.adjusted() > types.MOST_DIGITS:
            return None
        found = number.quantize(Decimal(1).scaleb(-kind.scale), context=_NO_LIMIT)
    except InvalidOperation:
        return None
    return found if found.adjusted() < kind.precision - kind.scale or not found else None


def _booleans(value: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(value)
    true, false = (pc.is_in(lower, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
    return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))


class _Parts:
    """The parts of times, cut out of texts; `ok` says which texts have the form and which parts their limits."""

    def __init__(self, value: pa.Array, form: str) -> None:
        found = pc.extract_regex(value, form)
        self.ok: Bools = _bools(pc.is_valid(found))
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
        west = _bools(pc.equal(self.text("sign"), pa.scalar("-")))
        return np.asarray(np.where(west, -found, found), dtype=np.int64)


def _bools(value: pa.Array) -> Bools:
    return np.array(value.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _days(value: pa.Array) -> pa.Array:
    parts = _Parts(value, moments.DATE_FORM)
    days = parts.days("DATE")
    return pa.array(np.where(parts.ok, days, 0).astype(np.int32), mask=~parts.ok)


def _microseconds(value: pa.Array, *, zoned: bool) -> pa.Array:
    parts = _Parts(value, moments.TIME_FORM)
    days = parts.days("TIMESTAMP")
    hour, minute, second = (parts.limited(name) for name in ("hour", "minute", "second"))
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(parts.text("fraction"), 0, 6), 6, "0")
    offset = parts.offset()
    clock = hour * 3600 + minute * 60 + second - (offset if zoned else 0)
    found = (
        np.where(parts.ok, days, 0) * moments.DAY + clock * moments.SECOND + np.asarray(pc.cast(fraction, pa.int64()))
    )
    return pa.array(found, mask=~parts.ok)


def to_text(source: DataType) -> Cast:
    """Every value has a text."""
    if source.is_float:
        return _real_texts
    if source.name == "DECIMAL":
        return _decimal_texts
    if source.is_timestamp:
        return lambda value: _time_texts(value.view(pa.timestamp("us")))
    if source.name == "DATE":
        return lambda value: _day_texts(value)
    if source.is_integer or source.family in (Family.BOOLEAN, Family.BINARY):
        return lambda value: pc.cast(value, pa.string())
    raise InternalError(f"no cast from {source} to STRING")


def _joined(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _real_texts(value: pa.Array) -> pa.Array:
    """As Java writes them: 1.0, 1.0E10, Infinity."""
    size = pc.abs(value)
    text = pc.cast(size, pa.string())
    plain = pc.if_else(pc.match_substring(text, "."), text, _joined(text, pa.scalar(".0")))
    usual = pc.or_(
        pc.and_(pc.greater_equal(size, pa.scalar(1e-3, size.type)), pc.less(size, pa.scalar(1e7, size.type))),
        pc.equal(size, pa.scalar(0, size.type)),
    )
    rows = np.flatnonzero(~_bools(pc.fill_null(usual, True)))
    if len(rows):
        special = spread(_special_texts(size.take(pa.array(rows)), text.take(pa.array(rows))), rows, len(value))
        plain = pc.if_else(usual, plain, special)
    bits = value.view(pa.int64() if value.type == pa.float64() else pa.int32())
    negative = pc.and_(pc.less(bits, pa.scalar(0, bits.type)), pc.invert(pc.is_nan(value)))
    return pc.if_else(negative, _joined(pa.scalar("-"), plain), plain)


def _special_texts(size: pa.Array, text: pa.Array) -> pa.Array:
    """Numbers that are not null and need an exponent, or a word."""
    unknown, infinite = pc.is_nan(size), pc.is_inf(size)
    found = _scientific(pc.if_else(pc.or_(unknown, infinite), pa.scalar("1"), text))
    found = pc.if_else(infinite, pa.scalar("Infinity"), found)
    return pc.if_else(unknown, pa.scalar("NaN"), found)


def _scientific(text: pa.Array) -> pa.Array:
    """12345678.9, 0.00012 or 1.5e+20 with one digit before the point, and its exponent."""
    cut = pc.extract_regex(text, r"^(?P<whole>[0-9]+)\.?(?P<rest>[0-9]*)(?:e(?P<exponent>[+-]?[0-9]+))?$")
    whole, rest, exponent = (pc.fill_null(part, "") for part in cut.flatten())
    exponent = pc.utf8_ltrim(exponent, "+")
    written = np.asarray(pc.cast(pc.if_else(pc.equal(exponent, pa.scalar("")), pa.scalar("0"), exponent), pa.int64()))
    digits = _joined(whole, rest)
    stripped = pc.utf8_ltrim(digits, "0")
    leading = np.asarray(pc.subtract(pc.utf8_length(digits), pc.utf8_length(stripped)))
    power = np.asarray(pc.utf8_length(whole)) - 1 - leading + written
    after = pc.utf8_rtrim(pc.utf8_slice_codeunits(stripped, 1), "0")
    after = pc.if_else(pc.equal(after, pa.scalar("")), pa.scalar("0"), after)
    found = _joined(
        pc.utf8_slice_codeunits(stripped, 0, 1),
        pa.scalar("."),
        after,
        pa.scalar("E"),
        pc.cast(pa.array(power), pa.string()),
    )
    return pc.if_else(pc.is_valid(text), found, pa.scalar(None, pa.string()))


def _decimal_texts(value: pa.Array) -> pa.Array:
    scale = value.type.scale
    digits = pc.cast(pc.abs(value).view(pa.decimal128(types.MOST_DIGITS, 0)), pa.string())
    if scale:
        digits = pc.utf8_lpad(digits, scale + 1, "0")
        digits = _joined(
            pc.utf8_slice_codeunits(digits, 0, -scale), pa.scalar("."), pc.utf8_slice_codeunits(digits, -scale)
        )
    negative = pc.less(value, pc.cast(pa.scalar(Decimal(0)), value.type))
    return pc.if_else(negative, _joined(pa.scalar("-"), digits), digits)


def _time_texts(value: pa.Array) -> pa.Array:
    days = pc.floor_temporal(value, 1, "day")
    clock = pc.cast(pa.array(times.clock(value)).view(pa.timestamp("us")), pa.string())
    clock = pc.utf8_rtrim(pc.utf8_rtrim(pc.utf8_slice_codeunits(clock, -15), "0"), ".")
    return _joined(_day_texts(pc.cast(days, pa.date32(), safe=False)), pa.scalar(" "), clock)


def _day_texts(value: pa.Array) -> pa.Array:
    days = np.asarray(pc.fill_null(value.view(pa.int32()), 0)).astype(np.int64)
    far = np.flatnonzero((days < _YEAR_0) | (days > _YEAR_9999))
    if not len(far):
        return pc.cast(value, pa.string())
    usual = np.ones(len(days), dtype=np.bool_)
    usual[far] = False
    near = pc.cast(pc.if_else(pa.array(usual), value, pa.scalar(None, value.type)), pa.string())
    return pc.if_else(pa.array(usual), near, spread(_far_day_texts(days[far]), far, len(days)))


def _far_day_texts(days: Ints) -> pa.Array:
    """Of years that have a sign; Arrow counts years in 16 bits, so the day is read 400 years' steps from there."""
    steps, near = np.divmod(days, _FOUR_CENTURIES)
    texts = pc.cast(pa.array(near.astype(np.int32)).view(pa.date32()), pa.string())
    years = np.asarray(pc.cast(pc.utf8_slice_codeunits(texts, 0, 4), pa.int64())) + steps * 400
    digits = pc.utf8_lpad(pc.cast(pa.array(np.abs(years)), pa.string()), 4, "0")
    sign = pc.if_else(pa.array(years < 0), pa.scalar("-"), pa.scalar("+"))
    return _joined(sign, digits, pc.utf8_slice_codeunits(texts, 4))
