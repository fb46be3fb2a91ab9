"""CREATE STREAM to a `Stream` of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from sqlglot import exp

from millstream.errors import ScriptError
from millstream.model import duration
from millstream.model.stream import Stream, StreamColumn, check_hint, check_name, time_column
from millstream.sql.nodes import CreateStream
from millstream.sql.options import options_of, pair
from millstream.sql.report import Report
from millstream.sql.types import data_type

T = TypeVar("T")
OURS = ("time", "delay", "idle", "rate", "keys")


def bind_stream(node: CreateStream, report: Report) -> Stream | None:
    """The stream, or None after reporting all its errors.

    Millstream's own options are removed; all others go to the reader unchanged.
    """
    name = node.this.name
    try:
        check_name("stream", name)
    except ScriptError as error:
        report(error, node)
    columns = _columns(node, report)
    options = options_of(node, report, read=True)
    delay = _hint(options, "delay", duration.parse, report)
    idle = _hint(options, "idle", duration.parse, report)
    rate = _hint(options, "rate", _number, report)
    keys = _hint(options, "keys", _whole, report)
    time = _time(node, columns, options, report)
    if report.count or time is None:
        return None
    rest = tuple(pair(option) for key, option in options.items() if key not in OURS)
    return Stream(name, columns, time, delay or 0, idle, rate, keys, rest, report.place(node))


def _time(
    node: CreateStream, columns: tuple[StreamColumn, ...], options: Mapping[str, exp.Expr], report: Report
) -> str | None:
    name = node.this.name
    if not node.args["columns"]:
        report(ScriptError(f"stream {name} has no columns", "a stream has a time column", "List its columns."), node)
    elif "time" not in options:
        timestamps = [column.name for column in columns if column.type.is_timestamp]
        missing = ScriptError(
            f"stream {name} has no time column",
            "WITH names the column that holds the event time",
            f"Add time = '{timestamps[0] if timestamps else 'column'}' to WITH.",
        )
        report(missing, node)
    elif len(columns) == len(node.args["columns"]):
        time = pair(options["time"])[1]
        try:
            return time_column(name, columns, time).name
        except ScriptError as error:
            report(error, options["time"].args["value"])
    return None


def _columns(node: CreateStream, report: Report) -> tuple[StreamColumn, ...]:
    found: dict[str, StreamColumn] = {}
    for column in node.args["columns"]:
        name = column.this.name
        if name.lower() in found:
            report(
                ScriptError(f'column "{name}" stands twice', "each column has its own name", "Rename or remove one."),
                column,
            )
            continue
        try:
            found[name.lower()] = StreamColumn(name, data_type(column.args["kind"], report))
        except ScriptError as error:
            report(error, column)
    return tuple(found.values())


def _hint(options: Mapping[str, exp.Expr], name: str, read: Callable[[str], T], report: Report) -> T | None:
    if name not in options:
        return None
    text = pair(options[name])[1]
    try:
        value = read(text)
        check_hint(name, value)
        return value
    except ScriptError as error:
        report(error, options[name].args["value"])
        return None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ScriptError(
            f"'{text}' is not a number", "a rate is rows per second", "Give a number such as 1000."
        ) from None


def _whole(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or len(text) > 30:
        found, valid = f"'{text}' is not a whole number", "keys is how many join keys there are"
        raise ScriptError(found, valid, "Give a whole number.")
    return int(text)
