"""What can be known to be wrong before Spark is started, which takes seconds."""

from __future__ import annotations

from pathlib import Path

from millstream.compile import compile_script
from millstream.errors import ScriptError, ScriptErrors
from millstream.model.functions import Function
from millstream.model.script import Script
from millstream.model.stream import Stream
from millstream.pipeline.control import check_same_streams
from millstream.pipeline.directory import Directory
from millstream.pipeline.registry import Registry
from millstream.pipeline.sinks import external_of

FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")


def preflight(script: Script, directory: Directory, functions: dict[str, Function]) -> None:
    """Sources that are there, sinks that make sense, a directory that is free and holds the same streams."""
    for stream in script.streams:
        check_path(stream)
    for query in script.queries:
        external_of(query)
    if directory.is_running():
        raise directory.in_use()
    before = Registry(directory.files.below("registry")).in_force()
    if before.script:
        try:
            streams = compile_script(before.script, functions=functions).script.streams
        except ScriptErrors:
            return  # a function that only the script of before called
        check_same_streams(streams, script.streams, directory.place)


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
