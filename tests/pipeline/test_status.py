"""The file that a run writes for those who do not see its screen."""

from __future__ import annotations

from pathlib import Path

from millstream.pipeline.directory import Directory
from millstream.pipeline.progress import BatchProgress, Response
from millstream.pipeline.status import NAME, StatusFile, last_status


def batch(number: int) -> BatchProgress:
    return BatchProgress(
        batch=number,
        rows_in={"T": 10},
        late={"T": 1},
        queries={"q": Response(5, 0.1, 0.2)},
        state_rows=7,
        state_bytes=70,
        slices={},
        lag_seconds={"T": 1.0},
        memory_bytes=70,
        memory_limit=0,
        disk_bytes=0,
        deferred=0,
        owing=0,
        adaptation="",
        held_back=False,
        seconds=0.5,
        split={},
        committed=1e9 + number,
    )


def test_totals_of_the_run_and_the_last_batch(tmp_path: Path) -> None:
    directory = Directory.at(tmp_path)
    assert last_status(directory.files) == {}
    file = StatusFile(directory)
    for number in (4, 5):
        file.write(batch(number), ["too late"])
    found = last_status(directory.files)
    assert (found["batches"], found["rows_in"], found["late"], found["rows_out"]) == (2, {"T": 20}, {"T": 2}, {"q": 10})
    assert found["last"]["batch"] == 5
    assert found["warnings"] == ["too late"]


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{")
    assert last_status(Directory.at(tmp_path).files) == {}
