"""Likely reasons for rows that cannot be used."""

from __future__ import annotations

import pytest

from millstream.engine.watermark import today
from millstream.model.stream import Stream, StreamColumn
from millstream.model.types import TIMESTAMP
from millstream.pipeline.likely import AHEAD, BEHIND, TIMELESS, UNREADABLE, Evidence, in_words, likely_reason

SECOND, DAY, MAY = 1_000_000, 86_400_000_000, 1_717_156_800_000_000
FILES = Stream("S", (StreamColumn("Ts", TIMESTAMP),), "Ts", delay=5 * SECOND)
KAFKA = Stream("S", (StreamColumn("Ts", TIMESTAMP),), "Ts", options=(("format", "kafka"),))


@pytest.mark.parametrize(
    ("stream", "evidence", "told"),
    [
        (FILES, Evidence(counts={UNREADABLE: 9, BEHIND: 1}, texts=["1,2.5,1717156800000"]), "looks like milliseconds"),
        (FILES, Evidence(counts={UNREADABLE: 9}, texts=["a;b"]), "do not fit the text, such as 'a;b'"),
        (FILES, Evidence(counts={UNREADABLE: 1}, texts=["17171568000001"]), "do not fit the text"),
        (FILES, Evidence(counts={TIMELESS: 2}), "no value for Ts"),
        (
            FILES,
            Evidence(counts={AHEAD: 2}, times={AHEAD: (MAY * 1_000, MAY * 1_000)}),
            "looks like milliseconds: divided by 1,000 the times lie between 2024-05-31 12:00:00 UTC and",
        ),
        (
            FILES,
            Evidence(counts={AHEAD: 2}, times={AHEAD: (MAY, today() + 900 * DAY)}),
            "correct them at the source, or raise SET future",
        ),
        (
            FILES,
            Evidence(counts={BEHIND: 2}, times={BEHIND: (MAY - 90 * SECOND, MAY)}, greatest=MAY),
            "up to 90 s behind others: raise delay (it is 5 s), and Spark reads files in the order of their modif",
        ),
        (FILES, Evidence(counts={BEHIND: 2}, times={BEHIND: (0, 0)}, greatest=MAY), "around 1970-01-01 00:00:00 UTC"),
        (
            FILES,
            Evidence(counts={BEHIND: 2}, times={BEHIND: (MAY, MAY)}, greatest=today() + 9 * DAY),
            "ahead of today, has moved the watermark",
        ),
    ],
)
def test_the_likely_reason(stream: Stream, evidence: Evidence, told: str) -> None:
    assert told in likely_reason(stream, evidence)


def test_only_files_are_read_out_of_order() -> None:
    found = Evidence(counts={BEHIND: 1}, times={BEHIND: (MAY - DAY * 3, MAY)}, greatest=MAY)
    assert likely_reason(KAFKA, found) == "rows come up to 3 d behind others: raise delay (it is 0 s)"
    assert "modification times" in likely_reason(FILES, found)


def test_counts_in_words() -> None:
    assert in_words({BEHIND: 1_200, UNREADABLE: 3, AHEAD: 0}) == "1,200 late, 3 unreadable"
