"""`millstream bench three-way` in small: every contestant gives the right rows, and each bar has its line."""

from __future__ import annotations

from pathlib import Path

from millstream.lab.bench.three_way import report


def test_native_joins_duckdb_and_millstream_give_the_same_rows(tmp_path: Path) -> None:
    lines = list(report(rows=2_000, batches=2, rounds=1, place=tmp_path))
    assert [line.rsplit(None, 1)[1] for line in lines if line.startswith("all gave")] == ["pass", "pass"]
    judged = [line.split(":")[0] for line in lines if line.endswith((" pass", " FAIL")) and "gave" not in line]
    assert judged == [
        "at least 15 times faster",
        "at most 3 times DuckDB's time",
        "with it at most 1.5 times the queries of two and the cost of its own rows",
    ]
    assert not list(tmp_path.iterdir())
