"""A declared stream: its columns, its time column and the hints the planner starts from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from millstream.errors import ScriptError, did_you_mean, listing
from millstream.model.types import DataType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class StreamColumn:
    """A column as declared."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Stream:
    """What a user says about a stream. Times are microseconds; `options` go to Spark's reader as they are."""

    name: str
    columns: tuple[StreamColumn, ...]
    time: str
    delay: int = 0
    idle: int | None = None
    rate: float | None = None
    keys: int | None = None
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_name("stream", self.name)
        _check_columns(self)
        kind = self.column(self.time).type
        if not kind.is_timestamp:
            timestamps = [column.name for column in self.columns if column.type.is_timestamp]
            raise ScriptError(
                f'the time column "{self.time}" of {self.name} is {kind}',
                "a time column is TIMESTAMP or TIMESTAMP_NTZ",
                f"Use time = '{timestamps[0]}'." if timestamps else "Declare a TIMESTAMP column and name it as time.",
            )
        _check_not_negative(self)

    def column(self, name: str) -> StreamColumn:
        """The column of this name; the case of letters does not matter."""
        found = self.find(name)
        if found is None:
            names = [column.name for column in self.columns]
            raise ScriptError(
                f'no column "{name}" in {self.name}',
                f"it has {listing(names)}",
                did_you_mean(name, names, "Use one of these."),
            )
        return found

    def find(self, name: str) -> StreamColumn | None:
        lower = name.lower()
        return next((column for column in self.columns if column.name.lower() == lower), None)


def check_name(what: str, name: str) -> None:
    """Names become directories and identifiers, so they are plain words."""
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
                "column names differ, whatever the case of their letters",
                "Rename or remove one.",
            )
        seen.add(column.name.lower())


def _check_not_negative(stream: Stream) -> None:
    for name, value, least in (
        ("delay", stream.delay, 0),
        ("idle", stream.idle, 1),
        ("keys", stream.keys, 1),
        ("rate", stream.rate, 1e-9),
    ):
        if value is not None and not least <= value < float("inf"):
            raise ScriptError(
                f"{name} of {stream.name} is {value}",
                f"{name} must be {'zero or more' if least == 0 else 'more than zero'}",
                f"Change {name} or leave it out.",
            )
