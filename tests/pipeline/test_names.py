"""Names a user may choose: of columns, fields, folders and streams, in any case of letters."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.errors import PipelineFailed, ScriptError
from millstream.pipeline import Pipeline
from millstream.pipeline.session import make_session

START = datetime(2024, 1, 1, tzinfo=UTC)
ODD = ["a.b", "`", 'say "x"', "it's", "größe", "温度", "🌡", "select", "window", "stream", "bad", "slot", "code", "s0"]
WHO = '"who is it" STRUCT<"first name": INT, `a``b`: ARRAY<STRUCT<"x y": STRING>>, window: INT>'


def table(key: int) -> pa.Table:
    who = [{"first name": key, "a`b": [{"x y": "z"}], "window": 7}]
    kind = pa.struct(
        [
            ("first name", pa.int32()),
            ("a`b", pa.list_(pa.struct([("x y", pa.string())]))),
            ("window", pa.int32()),
        ]
    )
    columns: dict[str, Any] = {name: pa.array([number], pa.int32()) for number, name in enumerate(ODD)}
    times = pa.array([START], pa.timestamp("us", "UTC"))
    return pa.table({**columns, "who is it": pa.array(who, kind), "Ts": times})


@pytest.mark.parametrize("key", ['"a.b"', '"WHO is it"."first name"'])
def test_odd_names_of_columns_fields_and_folders(tmp_path: Path, key: str) -> None:
    spark = make_session("test")
    folders = {"A": tmp_path / "in[1] {x,y} * ü%20", "B": tmp_path / "plain"}
    for folder in folders.values():
        folder.mkdir(parents=True)
        pq.write_table(table(5), folder / "1.parquet")
        pq.write_table(table(6).slice(1), folder / "2.parquet")
    columns = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}" INT' for name in ODD)
    declared = f"{columns}, {WHO.replace(' window: ', ' `window`: ')}, Ts TIMESTAMP"
    mill = Pipeline("test", tmp_path / "state", spark=spark)
    mill.sql(f"CREATE STREAM A ({declared}) WITH (time = 'tS', Path = '{folders['A']}')")
    frame = spark.readStream.schema(spark.read.parquet(str(folders["B"])).schema)
    mill.stream("B", frame.parquet(str(folders["B"])), time="ts")
    selected = 'A.*, B.`say "x"` AS `"`, B."who is it"."FIRST name" AS who'
    mill.query("Q", f"SELECT {selected} FROM a, b WHERE A.{key} = B.{key} WINDOW A 1 SECOND, B 2 SECONDS")
    mill.drain()
    (row,) = mill.results("q").to_pylist()
    assert row == {**table(5).to_pylist()[0], '"': ODD.index('say "x"'), "who": 5}


def test_a_stream_to_read_is_found_in_any_case_or_told(tmp_path: Path) -> None:
    script = "CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts');"
    script += "CREATE QUERY q AS SELECT x.k FROM A x, A y WHERE x.k = y.k WINDOW 1 SECOND;"
    mill = Pipeline("test", tmp_path / "state", script=script)
    mill.read("a", "parquet", path=str(tmp_path / "none"))
    with pytest.raises(ScriptError, match=r"stream A reads '.*/none'"):
        mill.drain()
    mill.read("b", "parquet", path=str(tmp_path))
    with pytest.raises(ScriptError, match='no stream "b" to read; the streams are A'):
        mill.drain()


def test_a_file_that_cannot_be_read_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "in [1]"
    folder.mkdir()
    script = f"CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts', path = '{folder}');"
    script += "CREATE QUERY q AS SELECT x.k FROM A x, A y WHERE x.k = y.k WINDOW 1 SECOND;"
    good = pa.table({"k": pa.array([1], pa.int32()), "Ts": pa.array([START], pa.timestamp("us", "UTC"))})
    pq.write_table(good, folder / "1.parquet")
    whole = (folder / "1.parquet").read_bytes()
    (folder / "2.parquet").write_bytes(whole[:-20])
    mill = Pipeline("test", tmp_path / "state", script=script)
    with pytest.raises(PipelineFailed) as caught:
        mill.drain()
    said = str(caught.value)
    assert said.startswith(f"the file '{folder}/2.parquet' cannot be read: it is not a Parquet file."), said
    assert "\n" not in said
    (folder / "2.parquet").write_bytes(whole)
    mill = Pipeline("test", tmp_path / "state", script=script)
    mill.drain()
    assert len(mill.results("q")) == 4
    for name in ("3[a].parquet", "4.parquet"):
        (folder / name).write_bytes(whole)
    mill = Pipeline("test", tmp_path / "state", script=script)
    with pytest.raises(PipelineFailed, match=r"the file '3\[a\]\.parquet' has one of .* Rename it") as refused:
        mill.drain()
    for note in re.findall(r"'(/[^']+)'", str(refused.value)):
        Path(note).unlink()
    (folder / "3[a].parquet").rename(folder / "3.parquet")
    mill = Pipeline("test", tmp_path / "state", script=script)
    mill.drain()
    assert len(mill.results("q")) == 16
