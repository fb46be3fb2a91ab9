"""The cause of an error that Spark raises: a short sentence instead of pages of stack trace."""

from __future__ import annotations

import re
from urllib.parse import unquote

_FILE = re.compile(
    r"\[FAILED_READ_FILE[.\w]*\][^\n]*?reading file (?P<file>[^\n]+?)\.(?: *SQLSTATE| [A-Z]|$)", re.MULTILINE
)
_CAUSE = re.compile(r"^Caused by: (?:[\w$.]+: )?(?P<why>.+)$", re.MULTILINE)
_CALL = re.compile(r"\s*(at |\.\.\. \d+ more|File \")")


def first_cause(text: str) -> str:
    """The first cause in an error of Spark's, for people to read."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _CALL.match(line)]
    if any("No space left on device" in line for line in lines):
        return (
            "the disk is full: No space left on device. Free some of it and start again; of the directory, files in"
            " results/ and late/ may be moved away, those in segments/ may not"
        )
    unread = _FILE.search(text)
    if unread:
        return _unreadable(unread["file"], text)
    last = [line for line in lines if "Error" in line or "Exception" in line]
    return last[-1] if last else lines[0] if lines else text


def _unreadable(file: str, text: str) -> str:
    path = re.sub("^file:/+", "/", unquote(file))
    causes = _CAUSE.findall(text)
    why = causes[0].replace(f"file:{path}", "it") if causes else "no reason is given"
    return (
        f"the file '{path}' cannot be read: {why}; the files of a stream are whole when they appear, may be read, and"
        " have the columns that are declared. Mend or remove it, and start again"
    )
