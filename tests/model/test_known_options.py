"""Misspelt options are refused where it is known what there is, and handed on, with their names, where it is not."""

from __future__ import annotations

import pytest

from millstream.errors import ScriptError
from millstream.model.known_options import READERS, WRITERS, check_option, format_of, handed_on
from millstream.sql.stream import OURS


@pytest.mark.parametrize(
    ("name", "kind", "meant"),
    [
        ("delya", "parquet", "delay"),
        ("maxFilesPerTriger", "parquet", "maxFilesPerTrigger"),
        ("headr", "csv", "header"),
        ("allowSingleQuote", "json", "allowSingleQuotes"),
        ("startingOfsets", "kafka", "startingOffsets"),
        ("rowPerSecond", "rate", "rowsPerSecond"),
        ("maxFilesPerTriger", "delta", "maxFilesPerTrigger"),
    ],
)
def test_a_misspelt_option_of_a_stream(name: str, kind: str, meant: str) -> None:
    check_option(meant.upper(), kind, read=True)
    with pytest.raises(ScriptError, match=f'no option "{name}"; a stream with format .* Did you mean "{meant}"'):
        check_option(name, kind, read=True)


@pytest.mark.parametrize(
    ("name", "kind", "todo"),
    [
        ("header", "parquet", "Remove it"),
        ("maxFilesPerTrigger", "csv", "Remove it"),
        ("quot", "csv", 'Did you mean "quote"'),
        ("topik", "kafka", 'Did you mean "topic"'),
        ("truncate", "console", "Remove it"),
        ("mergeShema", "delta", 'Did you mean "mergeSchema"'),
    ],
)
def test_a_wrong_option_of_a_query(name: str, kind: str, todo: str) -> None:
    with pytest.raises(ScriptError, match=f'no option "{name}"; a query with format .* {todo}'):
        check_option(name, kind, read=False)


@pytest.mark.parametrize("name", ["anything", "delya", "x.y"])
def test_a_source_nobody_knows_takes_everything(name: str) -> None:
    for read in (True, False):
        check_option(name, "com.example.Source", read=read)
        assert handed_on([name, "path"], "com.example.Source", read=read) == [name]


def test_what_is_handed_on_by_sources_that_are_known() -> None:
    given = ["kafka.bootstrap.servers", "kafka.sasl.mechanism", "subscribe", "value", "time"]
    for name in given:
        check_option(name, "kafka", read=True)
    assert handed_on(given, "kafka", read=True) == ["kafka.sasl.mechanism"]
    check_option("somethingEntirelyNew", "delta", read=True)
    assert handed_on(["somethingEntirelyNew", "ignoreDeletes"], "delta", read=True) == ["somethingEntirelyNew"]


def test_our_own_options_are_known_to_every_source() -> None:
    for kind in READERS:
        for name in OURS:
            check_option(name, kind, read=True)
    for kind in WRITERS:
        check_option("path", kind, read=False)


def test_the_format_that_options_name() -> None:
    assert format_of([("path", "x"), ("Format", "CSV")]) == "csv"
    assert format_of([("path", "x")]) == "parquet"
