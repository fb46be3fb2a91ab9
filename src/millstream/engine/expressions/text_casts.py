"""Casts from text and to text, in the forms that Spark reads and writes."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions import number_texts, time_texts
from millstream.engine.expressions.strings import unblanked
from millstream.errors import InternalError
from millstream.model.types import BINARY, BOOLEAN, DataType, Family

Cast = Callable[[pa.Array], pa.Array]
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def from_text(target: DataType) -> Cast:
    """Null where the text is no value of the type."""
    kind = arrow_type(target)
    if target == BINARY:
        return lambda value: pc.cast(value, kind)
    if target.is_integer:
        return lambda value: number_texts.read_integers(value, kind)
    if target.is_float:
        return lambda value: number_texts.read_reals(value, kind)
    if target.name == "DECIMAL":
        return lambda value: number_texts.read_decimals(value, kind)
    if target == BOOLEAN:
        return _booleans
    if target.name == "DATE":
        return lambda value: time_texts.read_days(value).view(kind)
    if target.is_timestamp:
        zoned = target.name == "TIMESTAMP"
        return lambda value: time_texts.read_microseconds(value, zoned=zoned).view(kind)
    raise InternalError(f"no cast from STRING to {target}")


def _booleans(value: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(unblanked(value))
    true, false = (pc.is_in(lower, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
    return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))


def to_text(source: DataType) -> Cast:
    """Cannot fail: every value has a text."""
    if source.is_float:
        return number_texts.real_texts
    if source.name == "DECIMAL":
        return number_texts.decimal_texts
    if source.is_timestamp:
        return lambda value: time_texts.time_texts(value.view(pa.timestamp("us")))
    if source.name == "DATE":
        return time_texts.day_texts
    if source.is_integer or source.family in (Family.BOOLEAN, Family.BINARY):
        return lambda value: pc.cast(value, pa.string())
    raise InternalError(f"no cast from {source} to STRING")
