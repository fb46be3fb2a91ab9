"""`millstream status`, `results` and `late`: a pipeline seen from outside."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from millstream.cli import main
from millstream.cli.status import status_lines

SCHEMA = pa.schema([("Id", pa.int32()), ("Ts", pa.timestamp("us", "UTC"))])
BEGIN = datetime(2024, 5, 31, 12, tzinfo=UTC)
SCRIPT = """\
CREATE STREAM T (Id INT, Ts TIMESTAMP) WITH (path = 'in/t', time = 'Ts', delay = '5 s', maxFilesPerTrigger = 1);
CREATE STREAM H (Id INT, Ts TIMESTAMP) WITH (path = 'in/h', time = 'Ts', maxFilesPerTrigger = 1);
CREATE QUERY near AS SELECT T.Id, T.Ts FROM T, H WHERE T.Id = H.Id WINDOW 1 SECOND;
CREATE QUERY bad AS SELECT CAST('x' || CAST(T.Id AS STRING) AS INT) AS n FROM T, H WHERE T.Id = H.Id WINDOW 1 SECOND;
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files a stream, the later minute first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.sql").write_text(SCRIPT)
    for stream in "th":
        (tmp_path / "in" / stream).mkdir(parents=True)
        for number, minute in enumerate([1, 0]):
            rows = [{"Id": n, "Ts": BEGIN + timedelta(minutes=minute, seconds=n)} for n in range(10)]
            path = tmp_path / "in" / stream / f"{number}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
            os.utime(path, (1e9 + number, 1e9 + number))
    return tmp_path


def invoke(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


@pytest.mark.usefixtures("folder")
def test_a_pipeline_that_has_run() -> None:
    ran = invoke("run", "s.sql", "--drain")
    assert ran.exit_code == 1, ran.output
    warning = "warning: 50% of the rows of T are late or unreadable (10 of 20): rows come up to 69 s behind others"
    assert ran.stdout.count(warning) == 2, "in the lines and in the summary"
    lines = re.findall(r"^(.*)batch \d+  \d+ rows in", ran.stdout, re.MULTILINE)
    assert len(lines) == 2
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  ", line) for line in lines)

    shown = invoke("status", "state/s", "--json")
    found = json.loads(shown.stdout)
    assert (shown.exit_code, found["running"], found["batch"], found["queries"]) == (3, False, 3, {"near": 10})
    end = int((BEGIN + timedelta(seconds=69)).timestamp() * 1e6)
    assert found["streams"]["T"]["watermark_us"] == end - 5_000_000 == found["streams"]["H"]["watermark_us"] - 5_000_000
    assert [found["streams"]["T"][name] for name in ("greatest_us", "rows_in", "late")] == [end, 20, 10]
    assert list(found["failed"]) == ["bad"]
    assert len(found["warnings"]) == 2
    shown = invoke("status", "state/s")
    assert shown.stdout.startswith("state/s: not running, started ")
    assert "\nquery bad is stopped: " in shown.stdout

    shown = invoke("explain", "state/s")
    assert (shown.exit_code, "bad" in shown.stdout) == (0, False), "a stopped query is in no plan"
    assert "\nMeasured in 2 batches with rows" in shown.stdout
    assert invoke("explain", "state/s", "--format", "dot").stdout.startswith("digraph")
    refused = invoke("explain", "state/s", "--set", "slicing=memory")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "error: state/s: --set slicing=memory; a directory is explained with the settings it was last run with."
        " Leave it out, or explain the script with it.\n",
    )

    head, *rows = invoke("results", "state/s", "near", "--limit", "3").stdout.splitlines()
    assert (head.split(), len(rows)) == (["Id", "Ts"], 3)
    rows = invoke("results", "state/s", "NEAR", "--json").stdout.splitlines()
    assert sorted(json.loads(row)["Id"] for row in rows) == list(range(10))
    assert json.loads(rows[0])["Ts"].startswith("2024-05-31 12:01:0")
    assert 'no query "neer"' in invoke("results", "state/s", "neer").stderr

    shown = invoke("late", "state/s")
    assert [line for line in shown.stdout.splitlines() if line[0] != " "] == ["T: 10 late", "H: 10 late"]
    shown = invoke("late", "state/s", "t", "--limit", "2")
    lines = shown.stdout.splitlines()
    assert lines[0] == "T: 10 late"
    assert lines[2].split() == ["Id", "Ts", "_reason", "_chain", "_text"]
    assert len(lines) == 5
    assert "Did you mean" in invoke("late", "state/s", "TT").stderr


def test_the_status_in_words(golden: Callable[[str, str], None]) -> None:
    stream = {"greatest_us": 1_717_156_800_000_000, "watermark_us": 1_717_156_795_000_000, "lag_seconds": 9.0}
    found: dict[str, Any] = {
        "directory": "/state/s",
        "running": True,
        "process": 7,
        "started": 1_000.0,
        "batch": 1_204,
        "committed": 8_000.0,
        "streams": {"T": {**stream, "rows_in": 2_000, "late": 30, "shed": 0, "shed_ever": 400}},
        "completeness": {"near": 0.816},
        "completeness_by": "from the share of keys kept in each batch",
        "queries": {"near": 1},
        "state_rows": 5_000,
        "state_bytes": 100_000,
        "deferred": 3,
        "owing": 1,
        "failed": {"far": "ValueError: no\n  mine.py, line 3, in odd"},
        "warnings": ["20% of the rows of T are late or unreadable"],
    }
    stopped = {
        **found,
        "running": False,
        "process": None,
        "started": None,
        "committed": None,
        "batch": 0,
        "streams": {},
        "completeness_by": "",
    }
    shown = [*status_lines(found, 8_002.5), "", *status_lines(stopped, 8_002.5)]
    golden("status.txt", "\n".join(shown))


@pytest.mark.usefixtures("folder")
def test_a_directory_without_a_pipeline() -> None:
    for command in ("status", "late"):
        shown = invoke(command, "nowhere")
        assert (shown.exit_code, "no pipeline has been here" in shown.stderr) == (2, True)
