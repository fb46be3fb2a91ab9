"""Numbers as text: read in the forms that Spark reads, written as Java writes them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.expressions.numbers import WIDEST, exact_to_integer, rescaled
from millstream.engine.expressions.some_rows import spread
from millstream.engine.expressions.strings import joined, unblanked
from millstream.engine.expressions.values import as_bools
from millstream.model import types

Cast = Callable[[pa.Array], pa.Array]
_INTEGER = r"^[+-]?[0-9]+$"
_PLAIN_INTEGER = r"^-?[0-9]{1,18}$"
_PLAIN_REAL = r"^-?[0-9]+(\.[0-9]+)?$"
_LONG_INTEGER = r"^[+-]?[0-9]{39,}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SHORT_NUMBER = r"^[+-]?([0-9]{1,37}(\.[0-9]{0,38})?|\.[0-9]{1,38})$"
_REAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
_INFINITE = r"^(?i:[+-]?inf(inity)?)$"
_LONGEST_EXPONENT = 10_000
_OTHER_DIGITS = str.maketrans(
    {chr(code): str(unicodedata.decimal(chr(code))) for code in range(0x80, 0x10000) if chr(code).isdecimal()}
)
"""Digits of other scripts, as far as Java has one `char` for them."""
_NO_LIMIT = Context(prec=5_000, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999)


def read_integers(value: pa.Array, kind: pa.DataType) -> pa.Array:
    """Whole numbers that the type can hold."""
    return _mostly(
        value,
        _PLAIN_INTEGER,
        lambda some: pc.cast(pc.cast(some, pa.int64()), kind),
        lambda some: exact_to_integer(_integers(unblanked(some)), kind),
    )


def read_reals(value: pa.Array, kind: pa.DataType) -> pa.Array:
    """FLOATs or DOUBLEs."""
    return _mostly(value, _PLAIN_REAL, lambda some: pc.cast(some, kind), lambda some: _reals(unblanked(some), kind))


def _mostly(value: pa.Array, form: str, quick: Cast, slow: Cast) -> pa.Array:
    """Reads texts of the usual form with Arrow, which is faster (bench tricks), and the others by the full rules."""
    usual = as_bools(pc.fill_null(pc.match_substring_regex(value, form), True))
    if usual.all():
        try:
            return quick(value)
        except pa.ArrowInvalid:
            return slow(value)
    rows = np.flatnonzero(~usual)
    rest = spread(slow(value.take(pa.array(rows))), rows, len(value))
    found = _mostly(pc.if_else(pa.array(usual), value, pa.scalar(None, value.type)), form, quick, slow)
    return pc.if_else(pa.array(usual), found, rest)


def _only(value: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(value, pattern), value, pa.scalar(None, value.type))


def _integers(value: pa.Array) -> pa.Array:
    """Whole numbers as DECIMALs, which are wider than every integer type."""
    known = _only(value, _INTEGER)
    known = pc.replace_substring_regex(known, r"^([+-]?)0+([0-9])", r"\1\2")
    known = pc.if_else(pc.match_substring_regex(known, _LONG_INTEGER), pa.scalar("9" * 38), known)
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


def read_decimals(value: pa.Array, kind: pa.DataType) -> pa.Array:
    """DECIMALs, rounded half up to the digits of the type."""
    value = _common_digits(unblanked(value))
    short = _only(value, _SHORT_NUMBER)
    found = rescaled(pc.cast(short, pa.decimal256(WIDEST, types.MOST_DIGITS)), kind)
    rest = np.flatnonzero(pc.and_(pc.is_null(short), pc.match_substring_regex(value, _NUMBER)).fill_null(False))
    if not len(rest):
        return found
    # Texts with exponents or very many digits are read one by one.
    values = found.to_pylist()
    for row in rest.tolist():
        values[row] = _decimal(value[row].as_py(), kind)
    return pa.array(values, kind)


def _common_digits(value: pa.Array) -> pa.Array:
    """Spark reads digits of every script in a DECIMAL, and in no other number."""
    other = as_bools(pc.fill_null(pc.invert(pc.string_is_ascii(value)), False))
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


def real_texts(value: pa.Array) -> pa.Array:
    """Numbers as Java writes them: 1.0, 1.0E10, Infinity."""
    size = pc.abs(value)
    text = pc.cast(size, pa.string())
    plain = pc.if_else(pc.match_substring(text, "."), text, joined(text, pa.scalar(".0")))
    usual = pc.or_(
        pc.and_(pc.greater_equal(size, pa.scalar(1e-3, size.type)), pc.less(size, pa.scalar(1e7, size.type))),
        pc.equal(size, pa.scalar(0, size.type)),
    )
    rows = np.flatnonzero(~as_bools(pc.fill_null(usual, True)))
    if len(rows):
        special = spread(_special_texts(size.take(pa.array(rows)), text.take(pa.array(rows))), rows, len(value))
        plain = pc.if_else(usual, plain, special)
    bits = value.view(pa.int64() if value.type == pa.float64() else pa.int32())
    negative = pc.and_(pc.less(bits, pa.scalar(0, bits.type)), pc.invert(pc.is_nan(value)))
    return pc.if_else(negative, joined(pa.scalar("-"), plain), plain)


def _special_texts(size: pa.Array, text: pa.Array) -> pa.Array:
    """The texts of numbers that need an exponent or a word."""
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
    digits = joined(whole, rest)
    stripped = pc.utf8_ltrim(digits, "0")
    leading = np.asarray(pc.subtract(pc.utf8_length(digits), pc.utf8_length(stripped)))
    power = np.asarray(pc.utf8_length(whole)) - 1 - leading + written
    after = pc.utf8_rtrim(pc.utf8_slice_codeunits(stripped, 1), "0")
    after = pc.if_else(pc.equal(after, pa.scalar("")), pa.scalar("0"), after)
    found = joined(
        pc.utf8_slice_codeunits(stripped, 0, 1),
        pa.scalar("."),
        after,
        pa.scalar("E"),
        pc.cast(pa.array(power), pa.string()),
    )
    return pc.if_else(pc.is_valid(text), found, pa.scalar(None, pa.string()))


def decimal_texts(value: pa.Array) -> pa.Array:
    """DECIMALs with all the digits after the point that the type has."""
    scale = value.type.scale
    digits = pc.cast(pc.abs(value).view(pa.decimal128(types.MOST_DIGITS, 0)), pa.string())
    if scale:
        digits = pc.utf8_lpad(digits, scale + 1, "0")
        digits = joined(
            pc.utf8_slice_codeunits(digits, 0, -scale), pa.scalar("."), pc.utf8_slice_codeunits(digits, -scale)
        )
    negative = pc.less(value, pc.cast(pa.scalar(Decimal(0)), value.type))
    return pc.if_else(negative, joined(pa.scalar("-"), digits), digits)
