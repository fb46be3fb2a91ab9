"""The answers that contestants over several streams are compared with."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from millstream.errors import Errors
from millstream.lab.workloads.stream_files import answers_in, answers_to, duckdb_selects, one_row
from millstream.lab.workloads.window_joins import Readings, WindowJoin
from millstream.sql import read
from millstream.testing.naive import naive

JOINS = (WindowJoin("AB", 3), WindowJoin("ABC", 3), WindowJoin("CA", 1))


def test_duckdb_answers_as_the_definition_does(tmp_path: Path) -> None:
    readings = Readings(streams="ABC", rows=60, rate=10, keys=4)
    files, script = readings.write(tmp_path, 2), readings.script(JOINS)
    rows = {name: pq.read_table(tmp_path / name).to_pylist() for name in "ABC"}
    expected = {query.name: len(naive(query, rows)) for query in read(script, Errors()).queries}
    found = {name: answer.rows for name, answer in answers_to(files, script).items()}
    assert found == expected
    assert 0 < found["ca1"] < found["ab3"] < found["abc3"]


def test_wrong_rows_are_seen(tmp_path: Path) -> None:
    """As many rows, of which one is another."""
    readings = Readings(streams="AB", rows=200, rate=20, keys=5)
    files, script = readings.write(tmp_path / "in", 1), readings.script(JOINS[:1])
    right = answers_to(files, script)
    ((_, select),) = duckdb_selects(script).items()
    out = tmp_path / "results" / "ab3"
    out.mkdir(parents=True)
    one_row(f"COPY ({select}) TO '{out}/1.parquet'", before=files.views())
    assert answers_in(tmp_path / "results", script) == right
    table = pq.read_table(out / "1.parquet")
    one_row(f"COPY (SELECT * FROM ({select}) LIMIT {len(table) - 1}) TO '{out}/1.parquet'", before=files.views())
    pq.write_table(table.slice(0, 1), out / "2.parquet")
    wrong = answers_in(tmp_path / "results", script)
    assert wrong["ab3"].rows == right["ab3"].rows
    assert wrong != right
    assert answers_in(tmp_path / "nothing", script)["ab3"].rows == 0


def test_rows_are_as_many_as_asked_for(tmp_path: Path) -> None:
    files = Readings(streams="ABCD", rows=5_000, rate=100, keys=50).write(tmp_path, 5)
    assert files.batches == 5
    assert 19_000 < files.rows() < 21_000
    keys = "SELECT count(DISTINCT LocationId), max(epoch_us(Ts)) / 1e6 FROM {}"
    for name in files.streams:
        count, last = one_row(keys.format(files.table(name)))
        assert count == 50
        assert 49 < last < 50
