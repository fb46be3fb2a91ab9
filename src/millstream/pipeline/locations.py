"""How the paths of a script are resolved.

A relative path counts from the folder in which the directory was first started, wherever the pipeline is started again.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from millstream.errors import ScriptError

Options = tuple[tuple[str, str], ...]

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_OF_THIS_MACHINE = re.compile(r"file:(//)?(?=/)")
_GLOB = re.compile(r"[][{}*?\\]")


def is_address(path: str) -> bool:
    """Whether a path names its file system: s3://, hdfs:// and the like."""
    return _ADDRESS.match(path) is not None


def placed(path: str, base: str) -> str:
    """An absolute path, or an address; a relative path counts from `base`."""
    path = _OF_THIS_MACHINE.sub("", path)
    return path if is_address(path) else str(Path(base).absolute() / path)


def located(options: Options, base: str) -> Options:
    """Options with their `path` absolute."""
    return tuple((name, placed(value, base) if name.lower() == "path" else value) for name, value in options)


def is_read(folder: str, options: Options) -> bool:
    """Whether a stream with these options, whose path is absolute, reads the files of a folder."""
    read = {name.lower(): value for name, value in options}.get("path", "").rstrip("/")
    at_or_above = [folder.rstrip("/"), *map(str, Path(folder).parents)]
    return bool(read) and (read in at_or_above or any(fnmatchcase(place, read) for place in at_or_above))


def check_apart(stream: str, options: Options, directory: str) -> None:
    """Refuses a stream that would read the pipeline's own files."""
    if is_read(directory, options):
        raise ScriptError(
            f"the pipeline's directory '{directory}' lies where stream {stream} reads",
            "state, logs and results would be taken for rows",
            "Choose another with --directory, or give the stream a folder of its own.",
        )


def looks_like_pattern(path: str) -> bool:
    return _GLOB.search(path) is not None


def literal(options: Options) -> Options:
    """Options as Spark reads them: it takes a path for a pattern, unless there is a folder of just that name."""
    for name, path in options:
        if name.lower() == "path" and looks_like_pattern(path) and not is_address(path) and Path(path).exists():
            if any(one.is_dir() for one in Path(path).iterdir()):
                raise ScriptError(
                    f"'{path}' has folders in it, and a name with one of []{{}}*?\\",
                    "such a name is a pattern to Spark, and a folder of this name may only have files in it",
                    "Rename the folder.",
                )
            rest = tuple(option for option in options if option[0].lower() not in ("path", "recursivefilelookup"))
            # Spark lists a file once for each file of a batch whose path looks like a pattern, unless lookup is
            # recursive.
            return (*rest, ("path", _GLOB.sub(r"\\\g<0>", path)), ("recursiveFileLookup", "true"))
    return options
