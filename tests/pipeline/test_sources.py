"""Declared streams become one streaming DataFrame: what fits, what does not, and names of any kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from millstream.errors import ScriptError
from millstream.pipeline import Pipeline
from millstream.pipeline.session import make_session
from millstream.pipeline.sources import _fits, _schema_of_footer
from two_streams import BATCHES, PAIR, START, STREAMS

SCRIPT = f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS; CREATE QUERY r AS {PAIR} WINDOW 3 SECONDS;"


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


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    script = SCRIPT.replace("time = 'Ts'", f"path = '{tmp_path}/nowhere', time = 'Ts'")
    with pytest.raises(ScriptError, match=r"stream A reads '.*/nowhere', which does not exist"):
        Pipeline("test", tmp_path / "state", script=script).drain()
    with pytest.raises(ScriptError, match="stream A has no path"):
        Pipeline("test", tmp_path / "state", script=SCRIPT).drain()


def test_a_format_spark_does_not_know(tmp_path: Path) -> None:
    script = SCRIPT.replace("time = 'Ts'", "format = 'pigeon', time = 'Ts'")
    with pytest.raises(ScriptError, match=r"Spark cannot read stream A: .*pigeon"):
        Pipeline("test", tmp_path / "state", script=script).drain()


def test_files_that_do_not_fit_the_declaration(mill: Callable[..., Any]) -> None:
    first = mill(SCRIPT)
    first.put(BATCHES[0])
    with pytest.raises(ScriptError, match=r"A\.v is DOUBLE in the files; it is declared as STRING"):
        mill(SCRIPT.replace("v DOUBLE", "v STRING")).pipeline.drain()


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_numbers_since_1970_in_files_are_times(tmp_path: Path, kind: str) -> None:
    at = int(START.timestamp()) * 1_000_000 + 7
    numbers = {"A": ("nanoseconds", at * 1_000 + 999), "B": ("microseconds", at)}
    script = ""
    for name, (unit, number) in numbers.items():
        folder = tmp_path / name
        folder.mkdir()
        if kind == "parquet":
            pq.write_table(pa.table({"k": pa.array([1], pa.int32()), "ts": pa.array([number])}), folder / "1.parquet")
        else:
            text = f'{{"k": 1, "ts": {number}}}' if kind == "json" else f"1,{number}"
            (folder / f"1.{kind}").write_text(f"{text}\n")
        script += (
            f"CREATE STREAM {name} (k INT, ts TIMESTAMP) WITH (format = '{kind}', path = '{folder}', time = 'ts', "
        )
        script += f"epoch = '{unit}');\n"
    script += "CREATE QUERY q AS SELECT A.ts AS a, B.ts AS b FROM A, B WHERE A.k = B.k WINDOW 1 SECOND;"
    found = Pipeline("test", tmp_path / "state", script=script, spark=make_session("test"))
    found.drain()
    (row,) = found.results("q").to_pylist()
    assert row["a"] == row["b"] == START.replace(microsecond=7)


VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "tinyint": (pa.int8(), 7),
    "smallint": (pa.int16(), 7),
    "int": (pa.int32(), 7),
    "bigint": (pa.int64(), 7),
    "float": (pa.float32(), 7.0),
    "double": (pa.float64(), 7.0),
    "timestamp": (pa.timestamp("us", "UTC"), START),
    "timestamp_ntz": (pa.timestamp("us"), START.replace(tzinfo=None)),
    "string": (pa.string(), "7"),
    "date": (pa.date32(), START.date()),
}


def test_what_is_said_to_fit_is_read_by_spark(tmp_path: Path) -> None:
    """Every column of every type, declared as every other that is let through."""
    spark = make_session("test").newSession()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    columns = {f"{name}_": pa.array([value, None], kind) for name, (kind, value) in VALUES.items()}
    pq.write_table(pa.table(columns), tmp_path / "1.parquet")
    footer = _schema_of_footer("parquet", str(tmp_path))
    assert footer is not None
    assert footer == spark.read.parquet(str(tmp_path)).schema, "a footer says what Spark would"
    kinds = {field.name.removesuffix("_"): field.dataType for field in footer.fields}
    pairs = [(one, other) for one in VALUES for other in VALUES if _fits(kinds[one], kinds[other])]
    assert {(one, one) for one in VALUES} < set(pairs)
    assert ("bigint", "int") not in pairs
    assert ("string", "int") not in pairs
    for other in VALUES:
        fitting = [one for one, declared in pairs if declared == other]
        schema = ", ".join(f"{one}_ {other}" for one in fitting)
        first, second = spark.read.schema(schema).parquet(str(tmp_path)).collect()
        assert set(second) == {None}
        assert {str(value).partition(".")[0] for value in first} == {str(first[other + "_"]).partition(".")[0]}


@pytest.mark.parametrize("name", ["_hidden.parquet", ".hidden.parquet", "1.csv", "k=1"])
def test_a_footer_is_looked_at_only_where_it_says_what_spark_would(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir() if "=" in name else (tmp_path / name).write_text("mine")
    assert _schema_of_footer("parquet", str(tmp_path)) is None
    assert _schema_of_footer("orc", str(tmp_path)) is None
    assert _schema_of_footer("parquet", "s3://bucket/x") is None
    assert _schema_of_footer("parquet", str(tmp_path / "none")) is None
