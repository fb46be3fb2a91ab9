"""`millstream run`: refused before anything starts, drained, and stopped by a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from millstream.cli import main
from millstream.pipeline import manifest as manifests
from millstream.pipeline.directory import Directory
from millstream.pipeline.manifest import Manifest
from millstream.pipeline.registry import Entry, Registry
from millstream.testing import run as run_in_memory

COLUMNS = "(Id INT, Value DOUBLE, Ts TIMESTAMP)"
STREAMS = f"""\
CREATE STREAM T {COLUMNS} WITH (path = 'in/t', time = 'Ts', maxFilesPerTrigger = 1);
CREATE STREAM H {COLUMNS} WITH (path = 'in/h', time = 'Ts', maxFilesPerTrigger = 1);
"""
SCRIPT = (
    STREAMS
    + """\
CREATE QUERY near AS SELECT T.Id, T.Value AS t, H.Value AS h FROM T, H WHERE T.Id = H.Id WINDOW 1 SECOND;
CREATE QUERY far AS SELECT T.Id, T.Value AS t, H.Value AS h FROM T, H WHERE T.Id = H.Id WINDOW 5 SECONDS;
"""
)
SCHEMA = pa.schema([("Id", pa.int32()), ("Value", pa.float64()), ("Ts", pa.timestamp("us", "UTC"))])
Row = dict[str, Any]
Run = Callable[..., Result]


def rows(batch: int) -> list[Row]:
    """Ten rows a second for five seconds."""
    begin = datetime(2024, 5, 31, 12, tzinfo=UTC) + timedelta(seconds=5 * batch)
    return [{"Id": n % 3, "Value": float(n), "Ts": begin + timedelta(seconds=n / 10)} for n in range(50)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder a person works in, with a script and two files per stream."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.sql").write_text(SCRIPT)
    for stream in ("t", "h"):
        (tmp_path / "in" / stream).mkdir(parents=True)
        for batch in range(2):
            path = tmp_path / "in" / stream / f"{batch}.parquet"
            pq.write_table(pa.Table.from_pylist(rows(batch), schema=SCHEMA), path)
            os.utime(path, (1_000_000_000 + batch, 1_000_000_000 + batch))
    return tmp_path


def refused(*args: str) -> str:
    result = CliRunner().invoke(main, ["run", "s.sql", *args])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    return result.stderr


def test_a_source_that_does_not_exist(folder: Path) -> None:
    (folder / "s.sql").write_text(SCRIPT.replace("in/h", "in/nowhere"))
    assert refused() == (
        f"error: line 2, column 15: stream H reads '{folder}/in/nowhere', which does not exist; the path is a folder of"
        " files; a relative one counts from where the directory was begun. Make the folder, or correct the path.\n"
    )
    assert not (folder / "state").exists()


def test_a_source_without_a_path(folder: Path) -> None:
    (folder / "s.sql").write_text(SCRIPT.replace("path = 'in/h', ", ""))
    assert refused().startswith(
        "error: line 2, column 15: stream H has no path; a stream of parquet files is read from a folder."
    )


def test_a_bad_script_starts_nothing(folder: Path) -> None:
    (folder / "s.sql").write_text(SCRIPT.replace("T.Value", "T.Vaule"))
    assert refused().endswith("s.sql: 2 errors, nothing was started\n")
    assert not (folder / "state").exists()


def test_a_directory_in_use(folder: Path) -> None:
    directory = Directory.at(folder / "mine")
    directory.make()
    with directory.locked():
        assert refused("--directory", "mine") == (
            f"error: {folder}/mine: a pipeline is running here (process {os.getpid()});"
            " a directory belongs to one running pipeline."
            " Stop that one, or choose another directory. `millstream query` changes a running one.\n"
        )


def test_a_master_that_is_none(folder: Path) -> None:
    """In a process of its own: where Spark runs already, no master is asked for."""
    command = [sys.executable, "-m", "millstream", "run", "s.sql", "--master", "none://here"]
    result = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert result.returncode == 2
    assert "\nerror: Spark does not start: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (SCRIPT.replace("DOUBLE", "FLOAT", 1), "stream T has changed: columns was Id INT, Value FLOAT"),
        (SCRIPT.replace("in/t", "in/h"), "stream T has changed: path was "),
        (SCRIPT + f"CREATE STREAM X {COLUMNS} WITH (path = 'in/t', time = 'Ts');", "stream X is gone; the columns"),
    ],
)
def test_a_directory_of_other_streams(folder: Path, before: str, message: str) -> None:
    directory = Directory.at(folder / "state" / "s")
    directory.make()
    Registry(directory.files.below("registry")).record(1, Entry("script", 1, text=before))
    manifests.commit(directory.files.below("manifest"), Manifest(batch=1))
    assert refused().startswith(f"error: {folder}/state/s: {message}")


def test_a_directory_that_cannot_be_made(folder: Path) -> None:
    (folder / "file").write_text("")
    assert refused("--directory", "file/d").startswith(f"error: {folder}/file/d: the directory cannot be made (")


def test_a_directory_that_cannot_be_or_that_a_stream_reads(folder: Path) -> None:
    assert refused("--directory", "foo://bar/x").startswith("error: foo://bar/x: the directory cannot be reached (")
    assert "lies where stream T reads" in refused("--directory", "in/t")
    (folder / "file").write_text("")
    result = CliRunner().invoke(main, ["demo", "--directory", "file"])
    assert (result.exit_code, result.output) == (
        2,
        "error: file: this is a file; the demo starts afresh. Name one that does not exist.\n",
    )


def test_files_that_do_not_fit_the_declaration(folder: Path) -> None:
    (folder / "s.sql").write_text(SCRIPT.replace("Value DOUBLE", "Value INT", 1))
    before = signal.getsignal(signal.SIGINT)
    assert (
        f"error: T.Value is DOUBLE in the files; it is declared as INT, and the files in '{folder}/in/t' have"
        " Id INT, Value DOUBLE, Ts TIMESTAMP. Change the declaration.\n"
    ) in refused()
    assert Registry(Directory.at(folder / "state" / "s").files.below("registry")).in_force().count == 0
    assert signal.getsignal(signal.SIGINT) is before


def start(folder: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "millstream", "run", "s.sql", "--json", *args],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_drained_it_has_done_everything_and_says_so(folder: Path) -> None:
    out, err = start(folder, "--drain", "--directory", "d").communicate(timeout=300)
    lines = [json.loads(line) for line in out.splitlines()]
    summary = lines[-1]["summary"]
    assert [line["batch"] for line in lines[:-1]] == [1, 2, 3], err
    assert summary["rows_in"] == {"T": 100, "H": 100}
    everything = [*rows(0), *rows(1)]
    expected = run_in_memory(SCRIPT, {"T": everything, "H": everything})
    for query in ("near", "far"):
        found = pq.read_table(folder / "d" / "results" / query)
        assert summary["queries"][query]["rows"] == found.num_rows
        assert summary["queries"][query]["results"] == str(folder / "d" / "results" / query)
        order = [(name, "ascending") for name in found.column_names]
        assert found.sort_by(order).to_pylist() == expected[query].sort_by(order).to_pylist()
    assert err == "starting Spark, which writes to d/spark.log ...\n"
    assert (folder / "d" / "spark.log").stat().st_size
    listed = CliRunner().invoke(main, ["query", "list", "d", "--json"])
    assert [one["rows"] for one in json.loads(listed.stdout)["queries"]] == [
        summary["queries"][query]["rows"] for query in ("near", "far")
    ]


def test_a_signal_to_all_processes_is_no_traceback(folder: Path) -> None:
    """As a service manager stops a service: Spark's Java gets the signal too and is gone before we are."""
    command = [sys.executable, "-m", "millstream", "run", "s.sql", "--json"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["batch"] == 1
        os.killpg(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=300)
    assert process.returncode in (0, 1)
    assert "Traceback" not in err
    assert "ERROR" not in err
    out, err = start(folder, "--drain").communicate(timeout=300)
    assert json.loads(out.splitlines()[-1])["summary"]["error"] is None, err
    everything = [*rows(0), *rows(1)]
    expected = run_in_memory(SCRIPT, {"T": everything, "H": everything})["near"]
    found = pq.read_table(folder / "state" / "s" / "results" / "near")
    order = [(name, "ascending") for name in found.column_names]
    assert found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()


def test_a_signal_finishes_the_batch_and_stops(folder: Path) -> None:
    with start(folder) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["batch"] == 1
        assert Directory.at(folder / "state" / "s").is_running()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    summary = json.loads(out.splitlines()[-1])["summary"]
    assert summary["batches"] == summary["last_batch"] >= 1
    assert summary["error"] is None
    assert "Traceback" not in err
    assert not Directory.at(folder / "state" / "s").is_running()


RAISES = """
import millstream

@millstream.function("BOOLEAN", "DOUBLE")
def odd(value):
    raise ValueError("not today")
"""


def test_a_function_that_raises_stops_its_query_or_everything(folder: Path) -> None:
    (folder / "mine.py").write_text(RAISES)
    (folder / "s.sql").write_text(SCRIPT.replace("WINDOW 5 SECONDS", "AND odd(T.Value) WINDOW 5 SECONDS"))
    options = ["s.sql", "--drain", "--functions", "mine.py"]

    result = CliRunner().invoke(main, ["run", *options])
    assert result.exit_code == 1, result.output
    assert result.stderr.endswith("error: stopped by an error: far. The other queries are complete.\n")
    place = f"{folder}/mine.py, line 6, in odd\n"
    assert f"query far is stopped: ValueError: not today\n  {place}" in result.stdout
    told = f'query far was stopped: ValueError: not today\n    {place}      raise ValueError("not today")\n'
    assert result.stdout.endswith(told)
    assert CliRunner().invoke(main, ["query", "list", "state/s"]).stdout.endswith(told)
    assert "2 batches" in result.stdout or "3 batches" in result.stdout
    listed = CliRunner().invoke(main, ["query", "list", "state/s", "--json"])
    near, far = json.loads(listed.stdout)["queries"]
    assert near["rows"] > 0
    assert far["state"] == "failed"
    assert far["error"].splitlines()[:2] == ["ValueError: not today", f"  {place.rstrip()}"]

    result = CliRunner().invoke(main, ["run", *options, "--set", "on_error=stop", "--directory", "other"])
    assert result.exit_code == 1
    assert f"error: query 'far': ValueError: not today\n  {place}" in result.stderr
    assert not Directory.at(folder / "other").is_running()
