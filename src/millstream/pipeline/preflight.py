"""What can be known to be wrong before Spark is started, which takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from millstream.errors import ScriptError
from millstream.model.functions import Function
from millstream.model.stream import Stream
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.sinks import external_of

FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")


def preflight(script: str, directory: Directory, functions: Mapping[str, Function]) -> None:
    """Sources that are there, sinks that make sense, a directory that is free and holds the same streams."""
    if directory.is_running():
        raise directory.in_use()
    declared = Control(directory, functions, {}, None, lambda _: None).check(script)
    for stream in declared.streams:
        check_path(stream)
    for query in declared.queries:
        external_of(query)


def check_path(stream: Stream) -> None:
    """Files are read from a folder that exists."""
    options = {name.lower(): value for name, value in stream.options}
    kind = options.get("format", "parquet").lower()
    if kind not in FILE_FORMATS:
        return
    path = options.get("path")
    if path is None:
        raise ScriptError(
            f"stream {stream.name} has no path",
            f"a stream of {kind} files is read from a folder",
            "Add path = '...' to WITH.",
        )
    if "://" not in path and not any(letter in path for letter in "*?[{") and not Path(path).exists():
        raise ScriptError(
            f"stream {stream.name} reads '{path}', which does not exist",
            "the path is a folder of files, seen from where the command runs",
            "Make the folder, or correct the path.",
        )
