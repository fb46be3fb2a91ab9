"""Errors that can be found before Spark is started, which takes seconds."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path

from millstream.errors import ScriptError, did_you_mean, listing
from millstream.model.functions import Function
from millstream.model.known_options import FILE_FORMATS, READERS, check_option, format_of, handed_on
from millstream.model.script import Script
from millstream.model.stream import Stream
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.locations import check_apart, is_address, located, looks_like_pattern
from millstream.pipeline.sinks import folder_of, wrong_sinks

_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
_SUFFIXES = {f".{kind}": kind for kind in FILE_FORMATS if kind != "text"} | {".jsonl": "json", ".ndjson": "json"}
_SOME_FILES = 200
UNITS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
"""The units of times that are numbers since 1970, and how many of them are a second."""
_KAFKA = ("subscribe", "subscribepattern", "assign")


def preflight(script: str, directory: Directory, functions: Mapping[str, Function]) -> None:
    """Checks that sources exist, sinks are valid, and the directory is free and has the same streams."""
    if directory.is_running():
        raise directory.in_use()
    control = Control(directory=directory, functions=functions)
    declared = control.check(script)
    for query in declared.queries:
        folder = folder_of(query, control.base)
        if folder is not None and not is_address(folder) and Path(folder).is_file():
            raise ScriptError(
                f"{query.name} writes to '{folder}', which is a file",
                "a path names a folder, and every batch adds files to it",
                "Name another, or move the file away.",
                query.where,
            )
    for stream in declared.streams:
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
            check_options(stream)
        except ScriptError as error:
            found.append(error.at(stream.where))
    return found + wrong_sinks(script, base)


def unchecked(script: Script) -> Iterator[str]:
    """Which options of streams and queries are handed on without being known here, in words."""
    ends = [(f"stream {one.name}", one.options, True) for one in script.streams]
    for who, options, read in [*ends, *((f"query {one.name}", one.options, False) for one in script.queries)]:
        kind = format_of(options)
        names = handed_on([name for name, _ in options], kind, read=read)
        if names:
            yield f"{who}: handed on to {kind} unchecked: {listing(names)}"


def check_path(stream: Stream) -> None:
    """Refuses a path that is not an existing folder, and a folder that holds files of another format."""
    options = {name.lower(): value for name, value in stream.options}
    kind = options.get("format", "parquet").lower()
    if kind not in FILE_FORMATS:
        return
    path = options.get("path")
    if path is None:
        raise _without_path(stream, kind)
    if is_address(path):
        return
    folder = Path(path)
    if looks_like_pattern(path) and not folder.exists():
        folder = _before_pattern(folder)
    if not folder.exists():
        raise ScriptError(
            f"stream {stream.name} reads '{folder}', which does not exist",
            "the path is a folder of files; a relative one counts from where the directory was begun",
            "Make the folder, or correct the path.",
        )
    if folder.is_file():
        raise ScriptError(
            f"stream {stream.name} reads '{path}', which is a file",
            "the path is a folder, and every new file in it is read once",
            f"Use path = '{folder.parent}', and pathGlobFilter = '{folder.name}' where other files are beside it.",
        )
    if folder == Path(path):
        _check_suffixes(stream, kind, folder, options)


def _before_pattern(path: Path) -> Path:
    """The part of a path before its first pattern."""
    parts = list(takewhile(lambda part: not looks_like_pattern(part), path.parts))
    return Path(*parts)


def _check_suffixes(stream: Stream, kind: str, folder: Path, options: Mapping[str, str]) -> None:
    """Refuses a folder all of whose files are named as those of one other format; Spark would fail in its first batch,
    or read text of another kind as rows that do not parse.
    """
    if kind == "text" or "pathglobfilter" in options:
        return
    names = (one.name for one in islice(folder.iterdir(), _SOME_FILES) if one.name[0] not in "._" and one.is_file())
    kinds = {next((_SUFFIXES[part] for part in Path(name).suffixes if part in _SUFFIXES), "") for name in names}
    if len(kinds) == 1 and kinds.isdisjoint({kind, ""}):
        (other,) = kinds
        raise ScriptError(
            f"stream {stream.name} reads {kind} files, and those in '{folder}' are named as {other} files",
            "the format of files is given with format = '...', and is parquet where it is not",
            f"Use format = '{other}', or another path.",
        )


def check_options(stream: Stream) -> None:
    """Refuses options that no reader knows, or that do not go together.

    A stream without a format and a path may get another source from `Pipeline.read`.
    """
    options = {name.lower(): value for name, value in stream.options}
    kind = options.get("format", "").lower()
    near = difflib.get_close_matches(kind, READERS, n=1, cutoff=0.66)
    if kind and kind not in READERS and near:
        raise ScriptError(
            f"stream {stream.name} has format = '{kind}'",
            f"formats of Spark's are {', '.join(READERS)}",
            f'Did you mean "{near[0]}"?',
        )
    for name, _ in stream.options:
        check_option(name, kind or "parquet", read=True)
    mode = options.get("mode", "").upper()
    if kind in FILE_FORMATS and mode and mode not in _MODES:
        # Spark would fall back to PERMISSIVE.
        raise ScriptError(f"mode = '{mode}'", f"it is {' or '.join(_MODES)}", did_you_mean(mode, _MODES, "Choose one."))
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
        near = difflib.get_close_matches("kafka.bootstrap.servers", options, n=1, cutoff=0.8)
        todo = f'Did you mean it by "{near[0]}"?' if near else "Add it to WITH."
        raise ScriptError(f"stream {stream.name} names no servers", valid, todo)
    if kind == "kafka" and not options.keys() & set(_KAFKA):
        valid = "subscribe = '...' names its topics"
        raise ScriptError(f"stream {stream.name} names no topic", valid, "Add it to WITH.")


def _without_path(stream: Stream, kind: str) -> ScriptError:
    return ScriptError(
        f"stream {stream.name} has no path",
        f"a stream of {kind} files is read from a folder",
        "Add path = '...' to WITH.",
    )
