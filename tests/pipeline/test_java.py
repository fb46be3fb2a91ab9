"""The archive of Spark's classes: made once, found again, and really used by Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from millstream.errors import ScriptError
from millstream.pipeline.java import archive_path, java_options, make_archive

START = """
import sys
from millstream.errors import ScriptError
from millstream.pipeline.java import java_options
from millstream.pipeline.session import make_session
(name, options), = java_options().items()
spark = make_session("archived", options={name: f"{options} -Xlog:class+load:file={sys.argv[1]}"})
spark.stop()
"""


def test_java_starts_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_CACHE", str(tmp_path / "cache"))
    assert java_options() == {}
    assert make_archive() == archive_path()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [archive_path().name], "nothing half-made is left"
    log = tmp_path / "classes.log"
    subprocess.run([sys.executable, "-c", START, str(log)], check=True, capture_output=True)
    loaded = [line for line in log.read_text().splitlines() if " source: " in line]
    of_spark = [line for line in loaded if "org.apache.spark." in line and "Lambda" not in line]
    archived = [line for line in of_spark if "shared objects file (top)" in line]
    assert len(archived) > 0.9 * len(of_spark) > 1_000


def test_a_folder_with_a_blank_in_its_name_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_CACHE", str(tmp_path / "a cache"))
    archive_path().parent.mkdir()
    archive_path().touch()
    assert java_options() == {}
    with pytest.raises(ScriptError, match="has a blank in its name"):
        make_archive()
