"""Column types, named as in Spark SQL, and which of them can be combined in an expression."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from millstream.errors import ScriptError, did_you_mean, listing


class Family(StrEnum):
    """Types of one family can be compared with each other."""

    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    TIME = "time"
    DURATION = "interval"
    BINARY = "binary"
    NESTED = "nested"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Field:
    """A named part of a STRUCT."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class DataType:
    """A column type: its name, and its parts where it has any."""

    name: str
    precision: int | None = None
    scale: int | None = None
    parts: tuple[DataType, ...] = ()
    fields: tuple[Field, ...] = ()

    @property
    def family(self) -> Family:
        return _FAMILIES[self.name]

    @property
    def is_integer(self) -> bool:
        return self.name in _INTEGERS

    @property
    def is_float(self) -> bool:
        return self.name in ("FLOAT", "DOUBLE")

    @property
    def is_timestamp(self) -> bool:
        return self.name in ("TIMESTAMP", "TIMESTAMP_NTZ")

    def __str__(self) -> str:
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.fields:
            return f"STRUCT<{', '.join(f'{quoted(field.name)}: {field.type}' for field in self.fields)}>"
        if self.parts:
            return f"{self.name}<{', '.join(str(part) for part in self.parts)}>"
        return self.name


def quoted(name: str) -> str:
    """A name as Spark and the language read it: in backticks, unless it is a plain word."""
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FAMILIES = {
    **dict.fromkeys((*_INTEGERS, "FLOAT", "DOUBLE", "DECIMAL"), Family.NUMBER),
    "STRING": Family.STRING,
    "BOOLEAN": Family.BOOLEAN,
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"), Family.TIME),
    "INTERVAL": Family.DURATION,
    "BINARY": Family.BINARY,
    **dict.fromkeys(("ARRAY", "MAP", "STRUCT"), Family.NESTED),
    "NULL": Family.NULL,
}

TINYINT, SMALLINT, INT, BIGINT = (DataType(name) for name in _INTEGERS)
FLOAT, DOUBLE, STRING, BOOLEAN = (DataType(name) for name in ("FLOAT", "DOUBLE", "STRING", "BOOLEAN"))
DATE, TIMESTAMP, TIMESTAMP_NTZ = (DataType(name) for name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"))
INTERVAL, BINARY, NULL = (DataType(name) for name in ("INTERVAL", "BINARY", "NULL"))

_ALIASES = {
    "BYTE": TINYINT,
    "SHORT": SMALLINT,
    "INTEGER": INT,
    "LONG": BIGINT,
    "REAL": FLOAT,
    "TEXT": STRING,
    "VARCHAR": STRING,
    "CHAR": STRING,
    "BOOL": BOOLEAN,
    "VARBINARY": BINARY,
    "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP_NTZ,
}
_SIMPLE = {
    **_ALIASES,
    **{name: DataType(name) for name in (*_INTEGERS, "FLOAT", "DOUBLE", "STRING", "BOOLEAN", "DATE", "BINARY")},
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
}
_WITH_PARTS = ("DECIMAL(p, s)", "ARRAY<..>", "MAP<.., ..>", "STRUCT<name: ..>")
PLAIN = tuple(name for name in _SIMPLE if name not in _ALIASES)
NAMES = (*PLAIN, *_WITH_PARTS)


def simple(name: str) -> DataType:
    """The type of a plain name such as 'DOUBLE' or 'integer'."""
    found = _SIMPLE.get(name.upper())
    if found is None:
        raise ScriptError(
            f'no type "{name}"',
            f"the types are {listing(NAMES, 20)}",
            did_you_mean(name, _SIMPLE, "Use one of these."),
        )
    return found


def array(element: DataType) -> DataType:
    return DataType("ARRAY", parts=(element,))


def decimal(precision: int, scale: int) -> DataType:
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise ScriptError(
            f"DECIMAL({precision}, {scale}) cannot be",
            "precision is 1 to 38 and scale 0 to the precision",
            "Change the two numbers.",
        )
    return DataType("DECIMAL", precision, scale)


def common(a: DataType, b: DataType) -> DataType | None:
    """The type both can be converted to without loss of whole digits, or None where they cannot be compared."""
    if a == b:
        return a
    if Family.NULL in (a.family, b.family):
        return b if a.family == Family.NULL else a
    if a.family != b.family or a.family == Family.NESTED:
        return None
    if a.family == Family.NUMBER:
        return _common_number(a, b)
    if a.family == Family.TIME:
        if {a, b} == {TIMESTAMP, TIMESTAMP_NTZ}:
            return None
        return a if a.is_timestamp else b
    return a


def _common_number(a: DataType, b: DataType) -> DataType | None:
    if a.is_float or b.is_float:
        return DOUBLE
    if a.is_integer and b.is_integer:
        return max(a, b, key=lambda kind: _INTEGERS.index(kind.name))
    (p1, s1), (p2, s2) = digits(a), digits(b)
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return DataType("DECIMAL", precision, scale) if precision <= MOST_DIGITS else None


MOST_DIGITS = 38
_LEAST_SCALE = 6
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}


def digits(kind: DataType) -> tuple[int, int]:
    """Precision and scale of a DECIMAL, or of the DECIMAL that holds every value of an integer type."""
    if kind.precision is not None and kind.scale is not None:
        return kind.precision, kind.scale
    return _DIGITS[kind.name], 0


def decimal_result(op: str, a: DataType, b: DataType) -> DataType:
    """The type of + - * % of two exact numbers, at least one of them a DECIMAL: as in Spark."""
    (p1, s1), (p2, s2) = digits(a), digits(b)
    if op == "*":
        return adjusted(p1 + p2 + 1, s1 + s2)
    scale = max(s1, s2)
    if op == "%":
        return adjusted(min(p1 - s1, p2 - s2) + scale, scale)
    return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


def adjusted(precision: int, scale: int) -> DataType:
    """Beyond 38 digits, digits before the point take precedence over those after it, of which at least six stay."""
    if precision <= MOST_DIGITS:
        return DataType("DECIMAL", precision, scale)
    kept = max(MOST_DIGITS - (precision - scale), min(scale, _LEAST_SCALE))
    return DataType("DECIMAL", MOST_DIGITS, kept)


def can_cast(a: DataType, b: DataType) -> bool:
    """Whether there is a CAST from one type to the other."""
    if a == b or Family.NULL in (a.family, b.family):
        return b.family != Family.NULL
    if Family.NESTED in (a.family, b.family) or Family.DURATION in (a.family, b.family):
        return False
    if Family.STRING in (a.family, b.family):
        return True
    if Family.TIME in (a.family, b.family):
        if a.family == b.family:
            return True
        return TIMESTAMP in (a, b) and Family.NUMBER in (a.family, b.family)
    return {a.family, b.family} <= {Family.NUMBER, Family.BOOLEAN}


def widens(a: DataType, b: DataType) -> bool:
    """Whether the second type can hold every value of the first, so that a cast cannot fail."""
    if a == b or (b == STRING and a.family != Family.BINARY):
        return True
    if a.family == Family.BOOLEAN:
        return b.is_integer or b.is_float
    if a.family == Family.NUMBER and b.is_float:
        return True
    if a.is_integer and b.is_integer:
        return _INTEGERS.index(a.name) <= _INTEGERS.index(b.name)
    if b.name == "DECIMAL" and (a.is_integer or a.name == "DECIMAL"):
        (p1, s1), (p2, s2) = digits(a), digits(b)
        return p1 - s1 <= p2 - s2 and s1 <= s2
    return a.is_timestamp and b.family == Family.TIME
