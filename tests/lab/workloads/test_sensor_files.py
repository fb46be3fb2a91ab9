"""The files of the sensor workload, and the answers that contestants are compared with."""

from __future__ import annotations

from pathlib import Path

from millstream.lab.workloads.sensor_files import SensorFiles, answer


def test_wrong_rows_are_seen(tmp_path: Path) -> None:
    files = SensorFiles.write(tmp_path, 4, 2)
    right = files.answers((1, 3))
    assert right[1].rows < right[3].rows
    assert right[1] != right[3]
    assert answer(tmp_path / "nothing").rows == 0
