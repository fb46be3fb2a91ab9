"""Why rows of a stream are likely late or unreadable, as far as the rows themselves tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millstream.engine.watermark import NEVER, today
from millstream.model import duration, moments
from millstream.model.known_options import FILE_FORMATS, format_of
from millstream.model.stream import Stream

UNREADABLE, TIMELESS, AHEAD, BEHIND = "does not parse", "null time", "in the future", "older than the watermark"
"""The reasons that rows in `late/` have, as the engine writes them."""
_DAY = 86_400_000_000
_MILLISECONDS = re.compile(r"(?<![\d.-])1[0-9]\d{11}(?!\d)")
_NAMES = {UNREADABLE: "unreadable", TIMELESS: "without a time", AHEAD: "in the future", BEHIND: "late"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Rows of a stream that cannot be used, by reason; some of their texts and times, and the greatest time that the
    stream had before them. Times are microseconds.
    """

    counts: Mapping[str, int]
    texts: Sequence[str] = ()
    times: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    greatest: int = NEVER


def in_words(counts: Mapping[str, int]) -> str:
    """'12 late, 3 unreadable'."""
    return ", ".join(f"{count:,} {_NAMES.get(reason, reason)}" for reason, count in counts.items() if count)


def likely_reason(stream: Stream, evidence: Evidence) -> str:
    """A sentence about the most frequent reason, with what to do."""
    reason = max(evidence.counts, key=lambda one: evidence.counts[one], default=BEHIND)
    if reason == UNREADABLE:
        return _unreadable(stream, evidence)
    if reason == TIMELESS:
        return (
            f"the source has no value for {stream.time} in these rows, or has it under another name: compare with"
            " `millstream check --read`"
        )
    first, last = evidence.times.get(reason, (0, 0))
    if reason == AHEAD:
        return _ahead(stream, first, last)
    return _behind(stream, first, last, evidence.greatest)


def _unreadable(stream: Stream, evidence: Evidence) -> str:
    if any(_MILLISECONDS.search(text) for text in evidence.texts):
        return (
            f"{stream.time} looks like milliseconds since 1970, which is no {stream.column(stream.time).type}: have the"
            " source write times such as 2024-05-31T12:00:00Z"
        )
    shown = f", such as {_short(evidence.texts[0])}" if evidence.texts else ""
    return f"the declared columns and types do not fit the text{shown}: compare with `millstream check --read`"


def _ahead(stream: Stream, first: int, last: int) -> str:
    for unit, factor in (("milliseconds", 1_000), ("microseconds", 1_000_000)):
        if first // factor > 20 * 365 * _DAY and last // factor < today() + 366 * _DAY < last:
            begin, end = (moments.text(time // factor) for time in (first, last))
            return (
                f"{stream.time} is read as seconds since 1970 and looks like {unit}: divided by {factor:,} the times"
                f" lie between {begin} and {end}. Have the source write seconds, or times such as 2024-05-31T12:00:00Z"
            )
    return f"the times reach to {moments.text(last)}: correct them at the source, or raise SET future"


def _behind(stream: Stream, first: int, last: int, greatest: int) -> str:
    if last < 20 * 365 * _DAY and greatest > NEVER and greatest > 30 * 365 * _DAY:
        return f"their times lie around {moments.text(last)}: they may be 0, or counted in another unit than others"
    if greatest > today() + _DAY:
        return (
            f"a row of {moments.text(greatest)}, ahead of today, has moved the watermark: correct it at the source,"
            " lower SET future, and start in a new directory"
        )
    behind = duration.text(_round_up(max(greatest - first, 1)))
    files = (
        ", and Spark reads files in the order of their modification times: see that they are written in the order of"
        " their rows"
        if format_of(stream.options) in FILE_FORMATS
        else ""
    )
    return f"rows come up to {behind} behind others: raise delay (it is {duration.text(stream.delay)}){files}"


def _round_up(length: int) -> int:
    """To whole seconds, minutes, hours or days, so that it can be read."""
    unit = next((one for one in (_DAY, _DAY // 24, 60_000_000, 1_000_000) if length > 2 * one), 1)
    return -(-length // unit) * unit


def _short(text: str, most: int = 80) -> str:
    plain = " ".join(text.split())
    return repr(plain if len(plain) <= most else f"{plain[:most]}...")
