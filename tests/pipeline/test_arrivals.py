"""When rows came, by Spark's own notes about files; without such notes, when the batch began."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.errors import PipelineFailed
from millstream.pipeline.arrivals import arrived


def note(place: Path, source: int, name: str, *lines: str) -> None:
    folder = place / "sources" / str(source)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(["v1", *lines]))


def offsets(place: Path, spark_batch: int, *sources: str) -> None:
    """What Spark writes before a batch: where each of its sources has come to."""
    (place / "offsets").mkdir(exist_ok=True)
    (place / "offsets" / str(spark_batch)).write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *sources]))


def at(number: int) -> str:
    return f'{{"logOffset":{number}}}'


def file(batch: int, milliseconds: int) -> str:
    return f'{{"path":"file:///x/{batch}","timestamp":{milliseconds},"batchId":{batch}}}'


def test_the_oldest_file_of_the_batch_counts(tmp_path: Path) -> None:
    note(tmp_path, 0, "3", file(3, 5_000), file(3, 4_000))
    note(tmp_path, 1, "9.compact", file(3, 1_000), file(9, 7_000))
    offsets(tmp_path, 3, at(3), at(2))
    offsets(tmp_path, 9, at(9), at(9))
    assert arrived(str(tmp_path), 3, started=0, began=9_000_000) == 4_000_000
    assert arrived(str(tmp_path), 9, started=0, began=9_000_000) == 7_000_000


def test_a_source_counts_the_batches_in_which_it_has_files(tmp_path: Path) -> None:
    note(tmp_path, 0, "0", file(0, 3_000))
    note(tmp_path, 1, "0", file(0, 4_000))
    note(tmp_path, 1, "1", file(1, 5_000))
    offsets(tmp_path, 6, at(0), at(0))
    offsets(tmp_path, 7, at(0), at(1))
    assert arrived(str(tmp_path), 7, started=0, began=9_000_000) == 5_000_000


def test_no_earlier_than_the_run(tmp_path: Path) -> None:
    note(tmp_path, 0, "3", file(3, 5))
    offsets(tmp_path, 3, at(3))
    assert arrived(str(tmp_path), 3, started=8_000_000, began=9_000_000) == 8_000_000


def test_files_that_spark_reads_twice_are_refused(tmp_path: Path) -> None:
    odd = file(3, 5).replace("x/3", "%5Bx%5D/a%5B1%5D.parquet")
    note(tmp_path, 0, "3", odd)
    offsets(tmp_path, 3, at(3))
    assert arrived(str(tmp_path), 3, started=0, began=9_000_000) == 5_000
    note(tmp_path, 0, "3", file(3, 5), odd)
    with pytest.raises(PipelineFailed, match=r"the file 'a\[1\]\.parquet' has one of"):
        arrived(str(tmp_path), 3, started=0, began=9_000_000)


def test_sources_that_note_other_things(tmp_path: Path) -> None:
    note(tmp_path, 0, "0", "1700000000000")
    note(tmp_path, 1, "0", '{"topic":{"0":17}}')
    offsets(tmp_path, 0, "17", '{"topic":{"0":17}}', "-", "{")
    assert arrived(str(tmp_path), 0, started=0, began=9_000_000) == 9_000_000
    assert arrived(str(tmp_path / "nothing"), 0, started=0, began=9_000_000) == 9_000_000
