"""Errors that can be found before Spark is started, which takes seconds."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from millstream.errors import ScriptError, did_you_mean, listing
from millstream.model.functions import Function
from millstream.model.script import Script
from millstream.model.stream import Stream
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.locations import check_apart, is_address, located
from millstream.pipeline.sinks import wrong_sinks

FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")
_READ = (*FILE_FORMATS, "kafka", "rate", "rate-micro-batch", "socket", "delta", "iceberg")
UNITS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
"""The units of times that are numbers since 1970, and how many of them are a second."""
_KAFKA = ("subscribe", "subscribepattern", "assign")


def preflight(script: str, directory: Directory, functions: Mapping[str, Function]) -> None:
    """Checks that sources exist, sinks are valid, and the directory is free and has the same streams."""
    if directory.is_running():
        raise directory.in_use()
    control = Control(directory=directory, functions=functions)
    for stream in control.check(script).streams:
        try:
            options = located(stream.options, control.base)
            check_path(replace(stream, options=options))
            check_apart(stream.name, options, directory.location)
        except ScriptError as error:
            raise error.at(stream.where) from None


def wrong_ends(script: Script, base: str = "") -> list[ScriptError]:
    """The errors in the options of streams and queries, which do not depend on where the script runs."""
    found = []
    for stream in script.streams:
        try:
            _check_options(stream)
        except ScriptError as error:
            found.append(error.at(stream.where))
    return found + wrong_sinks(script, base)


def check_path(stream: Stream) -> None:
    """Refuses a path that is not an existing folder."""
    options = {name.lower(): value for name, value in stream.options}
    kind = options.get("format", "parquet").lower()
    if kind not in FILE_FORMATS:
        return
    path = options.get("path")
    if path is None:
        raise _without_path(stream, kind)
    is_pattern = any(letter in path for letter in "*?[{\\")
    if not is_address(path) and not is_pattern and not Path(path).exists():
        raise ScriptError(
            f"stream {stream.name} reads '{path}', which does not exist",
            "the path is a folder of files; a relative one counts from where the directory was begun",
            "Make the folder, or correct the path.",
        )


def _check_options(stream: Stream) -> None:
    """A stream without a format and a path may get another source from `Pipeline.read`."""
    options = {name.lower(): value for name, value in stream.options}
    kind = options.get("format", "").lower()
    near = difflib.get_close_matches(kind, _READ, n=1, cutoff=0.66)
    if kind and kind not in _READ and near:
        raise ScriptError(
            f"stream {stream.name} has format = '{kind}'",
            f"formats of Spark's are {', '.join(_READ)}",
            f'Did you mean "{near[0]}"?',
        )
    if kind in FILE_FORMATS and "path" not in options:
        raise _without_path(stream, kind)
    if "path" in options and not options["path"].strip():
        raise ScriptError(f"stream {stream.name} has path = ''", "a path names a folder", "Name the folder.")
    value = options.get("value", "json")
    if value.lower() != "json":
        valid = "value = 'json' reads the column value as JSON"
        raise ScriptError(f"value = '{value}'", valid, "Use 'json', or leave it out.")
    epoch = options.get("epoch", "seconds")
    if epoch.lower() not in UNITS:
        todo = did_you_mean(epoch, UNITS, "Choose one.")
        raise ScriptError(f"epoch = '{epoch}'", f"times that are numbers since 1970 are {listing(UNITS)}", todo)
    if kind == "kafka" and "kafka.bootstrap.servers" not in options:
        valid = "Kafka is found by kafka.bootstrap.servers"
        raise ScriptError(f"stream {stream.name} names no servers", valid, "Add it to WITH.")
    if kind == "kafka" and not options.keys() & set(_KAFKA):
        valid = "subscribe = '...' names its topics"
        raise ScriptError(f"stream {stream.name} names no topic", valid, "Add it to WITH.")


def _without_path(stream: Stream, kind: str) -> ScriptError:
    return ScriptError(
        f"stream {stream.name} has no path",
        f"a stream of {kind} files is read from a folder",
        "Add path = '...' to WITH.",
    )
