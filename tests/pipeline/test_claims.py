"""A folder outside the directory takes the results of one pipeline."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from begun import FROM_FILES, Begin, query
from millstream.errors import ScriptError, Where
from millstream.pipeline.claims import MARK, can_be_claimed, check_claim, claim


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pipeline": 1}'])
def test_a_mark_that_makes_no_sense_is_told(begin: Begin, tmp_path: Path, text: str) -> None:
    script = FROM_FILES + query("q", "path = 'out'")
    begin(script)
    (tmp_path / "out" / "_millstream.mark").write_text(text)
    with pytest.raises(ScriptError, match=r"_millstream.mark' cannot be read; it says which pipeline"):
        begin(script)


@pytest.mark.parametrize("options", ["path = 'out'", "format = 'json', path = 'out'"])
def test_a_path_takes_the_results_of_one_pipeline(begin: Begin, tmp_path: Path, options: str) -> None:
    script = FROM_FILES + query("q", options)
    begin(script)
    mark = json.loads((tmp_path / "out" / "_millstream.mark").read_text())
    assert mark["directory"] == str(tmp_path / "state")
    begin(script)
    with pytest.raises(ScriptError, match=r"'.*/out' has results of another pipeline, in .*/state; .* another path"):
        begin(script, "second")
    other = begin(FROM_FILES + query("other"), "third")
    other.registry.ask("add", "q", query("q", options).rstrip(";"))
    assert not other.change(2)
    assert list(other.in_force.queries) == ["other"]


def test_a_directory_may_be_moved_but_a_copy_writes_elsewhere(begin: Begin, tmp_path: Path) -> None:
    script = FROM_FILES + query("q", "path = 'out'")
    begin(script)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    with pytest.raises(ScriptError, match=r"has results of a copy of this pipeline, in .*/state"):
        begin(script, "copy")
    shutil.rmtree(tmp_path / "copy")
    (tmp_path / "state").rename(tmp_path / "moved")
    begin(script, "moved")
    assert str(tmp_path / "moved") in (tmp_path / "out" / "_millstream.mark").read_text()


def test_a_start_that_is_refused_marks_nothing(begin: Begin, tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="does not exist"):
        begin(FROM_FILES.replace("in/A", "in/C") + query("q", "path = 'out'"))
    assert not (tmp_path / "out").exists()


def test_the_same_place_by_another_path_is_the_same(begin: Begin, tmp_path: Path) -> None:
    begin(FROM_FILES + query("q", "path = 'out'"))
    (tmp_path / "link").symlink_to(tmp_path / "state")
    begin(FROM_FILES + query("q", "path = 'out'"), "link")
    (tmp_path / "seen").symlink_to(tmp_path / "out")
    with pytest.raises(ScriptError, match=r"'.*/seen' has results of another pipeline"):
        begin(FROM_FILES + query("q", "path = 'seen'"), "second")


def test_a_mark_is_written_once(tmp_path: Path) -> None:
    claim(str(tmp_path / "out"), "me", "/state")
    mark = tmp_path / "out" / MARK
    first = mark.stat()
    claim(str(tmp_path / "out"), "me", "/state")
    assert mark.stat().st_ino == first.st_ino, "the file was not touched"
    claim(str(tmp_path / "out"), "me", "/moved")
    assert json.loads(mark.read_text()) == {"pipeline": "me", "directory": "/moved"}


def test_a_folder_that_nobody_marked_is_free(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").touch()
    check_claim(str(tmp_path), "me", "/state", Where())
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["rows.parquet"]


def test_what_cannot_be_marked(tmp_path: Path) -> None:
    assert can_be_claimed(str(tmp_path / "not" / "there"))
    assert not can_be_claimed("nowhere://bucket/x")
    check_claim("nowhere://bucket/x", "me", "/state", Where())
    (tmp_path / "file").touch()
    with pytest.raises(ScriptError, match=r"'.*/file/out' cannot be written to \(.*\); results go to a folder"):
        claim(str(tmp_path / "file" / "out"), "me", "/state")
