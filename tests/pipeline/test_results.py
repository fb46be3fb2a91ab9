"""Result files of wide rows: bounded row groups, and every row in one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from millstream.engine import widths
from millstream.pipeline import results
from millstream.pipeline.results import Target, Writer
from two_streams import PAIR, STREAMS, expected, filled, same

LOW = 4_000


def batch(start: int, count: int, width: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    columns = [pa.array(list(numbers), pa.int64()), pa.array(["x" * width for _ in numbers], pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["n", "s"])


@pytest.mark.parametrize(
    ("counts", "width"),
    [([3] * 60, 100), ([300, 1, 299], 100), ([1] * 30, 3 * LOW), ([600], 5), ([0, 7, 0], 1)],
    ids=["small", "large", "wider than all", "narrow", "empty"],
)
def test_rows_wait_and_are_written_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: list[int], width: int
) -> None:
    monkeypatch.setattr(widths, "CHUNK_BYTES", LOW)
    writer = Writer("p", 1, 0, "0123456789")
    targets = [Target(f"q{number}", str(tmp_path / str(number))) for number in range(12)]
    total = 0
    for count in counts:
        for target in targets:
            writer.write([target], batch(total, count, width))
            waiting = sum(rows.nbytes for file in writer._open.values() for rows in file.waiting)
            assert waiting < results._MANY * LOW
        total += count
    for output in writer.close():
        assert output.rows == total
        file = pq.ParquetFile(Path(output.folder) / output.staged)
        assert file.read().column("n").to_pylist() == list(range(total))
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        assert all(rows == 1 or rows * (width + 12) <= results._GROUP * LOW + width + 12 for rows in groups)


def test_rows_two_queries_get_are_one_file(mill: Callable[..., Any], tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    script = f"{STREAMS} CREATE QUERY wide AS {PAIR} WINDOW 9 SECONDS;"
    script += f"CREATE QUERY narrow WITH (path = '{other}') AS {PAIR} WINDOW 2 SECONDS;"
    found = filled(mill(script))
    found.pipeline.drain()
    same(found.results("wide"), expected(9))
    same(found.results("narrow"), expected(2))
    wide, narrow = (
        {path.stat().st_ino for path in folder.glob("*.parquet")}
        for folder in (tmp_path / "state" / "results" / "wide", other)
    )
    assert narrow < wide, "every file of the narrow query is one of the wide one's"
    # Any reader of Parquet sees just the SELECT list.
    same(pyarrow.dataset.dataset(other).to_table().to_pylist(), expected(2))
