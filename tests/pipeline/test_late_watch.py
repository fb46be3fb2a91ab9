"""Too many late rows in a stream are warned of, once, with the likely reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.model.stream import Stream, StreamColumn
from millstream.model.types import INT, TIMESTAMP
from millstream.pipeline.late_watch import LateWatch, evidence_in
from millstream.pipeline.manifest import PublishedFile, StagedFile

STREAM = Stream("S", (StreamColumn("k", INT), StreamColumn("Ts", TIMESTAMP)), "Ts")
MAY = 1_717_156_800_000_000


@pytest.fixture
def file(tmp_path: Path) -> StagedFile:
    folder = tmp_path / "late/S"
    folder.mkdir(parents=True)
    times = pa.array([MAY - 60_000_000, MAY]).cast(pa.timestamp("us", "UTC"))
    reasons = ["older than the watermark"] * 2
    table = pa.table({"k": [1, 2], "Ts": times, "_reason": reasons, "_text": pa.nulls(2, pa.string())})
    pq.write_table(table, folder / "one.parquet")
    finals = (PublishedFile("S", str(folder), "one.parquet"),)
    return StagedFile(folder=str(folder), staged=".one", finals=finals, rows=2)


def saw(watch: LateWatch, file: StagedFile, rows: int, late: int) -> list[str]:
    given: dict[str, Any] = {"rows_in": {"S": rows}, "late": {"S": late} if late else {}, "greatest": {"S": MAY}}
    return watch.saw([STREAM], 0.1, outputs=[file] if late else [], **given)


def test_a_warning_comes_once_stands_and_goes(tmp_path: Path, file: StagedFile) -> None:
    watch = LateWatch(str(tmp_path))
    assert (saw(watch, file, 100, 10), watch.warnings) == ([], {}), "a tenth is not more than a tenth"
    (told,) = saw(watch, file, 10, 2)
    assert told.startswith("11% of the rows of S are late or unreadable (12 of 110): rows come up")
    assert "to 1 min behind others: raise delay (it is 0 s)" in told
    assert saw(watch, file, 10, 10) == []
    assert watch.warnings["S"].startswith("18% of the rows of S are late or unreadable (22 of 120): rows come")
    assert saw(watch, file, 1_000, 0) == []
    assert watch.warnings == {}


def test_what_files_of_late_rows_tell(file: StagedFile) -> None:
    found = evidence_in(STREAM, [(file.folder, "one.parquet")], MAY)
    assert dict(found.counts) == {"older than the watermark": 2}
    assert found.times == {"older than the watermark": (MAY - 60_000_000, MAY)}
