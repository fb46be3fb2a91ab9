"""A directory: what lies in it, whose it is, and what is said where it cannot be used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from millstream.errors import ScriptError
from millstream.pipeline.directory import FOLDERS, Directory
from millstream.pipeline.registry import Entry, Registry
from two_streams import PAIR, STREAMS

SCRIPT = f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS;"
CLAIM = """
import sys
from millstream.errors import ScriptError
from millstream.pipeline.directory import Directory
directory = Directory.at(sys.argv[1])
print("ready", flush=True)
input()
try:
    with directory.locked():
        print("held", flush=True)
        input()
        directory.check_ours()
except ScriptError as error:
    print(error.found, flush=True)
    input()
"""


def test_it_is_made_once_and_may_be_made_again(tmp_path: Path) -> None:
    directory = Directory.at(tmp_path / "a" / "b")
    directory.make()
    (tmp_path / "a" / "b" / "segments" / "mine").write_text("kept")
    directory.make()
    assert all((tmp_path / "a" / "b" / name).is_dir() for name in FOLDERS)
    assert (tmp_path / "a" / "b" / "segments" / "mine").read_text() == "kept"


def test_a_pipeline_has_been_there_once_something_took_effect(tmp_path: Path) -> None:
    directory = Directory.at(tmp_path)
    directory.make()
    assert not directory.exists()
    Registry(directory.files.below("registry")).record(1, Entry("script", 1, text=SCRIPT))
    assert directory.exists()


@pytest.mark.parametrize(
    ("place", "found"), [("nowhere://x/y", "cannot be reached"), ("file/below", r"cannot be made \(.*[Nn]ot a dir")]
)
def test_a_place_that_cannot_be_used_is_told_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, found: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ScriptError, match=rf"{place}: the directory {found}.*; .* Choose another with --directory"):
        Directory.at(place).make()


def test_of_processes_that_start_at_once_one_has_it(tmp_path: Path) -> None:
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", CLAIM, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            )
            for _ in range(4)
        ]
        assert [process.stdout.readline() for process in started if process.stdout] == [b"ready\n"] * 4
        for process in started:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        said = sorted(process.stdout.readline().decode() for process in started if process.stdout)
        assert [one for one in said if one == "held\n"] == ["held\n"], said
        assert sum("a pipeline is running here (process " in one for one in said) == 3, said
        assert Directory.at(tmp_path).is_running()
        for process in started:
            process.communicate(b"\n", timeout=30)
            assert process.returncode == 0
    assert not Directory.at(tmp_path).is_running()


def test_nothing_counts_without_the_lock(tmp_path: Path) -> None:
    directory = Directory.at(tmp_path)
    with pytest.raises(RuntimeError, match="not locked"):
        directory.check_ours()
    with directory.locked():
        directory.check_ours()
    with pytest.raises(RuntimeError, match="not locked"):
        directory.check_ours()


def test_a_directory_in_use(mill: Callable[..., Any], tmp_path: Path) -> None:
    directory = Directory.at(tmp_path / "state")
    directory.make()
    with directory.locked(), pytest.raises(ScriptError, match=r"a pipeline is running here \(process \d+\)"):
        mill(SCRIPT).pipeline.drain()
    assert not directory.is_running()
