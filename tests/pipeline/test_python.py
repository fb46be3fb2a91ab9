"""The pipeline from Python: streaming DataFrames of any source, queries while it runs, the plan in words."""

from __future__ import annotations

import queue
from pathlib import Path

import pyarrow as pa
import pytest

import millstream as ms
from millstream.errors import ScriptError, ScriptErrors
from millstream.pipeline.session import make_session


def test_streaming_dataframes(tmp_path: Path) -> None:
    spark = make_session("test")
    mill = ms.Pipeline("rates", directory=tmp_path / "state", spark=spark)
    for name in ("A", "B"):
        frame = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
        mill.stream(name, frame.withColumnRenamed("timestamp", "Ts"), time="Ts", delay="5 seconds")
    got: queue.Queue[pa.Table] = queue.Queue()
    join = "FROM A, B WHERE A.value = B.value"
    mill.query(
        "same", f"SELECT A.value, A.Ts AS a, B.Ts AS b {join} WINDOW 1 MINUTE", sink=lambda _, rows: got.put(rows)
    )
    assert "Chain 1: A.value = B.value" in mill.explain()
    with mill:
        first = got.get(timeout=120)
        later = mill.query("later", f"SELECT A.value {join} AND A.value % 2 = 0 WINDOW 1 MINUTE")
        with pytest.raises(ScriptErrors, match="no column"):
            mill.query("wrong", f"SELECT A.nothing {join} WINDOW 1 MINUTE")
        with pytest.raises(ScriptError, match="is there already"):
            mill.query("same", f"SELECT A.value {join} WINDOW 1 MINUTE")
        rows = [first]
        while not len(later.results() if "later" in mill.queries() else ()):
            rows.append(got.get(timeout=120))
        later.drop()
        while "later" in mill.queries():
            rows.append(got.get(timeout=120))
    values = pa.concat_tables(rows)["value"].to_pylist()
    assert len(values) == len(set(values)) > 0, "no pair comes twice"


def test_a_pipeline_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="the pipeline has no streams"):
        ms.Pipeline("empty", directory=tmp_path).start()
    with pytest.raises(ScriptError, match="cannot be the name of a pipeline"):
        ms.Pipeline("no good", directory=tmp_path)
    with pytest.raises(ScriptError, match='query "q" is not running'):
        ms.Pipeline("empty", directory=tmp_path).drop("q")
    with pytest.raises(ScriptError, match="has not been started"):
        ms.Pipeline("empty", directory=tmp_path).results("q")
