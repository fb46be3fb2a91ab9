"""A declared stream: its columns, its time column and the hints the planner starts from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millstream.errors import ScriptError, Where, did_you_mean, listing
from millstream.model import duration
from millstream.model.types import DataType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class StreamColumn:
    """A column as declared."""

    name: str
    type: DataType

    def __post_init__(self) -> None:
        check_column(self.name)


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as the user declares it. Times are microseconds; `options` go to Spark's reader unchanged.

    The time column may be named in any case of letters; `time` is its name as declared.
    """

    name: str
    columns: tuple[StreamColumn, ...]
    time: str
    delay: int = 0
    idle: int | None = None
    rate: float | None = None
    keys: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    where: Where = field(default=Where(), compare=False)
    _by_name: Mapping[str, StreamColumn] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name("stream", self.name)
        _check_columns(self)
        # A stream may have thousands of columns, and `*` looks up each.
        object.__setattr__(self, "_by_name", {column.name.lower(): column for column in self.columns})
        object.__setattr__(self, "time", time_column(self.name, self.columns, self.time).name)
        for name in _HINTS:
            check_hint(name, getattr(self, name))

    def column(self, name: str) -> StreamColumn:
        """The column of this name; the case of letters does not matter."""
        found = self.find(name)
        return found if found is not None else _column(self.name, self.columns, name)

    def find(self, name: str) -> StreamColumn | None:
        return self._by_name.get(name.lower())


def _column(stream: str, columns: Sequence[StreamColumn], name: str) -> StreamColumn:
    lower = name.lower()
    found = next((column for column in columns if column.name.lower() == lower), None)
    if found is None:
        names = [column.name for column in columns]
        raise ScriptError(
            f'no column "{name}" in {stream}',
            f"it has {listing(names)}",
            did_you_mean(name, names, "Use one of these."),
        )
    return found


def time_column(stream: str, columns: Sequence[StreamColumn], time: str) -> StreamColumn:
    """The column of this name; refuses a missing column, and one that is not a time."""
    found = _column(stream, columns, time)
    kind = found.type
    if not kind.is_timestamp:
        timestamps = [column.name for column in columns if column.type.is_timestamp]
        raise ScriptError(
            f'the time column "{time}" of {stream} is {kind}',
            "a time column is TIMESTAMP or TIMESTAMP_NTZ",
            f"Use time = '{timestamps[0]}'." if timestamps else "Declare a TIMESTAMP column and name it as time.",
        )
    return found


def check_column(name: str) -> None:
    """Refuses control characters in a column's name; names with them are reserved for hidden columns."""
    if not name or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        raise ScriptError(
            f"{name!r} cannot be the name of a column", "a column's name has no control characters", "Rename it."
        )


def check_name(what: str, name: str) -> None:
    """Refuses names that are not plain words, since names become directories and identifiers."""
    if not _NAME.fullmatch(name) or len(name) > 128:
        raise ScriptError(
            f'"{name}" cannot be the name of a {what}',
            "a name is at most 128 letters, digits and _, and starts with no digit",
            "Choose a plain name.",
        )


def _check_columns(stream: Stream) -> None:
    if not stream.columns:
        raise ScriptError(
            f"stream {stream.name} has no columns", "a stream has at least a time column", "List its columns."
        )
    seen: set[str] = set()
    for column in stream.columns:
        if column.name.lower() in seen:
            raise ScriptError(
                f'column "{column.name}" stands twice in {stream.name}',
                "each column has its own name, whatever the case of its letters",
                "Rename or remove one.",
            )
        seen.add(column.name.lower())


def check_hint(name: str, value: object) -> None:
    """Checks the hints of a stream; None means that a hint is not given."""
    least, most, valid = _HINTS[name]
    if not isinstance(value, int | float) or least <= value <= most:
        return
    shown = duration.text(int(value)) if name in ("delay", "idle") else f"{value:g}"
    raise ScriptError(f"{name} is {shown}", f"{name} must be {valid}", f"Change {name} or leave it out.")


_HINTS = {
    "delay": (0, duration.LONGEST, "zero or more"),
    "idle": (1, duration.LONGEST, "more than zero"),
    "rate": (1e-9, 1e15, "more than zero, and at most 1e15 rows per second"),
    "keys": (1, 2**62, "one or more, and at most 2^62"),
}
