"""When rows came, by Spark's own notes about files; without such notes, when the batch began."""

from __future__ import annotations

from pathlib import Path

from millstream.pipeline.arrivals import arrived


def note(place: Path, source: int, name: str, *lines: str) -> None:
    folder = place / "sources" / str(source)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(["v1", *lines]))


def file(batch: int, milliseconds: int) -> str:
    return f'{{"path":"file:///x/{batch}","timestamp":{milliseconds},"batchId":{batch}}}'


def test_the_oldest_file_of_the_batch_counts(tmp_path: Path) -> None:
    note(tmp_path, 0, "3", file(3, 5_000), file(3, 4_000))
    note(tmp_path, 1, "9.compact", file(3, 1_000), file(9, 7_000))
    assert arrived(str(tmp_path), 3, started=0, began=9_000_000) == 4_000_000
    assert arrived(str(tmp_path), 9, started=0, began=9_000_000) == 7_000_000


def test_no_earlier_than_the_run(tmp_path: Path) -> None:
    note(tmp_path, 0, "3", file(3, 5))
    assert arrived(str(tmp_path), 3, started=8_000_000, began=9_000_000) == 8_000_000


def test_sources_that_note_other_things(tmp_path: Path) -> None:
    note(tmp_path, 0, "0", "1700000000000")
    note(tmp_path, 1, "0", '{"topic":{"0":17}}')
    assert arrived(str(tmp_path), 0, started=0, began=9_000_000) == 9_000_000
    assert arrived(str(tmp_path / "nothing"), 0, started=0, began=9_000_000) == 9_000_000
