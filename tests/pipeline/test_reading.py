"""A look at sources before they run: columns, a sample of rows, and which of them could not be used."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.compile import compile_script
from millstream.errors import ScriptError
from millstream.pipeline.reading import Look, look
from millstream.pipeline.session import make_session, session_for

SCHEMA = pa.schema([("Id", pa.int32()), ("Ts", pa.timestamp("us", "UTC")), ("x", pa.string())])
BEGIN = datetime(2024, 5, 31, 12, tzinfo=UTC)
FUTURE = 30 * 86_400_000_000


def looked(columns: str, options: str) -> Look:
    script = compile_script(f"CREATE STREAM S ({columns}, Ts TIMESTAMP) WITH (time = 'Ts', {options});").script
    return look(session_for(make_session("look")), script.streams[0], FUTURE)


@pytest.fixture
def minutes(tmp_path: Path) -> Path:
    """Three files of a minute each, the last one written first."""
    for number, minute in enumerate([2, 0, 1]):
        rows = [{"Id": n, "Ts": BEGIN + timedelta(minutes=minute, seconds=n), "x": "a"} for n in range(20)]
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
        os.utime(path, (1e9 + number, 1e9 + number))
    return tmp_path


def test_files_out_of_order_are_late_batch_by_batch(minutes: Path) -> None:
    found = looked("Id INT", f"path = '{minutes}', maxFilesPerTrigger = 1, delay = '5 seconds'")
    assert (found.files, found.sampled, found.rows) == (3, 3, 60)
    assert dict(found.late) == {"older than the watermark": 40}
    assert "rows come up to 3 min behind others: raise delay (it is 5 s)" in found.likely
    assert found.differences == ["not declared, and not read: x STRING"]


def test_in_one_batch_they_are_not_but_would_be_one_by_one(minutes: Path) -> None:
    found = looked("Id INT", f"path = '{minutes}'")
    assert (dict(found.late), found.alone, found.likely) == ({}, 40, "")


def test_milliseconds_in_csv_and_json(tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv/a.csv").write_text("".join(f"{n},{1717156800000 + n}\n" for n in range(10)))
    found = looked("Id INT", f"format = 'csv', path = '{tmp_path}/csv'")
    assert dict(found.late) == {"does not parse": 10}
    assert found.differences == ["Ts is declared as TIMESTAMP and looks like BIGINT"]
    assert "looks like milliseconds since 1970" in found.likely
    (tmp_path / "json").mkdir()
    rows = [{"Id": n, "Ts": 1717156800000 + n, "Valu": 1.5} for n in range(10)]
    (tmp_path / "json/a.json").write_text("\n".join(map(json.dumps, rows)))
    found = looked("Id INT, Value FLOAT", f"format = 'json', path = '{tmp_path}/json'")
    assert dict(found.late) == {"in the future": 10}
    assert found.differences == [
        "Value is declared and not found",
        "Ts is declared as TIMESTAMP and looks like BIGINT",
        "not declared, and not read: Valu DOUBLE",
    ]


def test_what_a_start_would_refuse_is_refused(minutes: Path) -> None:
    with pytest.raises(ScriptError, match=r"S.Id is INT in the files; it is declared as STRING"):
        looked("Id STRING", f"path = '{minutes}'")


def test_sources_without_rows_to_look_at(tmp_path: Path) -> None:
    assert looked("Id INT", f"path = '{tmp_path}'").rows is None
    script = "CREATE STREAM R (timestamp TIMESTAMP, value BIGINT) WITH (format = 'rate', time = 'timestamp');"
    stream = compile_script(script).script.streams[0]
    assert look(session_for(make_session("look")), stream, FUTURE).rows is None
