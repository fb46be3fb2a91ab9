"""Rows of a batch as a sink gets them: each has the same number whenever the batch is delivered."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.pipeline.manifest import PublishedFile
from millstream.pipeline.session import make_session
from millstream.pipeline.writing import Rows


def test_rows_are_numbered_over_all_files_of_a_batch(tmp_path: Path) -> None:
    finals = []
    for file, some in enumerate(([10, 11, 12], [13], [14, 15])):
        pq.write_table(pa.table({"n": some}), tmp_path / f"{file}.parquet")
        finals.append(PublishedFile("q", str(tmp_path), f"{file}.parquet"))
    rows = Rows(spark=make_session("test"), query="q", batch=1, finals=tuple(finals))
    found = rows.frame().select("n", rows.number().alias("row")).collect()
    assert {one["n"]: one["row"] for one in found} == {10: 0, 11: 1, 12: 2, 13: 3, 14: 4, 15: 5}
