"""Packages for Spark: which versions work together, and what is said where one is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest

from millstream.errors import ScriptError
from millstream.pipeline import Pipeline
from millstream.pipeline.connectors import CONNECTORS, missing_package, session_options
from millstream.pipeline.session import make_session
from two_streams import PAIR, STREAMS

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


def test_names_stand_for_packages_and_what_they_need() -> None:
    found = session_options(["kafka,delta", "a.b:c_2.13:1"], version="4.2.0")
    assert found["spark.jars.packages"] == f"{KAFKA},io.delta:delta-spark_2.13:4.3.0,a.b:c_2.13:1"
    assert "Delta" in found["spark.sql.extensions"]
    assert "DeltaCatalog" in found["spark.sql.catalog.spark_catalog"]
    assert session_options(["kafka"], version="4.3.0") == {"spark.jars.packages": KAFKA}


def test_jars_bring_their_options_and_conf_has_the_last_word(tmp_path: Path) -> None:
    jar = tmp_path / "delta-spark_2.13-4.3.0.jar"
    jar.touch()
    found = session_options(jars=[str(jar)], conf={"spark.sql.extensions": "mine"})
    assert found["spark.jars"] == str(jar)
    assert found["spark.sql.extensions"] == "mine"
    assert "DeltaCatalog" in found["spark.sql.catalog.spark_catalog"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"packages": ["kafak"]}, 'a package is kafka, delta or group.*Did you mean "kafka"'),
        (
            {"packages": ["org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.0"]},
            "Scala 2.12; pyspark 4.2.0 has Scala 2.13",
        ),
        ({"packages": ["delta"], "version": "4.3.0"}, "NoSuchMethodError.*pip install pyspark==4.2.0"),
        ({"jars": ["nowhere.jar"]}, "--jars nowhere.jar; there is no such file"),
        ({"conf": {"driver.memory": "1g"}}, "--conf driver.memory; Spark's options begin with spark."),
        ({"conf": {"spark.sql.session.timeZone": "CET"}}, "--conf spark.sql.session.timeZone.*Leave it out"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ScriptError, match=said):
        session_options(**{"version": "4.2.0", **options})


def test_versions_that_nobody_has_tried_are_told() -> None:
    told: list[str] = []
    session_options(["io.delta:delta-spark_2.13:4.0.0"], tell=told.append, version="4.2.0")
    assert told == ["delta-spark_2.13 4.0.0 was not tried with pyspark 4.2.0; 4.3.0 was"]


def test_the_tested_pyspark_has_every_connector() -> None:
    for kind, connector in CONNECTORS.items():
        assert connector.coordinate("4.2.0")
        assert f"--packages {kind}" in str(missing_package(kind, "4.2.0"))
        assert "pip install pyspark==" in str(missing_package(kind, "4.9.0"))


@pytest.mark.parametrize("kind", ["kafka", "delta"])
def test_a_missing_package_is_named_with_the_command_to_type(mill: Callable[..., Any], kind: str) -> None:
    said = f"no package for format '{kind}'.* {CONNECTORS[kind].package}.*millstream run FILE --packages {kind}"
    servers = "'kafka.bootstrap.servers' = '127.0.0.1:1', topic = 't', " if kind == "kafka" else "path = 'x', "
    found = mill(f"{STREAMS} CREATE QUERY q WITH ({servers}format = '{kind}') AS {PAIR} WINDOW 9 SECONDS;")
    with pytest.raises(ScriptError, match=said):
        found.pipeline.drain()
    other = mill(f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS;")
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"} if kind == "kafka" else {"path": "x"}
    other.pipeline.read("A", kind, **options)
    with pytest.raises(ScriptError, match=said):
        other.pipeline.drain()


def test_packages_are_refused_where_spark_would_not_see_them() -> None:
    spark = make_session("test")
    with pytest.raises(ScriptError, match=r"there is a Spark session, and options for one: spark.jars.packages"):
        Pipeline("p", packages=["kafka"] if pyspark.__version__ == "4.2.0" else ["a:b:c"], spark=spark)
    with pytest.raises(ScriptError, match=r"Spark runs already in this process; it reads spark.jars when it starts"):
        make_session("test", options={"spark.jars": "some.jar"})


def test_options_of_the_command_line_reach_spark(tmp_path: Path) -> None:
    jar = tmp_path / "empty.jar"
    jar.write_bytes(b"PK\x05\x06" + bytes(18))
    for name in "AB":
        (tmp_path / name).mkdir()
    script = "".join(
        f"CREATE STREAM {name} (k INT, ts TIMESTAMP) WITH (path = '{name}', time = 'ts');\n" for name in "AB"
    )
    (tmp_path / "s.sql").write_text(f"{script}CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 SECOND;")
    given = ["--jars", "empty.jar", "--conf", "spark.app.name=named", "--conf", "spark.eventLog.enabled=true"]
    given += ["--conf", f"spark.eventLog.dir={tmp_path}", "--conf", "spark.eventLog.compress=false"]
    subprocess.run(
        [sys.executable, "-m", "millstream", "run", "s.sql", "--drain", *given],
        cwd=tmp_path,
        env=dict(os.environ),
        check=True,
        timeout=120,
    )
    logged = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file() and "local-" in path.name)
    assert str(jar) in logged
    assert '"spark.app.name":"named"' in logged


def test_the_page_has_the_table_of_versions() -> None:
    page = (Path(__file__).parents[2] / "docs/install.md").read_text(encoding="utf-8")
    for kind, connector in CONNECTORS.items():
        for version in set(connector.works.values()):
            tried = ", ".join(spark for spark, works in sorted(connector.works.items()) if works == version)
            assert f"| `{kind}` | `{connector.package}:{version}` | {tried} |" in page
