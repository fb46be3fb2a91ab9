"""`millstream query`: against a directory in which nothing runs, and against one that is in use."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millstream.cli import main
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.registry import Entry, Registry

SCRIPT = """\
CREATE STREAM T (Id INT, Value DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM H (Id INT, Value DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE QUERY near AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 1 MINUTE;
CREATE QUERY far AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 1 HOUR;
"""
ADDED = "CREATE QUERY mid AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 5 MINUTES"
Run = Callable[..., Result]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directory:
    """A directory as a pipeline leaves it, with the test in the folder above it."""
    monkeypatch.chdir(tmp_path)
    found = Directory.at(tmp_path / "d")
    found.make()
    Registry(found.files.below("registry")).record(1, Entry("script", 1, text=SCRIPT))
    return found


def run(*args: str, text: str = "") -> Result:
    return CliRunner().invoke(main, ["query", *args], input=text)


def good(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(result: Result) -> str:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    return result.stderr


def listed() -> dict[str, dict[str, object]]:
    found = json.loads(good(run("list", "d", "--json")))
    return {one["name"]: one for one in found["queries"]}


def test_list(directory: Directory) -> None:
    results = directory.location + "/results"
    assert good(run("list", "d")) == (
        f"{directory.location}: stopped, batch 0\n"
        "query  window            since batch  rows  results\n"
        f"near   (-1 min, +1 min)            1     0  {results}/near\n"
        f"far    (-1 h, +1 h)                1     0  {results}/far\n"
    )


def test_list_shows_what_was_stopped_and_why(directory: Directory) -> None:
    Registry(directory.files.below("registry")).record(2, Entry("fail", 7, query="far", error="ValueError: no"))
    assert "far    stopped" in good(run("list", "d"))
    assert listed()["far"]["state"] == "failed"
    assert listed()["far"]["error"] == "ValueError: no"


def test_added_to_a_stopped_pipeline_it_waits(directory: Directory) -> None:
    assert good(run("add", "d", text=ADDED)) == "mid: waits; it takes effect when the pipeline is started next\n"
    assert listed()["mid"]["state"] == "waiting"
    control = Control(directory=directory)
    control.begin(SCRIPT, 4)
    assert control.change(4)
    assert listed()["mid"] | {"state": "running", "since": 4} == listed()["mid"]


def test_several_from_a_file(directory: Directory, tmp_path: Path) -> None:
    (tmp_path / "more.sql").write_text(f"-- two\n{ADDED};\n{ADDED.replace('mid', 'other')}; -- the end")
    assert good(run("add", "d", "more.sql")).splitlines()[1].startswith("other: waits")
    assert [entry.query for _, entry in Registry(directory.files.below("registry")).waiting()] == ["mid", "other"]


def test_all_errors_come_at_once_and_nothing_is_asked_for(directory: Directory) -> None:
    text = (
        f"{ADDED};\n{ADDED.replace('mid', 'near')};\n{ADDED.replace('mid', 'bad').replace('T.Id FROM', 'T.Idd FROM')};"
    )
    assert refused(run("add", "d", text=text)) == (
        "error: query 'near', line 2, column 14: query \"near\" is there already; names differ."
        " Drop it first, or rename it.\n"
        "    2 | CREATE QUERY near AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 5 MINUTES;\n"
        "      |              ^\n"
        'error: query \'bad\', line 3, column 30: no column "Idd" in T; it has Id, Value, Ts. Did you mean "Id"?\n'
        "    3 | CREATE QUERY bad AS SELECT T.Idd FROM T, H WHERE T.Id = H.Id WINDOW 5 MINUTES;\n"
        "      |                              ^\n"
        "-: 2 errors, nothing was started\n"
    )
    assert Registry(directory.files.below("registry")).waiting() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SET slicing = 'memory'", "SET slicing; streams and settings stay as the pipeline was started"),
        ("CREATE STREAM X (Ts TIMESTAMP) WITH (time = 'Ts')", "STREAM X; streams and settings stay"),
        ("-- nothing", "no statement; streams and settings stay"),
        (ADDED.replace(" AS", " WITH (compression = 'no') AS"), "compression = 'no'; it is one of lz4"),
        ("CREATE QUERY 'oh", "a quote ' is opened and never closed"),
        (ADDED.replace("T.Id = H.Id", "T.Id = H.Id AND mine(T.Value)"), 'no function "mine"'),
    ],
)
def test_what_cannot_be_added(directory: Directory, text: str, message: str) -> None:
    assert message in refused(run("add", "d", text=text))
    assert Registry(directory.files.below("registry")).waiting() == []


@pytest.mark.usefixtures("directory")
def test_drop() -> None:
    assert good(run("drop", "d", "FAR")) == "FAR: waits; it takes effect when the pipeline is started next\n"
    assert listed()["far"]["state"] == "dropping"
    assert "ends" in good(run("list", "d"))
    assert 'no query "far"; the queries are near' in refused(run("drop", "d", "far"))


@pytest.mark.usefixtures("directory")
def test_what_waits_can_be_dropped_again() -> None:
    good(run("add", "d", text=ADDED))
    assert "is there already" in refused(run("add", "d", text=ADDED))
    good(run("drop", "d", "mid"))
    assert "mid" not in listed()


def test_a_name_nobody_has(directory: Directory) -> None:
    message = 'no query "nera"; the queries are near, far. Did you mean "near"?\n'
    assert refused(run("drop", "d", "nera")) == f"error: {directory.location}: {message}"


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize("command", [("list", "none"), ("drop", "none", "q"), ("add", "none")])
def test_where_no_pipeline_has_been(command: tuple[str, ...]) -> None:
    assert refused(run(*command, text=ADDED)).startswith("error: none: no pipeline has been here; a directory is what")
    assert not Path("none").exists()


def asked_while_running(directory: Directory, text: str, *options: str, batch: int) -> subprocess.CompletedProcess[str]:
    """`query add` while this process holds the directory and takes the change into force, as a pipeline does."""
    control = Control(directory=directory)
    control.begin(SCRIPT, batch)
    command = [sys.executable, "-m", "millstream", "query", "add", directory.location, "-", *options]
    with (
        directory.locked(),
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
        deadline = time.monotonic() + 60
        while not control.registry.waiting():
            assert process.poll() is None
            assert time.monotonic() < deadline
        control.change(batch)
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def test_added_to_a_running_pipeline_it_says_from_when_on(directory: Directory) -> None:
    result = asked_while_running(directory, ADDED, batch=5)
    assert (result.returncode, result.stdout) == (0, "mid: in force from batch 5 on\n"), result.stderr


def test_what_the_running_pipeline_refuses_is_told_with_the_reason(directory: Directory, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import millstream\n@millstream.function('BOOLEAN', 'DOUBLE')\ndef mine(value):\n    return value > 0\n"
    )
    text = ADDED.replace("T.Id = H.Id", "T.Id = H.Id AND mine(T.Value)")
    result = asked_while_running(directory, text, "--functions", "mine.py", batch=5)
    assert result.returncode == 2
    assert "not applied: query 'mid'" in result.stderr
    assert 'no function "mine"' in result.stderr
    assert "mid" not in listed()


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    "command",
    [
        ["query", "list", "d"],
        ["query", "drop", "d", "near"],
        ["query", "add", "d", "a.sql"],
        ["check", "s.sql"],
        ["rescale", "d", "--slots", "3"],
    ],
)
def test_spark_is_not_loaded(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "s.sql").write_text(SCRIPT)
    (tmp_path / "a.sql").write_text(ADDED)
    code = (
        "import sys; from millstream.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "sys.exit(3 if 'pyspark' in sys.modules else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code, *command], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
