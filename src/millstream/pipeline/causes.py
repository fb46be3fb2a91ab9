"""The cause of an error that Spark raises: a short sentence instead of pages of stack trace."""

from __future__ import annotations

import re
from urllib.parse import unquote

_FILE = re.compile(
    r"\[FAILED_READ_FILE[.\w]*\][^\n]*?reading file (?P<file>[^\n]+?)\.(?: *SQLSTATE| [A-Z]|$)", re.MULTILINE
)
_CAUSE = re.compile(r"^Caused by: (?:[\w$.]+: )?(?P<why>.+)$", re.MULTILINE)
_CALL = re.compile(r"\s*(at |\.\.\. \d+ more|File \")")

_GONE = re.compile(r"KAFKA_DATA_LOSS|OffsetOutOfRangeException")
_PLACES = (
    re.compile(r"FetchPosition\{offset=(?P<offset>\d+).*out of range for partition (?P<partition>\S+)"),
    re.compile(r"artition (?P<partition>[\w.-]+)(?:'s)? (?:starting )?offset was changed from (?P<offset>\d+)"),
    re.compile(r"artition (?P<partition>[\w.-]+-\d+)"),
)
_AWAY = re.compile(r"org\.apache\.kafka\.common\.errors\.TimeoutException: ([^\n]+)")


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
    if _GONE.search(text):
        return _expired(text)
    if _AWAY.search(text):
        return (
            f"Kafka does not answer: {_AWAY.findall(text)[-1]}; the brokers of a stream answer within its timeouts. "
            "Everything committed stays: start again when they do"
        )
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


def _expired(text: str) -> str:
    """Offsets that Kafka does not have any more, by whichever of Spark's messages says so."""
    found = next((place for pattern in _PLACES if (place := pattern.search(text))), None)
    parts = found.groupdict() if found else {}
    where = f" of {parts['partition']}" if "partition" in parts else ""
    since = f" from offset {parts['offset']} on" if "offset" in parts else ""
    return (
        f"Kafka has deleted records{where}{since} that were not read yet; a stream goes on where it stopped, and the"
        " topic keeps records for longer than a stop takes. Add failOnDataLoss = 'false' to the stream's WITH to go on"
        " without them, or start in a new directory"
    )
