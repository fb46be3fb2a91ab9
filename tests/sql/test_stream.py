"""CREATE STREAM: columns, types, and the options that are ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.model import Script, Stream, StreamColumn
from millstream.model.duration import MINUTE, SECOND
from millstream.model.types import INT, STRING, TIMESTAMP

ReadScript = Callable[[str], Script]


def test_a_stream_as_declared(script: ReadScript) -> None:
    found = script(
        "CREATE STREAM Temperature (LocationId INT, Name STRING, Ts TIMESTAMP) WITH (format = 'parquet', "
        "path = 'in/temperature', time = 'Ts', delay = '5 seconds', idle = '1 minute', rate = 1000, keys = 20000);"
    )
    assert found.streams == (
        Stream(
            "Temperature",
            (StreamColumn("LocationId", INT), StreamColumn("Name", STRING), StreamColumn("Ts", TIMESTAMP)),
            "Ts",
            delay=5 * SECOND,
            idle=MINUTE,
            rate=1000.0,
            keys=20_000,
            options=(("format", "parquet"), ("path", "in/temperature")),
        ),
    )


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("TINYINT", "TINYINT"),
        ("byte", "TINYINT"),
        ("Smallint", "SMALLINT"),
        ("INTEGER", "INT"),
        ("LONG", "BIGINT"),
        ("REAL", "FLOAT"),
        ("DOUBLE", "DOUBLE"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("NUMERIC(5)", "DECIMAL(5, 0)"),
        ("DECIMAL(38, 38)", "DECIMAL(38, 38)"),
        ("VARCHAR(20)", "STRING"),
        ("TEXT", "STRING"),
        ("BOOL", "BOOLEAN"),
        ("DATE", "DATE"),
        ("TIMESTAMP(3)", "TIMESTAMP"),
        ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ"),
        ("TIMESTAMP_LTZ", "TIMESTAMP"),
        ("BINARY", "BINARY"),
        ("ARRAY<INT>", "ARRAY<INT>"),
        ("INT[]", "ARRAY<INT>"),
        ("INT[][]", "ARRAY<ARRAY<INT>>"),
        ("MAP<STRING, ARRAY<DOUBLE>>", "MAP<STRING, ARRAY<DOUBLE>>"),
        ("STRUCT<a: INT, b STRUCT<c: STRING>>", "STRUCT<a: INT, b: STRUCT<c: STRING>>"),
    ],
)
def test_types(script: ReadScript, written: str, kind: str) -> None:
    found = script(f"CREATE STREAM S (c {written}, Ts TIMESTAMP) WITH (time = 'Ts')")
    assert str(found.streams[0].columns[0].type) == kind


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
@pytest.mark.parametrize("name", ["'Ts'", "Ts", "ts", '"TS"'])
def test_the_time_column_is_found_whatever_the_case(script: ReadScript, kind: str, name: str) -> None:
    found = script(f"CREATE STREAM S (Ts {kind}) WITH (time = {name})")
    assert found.streams[0].column(found.streams[0].time).name == "Ts"


@pytest.mark.parametrize(
    ("written", "option"),
    [
        ("path = 'a b'", ("path", "a b")),
        ("header = TRUE", ("header", "true")),
        ("maxFilesPerTrigger = 10", ("maxFilesPerTrigger", "10")),
        ("startingOffset = -2", ("startingOffset", "-2")),
        ("ratio = 0.50", ("ratio", "0.50")),
        ("kafka.bootstrap.servers = 'a:1,b:2'", ("kafka.bootstrap.servers", "a:1,b:2")),
        ("'kafka.bootstrap.servers' = 'a:1'", ("kafka.bootstrap.servers", "a:1")),
        ("`odd key` = 'x'", ("odd key", "x")),
    ],
)
def test_options_that_are_not_ours_stay_as_written(script: ReadScript, written: str, option: tuple[str, str]) -> None:
    found = script(f"CREATE STREAM S (Ts TIMESTAMP) WITH (Time = 'Ts', format = \"mine\", {written})")
    assert found.streams[0].options == (("format", "mine"), option)


def test_what_is_not_said_is_not_known(script: ReadScript) -> None:
    stream = script("CREATE STREAM S (Ts TIMESTAMP) WITH (time = 'Ts')").streams[0]
    assert (stream.delay, stream.idle, stream.rate, stream.keys, stream.options) == (0, None, None, None, ())


def test_odd_column_names_stand_in_quotes(script: ReadScript) -> None:
    stream = script(
        'CREATE STREAM S ("event time" TIMESTAMP, `größe` INT, "a""b" INT) WITH (time = \'event time\')'
    ).streams[0]
    assert [column.name for column in stream.columns] == ["event time", "größe", 'a"b']
    assert stream.time == "event time"
