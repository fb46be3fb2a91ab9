"""CREATE STREAM to a `Stream` of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from millstream.errors import ScriptError
from millstream.model import duration
from millstream.model.stream import Stream, StreamColumn
from millstream.sql.dialect import CreateStream
from millstream.sql.expressions import data_type
from millstream.sql.options import options_of

T = TypeVar("T")
OURS = ("time", "delay", "idle", "rate", "keys")


def bind_stream(node: CreateStream) -> Stream:
    """The stream; our own options are taken out, all others go to the reader as they are."""
    name = node.this.name
    columns = tuple(StreamColumn(column.this.name, data_type(column.args["kind"])) for column in node.args["columns"])
    given = options_of(node)
    ours = {key.lower(): value for key, value in given if key.lower() in OURS}
    if "time" not in ours:
        timestamps = [column.name for column in columns if column.type.is_timestamp]
        raise ScriptError(
            f"stream {name} has no time column",
            "WITH names the column that holds the event time",
            f"Add WITH (time = '{timestamps[0] if timestamps else 'column'}').",
        )
    rest = tuple((key, value) for key, value in given if key.lower() not in OURS)
    return Stream(
        name,
        columns,
        ours["time"],
        delay=_optional(ours, "delay", duration.parse) or 0,
        idle=_optional(ours, "idle", duration.parse),
        rate=_optional(ours, "rate", _number),
        keys=_optional(ours, "keys", _whole),
        options=rest,
    )


def _optional(options: dict[str, str], name: str, read: Callable[[str], T]) -> T | None:
    if name not in options:
        return None
    try:
        return read(options[name])
    except ScriptError as error:
        raise ScriptError(f"{name} = '{options[name]}': {error.found}", error.valid, error.todo) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ScriptError("not a number", "a rate is rows per second", "Give a number such as 1000.") from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ScriptError(
            "not a whole number", "keys is how many join keys there are", "Give a whole number."
        ) from None
