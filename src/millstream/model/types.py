"""Column types, named as in Spark SQL, and which of them may meet in an expression."""

from __future__ import annotations

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
    """A column type: its name, and what it is made of where it has parts."""

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
            return f"STRUCT<{', '.join(f'{field.name}: {field.type}' for field in self.fields)}>"
        if self.parts:
            return f"{self.name}<{', '.join(str(part) for part in self.parts)}>"
        return self.name


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
NAMES = (*(name for name in _SIMPLE if name not in _ALIASES), *_WITH_PARTS)


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


def decimal(precision: int, scale: int) -> DataType:
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise ScriptError(
            f"DECIMAL({precision}, {scale}) cannot be",
            "precision is 1 to 38 and scale 0 to the precision",
            "Change the two numbers.",
        )
    return DataType("DECIMAL", precision, scale)


def common(a: DataType, b: DataType) -> DataType | None:
    """The type both can be turned into for a comparison, or None where they cannot be compared."""
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


def _common_number(a: DataType, b: DataType) -> DataType:
    if a.is_float or b.is_float:
        return FLOAT if a == b == FLOAT else DOUBLE
    if a.is_integer and b.is_integer:
        return max(a, b, key=lambda kind: _INTEGERS.index(kind.name))
    scale = max(a.scale or 0, b.scale or 0)
    return DataType("DECIMAL", 38, scale)
