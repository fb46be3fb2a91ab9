"""Delta tables as streams and as sinks: exactly once, whoever else writes to the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from millstream.pipeline import Pipeline
from topics import SELECT, WINDOWS, expected, given, rows

Make = Callable[..., Pipeline]


def append(spark: SparkSession, path: Path, some: list[dict[str, Any]]) -> None:
    frame = spark.createDataFrame(some, "k INT, n BIGINT, ts TIMESTAMP_NTZ")
    frame.selectExpr("k", "n", "CAST(ts AS TIMESTAMP) ts").coalesce(1).write.format("delta").mode("append").save(
        str(path)
    )


def declared(place: Path) -> str:
    return "".join(
        f"CREATE STREAM {name} (k INT, n BIGINT, ts TIMESTAMP) WITH (format = 'delta', path = '{place}/{name}', "
        "time = 'ts', delay = '1 hour');\n"
        for name in "AB"
    )


def test_tables_in_and_out(spark: SparkSession, pipeline: Make, tmp_path: Path) -> None:
    """Two queries write one table, and the directory is begun anew at the same path: no row is skipped."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    one = rows(0, count=100)
    for name in "AB":
        append(spark, tmp_path / name, one)
    to = f"format = 'delta', path = '{tmp_path}/out'"
    script = declared(tmp_path)
    script += f"CREATE QUERY wide WITH ({to}) AS {SELECT} WINDOW 30 SECONDS;\n"
    script += f"CREATE QUERY too WITH ({to}) AS {SELECT} WINDOW 30 SECONDS;\n"
    pipeline(script).drain()
    for name in "AB":
        append(spark, tmp_path / name, rows(1, count=100))
    pipeline(script).drain()
    both = one + rows(1, count=100)
    wanted = expected(both, both, WINDOWS["wide"])
    out = spark.read.format("delta").load(str(tmp_path / "out"))
    assert given(out.toArrow()) == wanted + wanted
    (tmp_path / "state").rename(tmp_path / "gone")
    pipeline(script).drain()
    assert given(spark.read.format("delta").load(str(tmp_path / "out")).toArrow()) == wanted + wanted + wanted + wanted
