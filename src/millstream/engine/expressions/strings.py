"""Functions of text, and the binding of their constant arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.widths import checked
from millstream.model import moments

Text = Callable[[pa.Array], pa.Array]
_LONGEST = 2**31 - 1


def joined(*parts: Any) -> pa.Array:
    """Texts concatenated; null where one is null."""
    return pc.binary_join_element_wise(*parts, "")


def unblanked(value: pa.Array) -> pa.Array:
    """Texts without the surrounding blanks that a cast ignores."""
    return pc.utf8_trim(value, moments.BLANKS)


def _cased(quick: Text, change: Callable[[str], str]) -> Text:
    """Letters beyond ASCII may become several (ß is SS) and depend on their neighbours: such texts are converted one by
    one.

    Arrow is faster (bench tricks), and right for the others.
    """

    def compute(value: pa.Array) -> pa.Array:
        if pc.all(pc.string_is_ascii(value)).as_py() is not False:
            return quick(value)
        coded = value.dictionary_encode()
        changed = pa.array([change(text.as_py()) for text in coded.dictionary], pa.string())
        return changed.take(coded.indices)

    return compute


def _trimmed(function: Callable[[Any, str], Any]) -> Text:
    """Trims spaces only, not other blanks."""
    return lambda value: function(value, " ")


PLAIN: Mapping[str, Text] = {
    "length": pc.utf8_length,
    "upper": _cased(pc.ascii_upper, str.upper),
    "lower": _cased(pc.ascii_lower, str.lower),
    "trim": _trimmed(pc.utf8_trim),
    "ltrim": _trimmed(pc.utf8_ltrim),
    "rtrim": _trimmed(pc.utf8_rtrim),
}
_PATTERNS: Mapping[str, Callable[..., Any]] = {
    "like": pc.match_like,
    "startswith": pc.starts_with,
    "endswith": pc.ends_with,
    "contains": pc.match_substring,
}
WITH_CONSTANTS = (*_PATTERNS, "substring", "replace")


def with_constants(name: str, constants: list[Any]) -> Text:
    """A function with its arguments after the first bound to these constants; a null constant makes all values null."""
    if None in constants:
        kind = pa.bool_() if name in _PATTERNS else pa.string()
        return lambda value: pa.nulls(len(value), kind)
    if name in _PATTERNS:
        return lambda value: _PATTERNS[name](value, constants[0])
    return _substring(*constants) if name == "substring" else _replace(*constants)


def _substring(position: int, length: int = _LONGEST) -> Text:
    """Positions count from 1, or back from the end; positions before the text count towards the length."""
    if length <= 0:
        return lambda value: pc.utf8_slice_codeunits(value, 0, 0)
    start = position - 1 if position > 0 else position
    stop = start + length
    if start < 0 <= stop:
        return lambda value: pc.utf8_slice_codeunits(value, start)
    return lambda value: pc.utf8_slice_codeunits(value, start, stop)


def _replace(old: str, new: str) -> Text:
    """An empty search text matches nothing, so nothing is replaced."""
    if not old:
        return lambda value: value
    return lambda value: checked(pc.replace_substring(value, old, new))
