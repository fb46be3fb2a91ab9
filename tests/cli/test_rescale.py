"""`millstream rescale`: against a directory in which nothing runs, and against one that is in use."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millstream.cli import main
from millstream.pipeline import manifest as manifests
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.manifest import Manifest
from millstream.pipeline.registry import Entry, Registry
from millstream.pipeline.sealed import sealed

SCRIPT = """\
CREATE STREAM T (Id INT, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM H (Id INT, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE QUERY near AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 1 MINUTE;
SET groups = 64;
SET slots = 2;
"""


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    """A directory as a pipeline leaves it before its first batch."""
    found = Directory.at(tmp_path / "d")
    found.make()
    Registry(found.files.below("registry")).record(1, Entry("script", 1, text=SCRIPT, slots=2))
    return found


@pytest.fixture
def stopped(directory: Directory) -> Directory:
    """A directory with a committed batch, of two slots with 32 groups each."""
    manifests.commit(directory.files.below("manifest"), Manifest(batch=3, routing=(0,) * 32 + (1,) * 32))
    return directory


def rescale(directory: Directory | str, slots: int | str) -> Result:
    place = directory if isinstance(directory, str) else directory.location
    return CliRunner().invoke(main, ["rescale", place, "--slots", str(slots)])


def refused(result: Result) -> str:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    return result.stderr


def begun(directory: Directory, script: str = SCRIPT) -> Control:
    """What runs at a start with this script, which applies what waits."""
    control = Control(directory=directory)
    control.begin(script, 4)
    control.change(4)
    return control


@pytest.mark.parametrize("slots", [0, -1, 65])
def test_a_number_that_cannot_be_is_refused(stopped: Directory, slots: int) -> None:
    told = refused(rescale(stopped, slots))
    for part in (stopped.location, f"{slots} slots", "from 1 to 64", "Give another number."):
        assert part in told
    assert not Registry(stopped.files.below("registry")).is_asked()


@pytest.mark.parametrize("slots", ["many", "1.5"])
def test_what_is_no_number_is_refused(stopped: Directory, slots: str) -> None:
    assert "--slots" in refused(rescale(stopped, slots))


def test_a_folder_in_which_no_pipeline_has_been(tmp_path: Path) -> None:
    told = refused(rescale(str(tmp_path / "elsewhere"), 2))
    for part in (str(tmp_path / "elsewhere"), "no pipeline has been here", "--directory", "Check the path"):
        assert part in told
    assert not (tmp_path / "elsewhere").exists()


def test_a_stopped_pipeline_has_them_from_its_next_start_on(stopped: Directory) -> None:
    result = rescale(stopped, 64)
    assert result.stdout == "64 slots: waits; it takes effect when the pipeline is started next\n"
    assert begun(stopped).slots() == 64
    assert begun(stopped).slots() == 64, "also at the start after that"


def test_the_last_one_counts_until_the_script_asks_for_another_number(stopped: Directory) -> None:
    for slots in (5, 7):
        assert rescale(stopped, slots).exit_code == 0
    assert begun(stopped).slots() == 7
    assert begun(stopped, SCRIPT.replace("1 MINUTE", "2 MINUTES")).slots() == 7
    assert begun(stopped, SCRIPT.replace("slots = 2", "slots = 9")).slots() == 9


def test_before_the_first_batch_the_start_knows_how_many_groups_there_are(directory: Directory) -> None:
    assert "from 1 to 4,096" in refused(rescale(directory, 4_097))
    assert "waits" in rescale(directory, 65).stdout
    said: list[str] = []
    control = Control(directory=directory, tell=said.append)
    control.begin(SCRIPT, 1)
    assert not control.change(1)
    assert control.slots() == 2
    (told,) = said
    assert told.startswith("not applied: ")
    assert "65 slots" in told
    assert "from 1 to 64" in told


@pytest.mark.parametrize("text", ["", "many", "0", "-3"])
def test_a_ticket_that_asks_for_no_number_is_set_aside(stopped: Directory, text: str) -> None:
    registry = Registry(stopped.files.below("registry"))
    ticket = registry.ask("slots", "", "3")
    saved = {**Entry("slots", 0, text="3").to_json(), "text": text}
    stopped.files.below("registry").write(f"inbox/{ticket}", sealed(saved))
    said: list[str] = []
    assert registry.waiting(said.append) == []
    assert f"slots = {text!r}" in said[0]
    assert begun(stopped).slots() == 2


def test_it_waits_for_the_batch_that_a_running_pipeline_does_it_with(stopped: Directory) -> None:
    """The command, while this process holds the directory as a running pipeline does."""
    with stopped.locked():
        command = [sys.executable, "-m", "millstream", "rescale", stopped.location, "--slots", "6"]
        asking = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        control = Control(directory=stopped)
        control.begin(SCRIPT, 4)
        deadline = time.monotonic() + 60
        while not control.registry.waiting():
            assert asking.poll() is None
            assert time.monotonic() < deadline
        control.change(5)
        told, _ = asking.communicate(timeout=60)
    assert control.slots() == 6
    assert told == "6 slots: in force from batch 5 on\n"
