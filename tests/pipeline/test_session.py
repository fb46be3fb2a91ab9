"""Spark's limits fit the rows: where they may be wide, batches are bounded in bytes."""

from __future__ import annotations

import os
import socket
import socketserver
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from millstream.compile import compile_script
from millstream.pipeline.session import _forgive_ends, limits, stays_here
from two_streams import START

LARGE = pytest.mark.skipif(
    "MILLSTREAM_LARGE" not in os.environ, reason="takes 8 GB and a minute; set MILLSTREAM_LARGE=1"
)
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@pytest.mark.parametrize(
    ("column", "wide"),
    [
        ("DOUBLE", False),
        ("DECIMAL(9, 2)", False),
        ("STRUCT<x: INT, y: DATE>", False),
        ("STRING", True),
        ("BINARY", True),
        ("ARRAY<INT>", True),
        ("MAP<INT, INT>", True),
        ("STRUCT<x: INT, y: STRUCT<z: STRING>>", True),
    ],
)
def test_only_rows_that_may_be_wide_are_counted_in_bytes(column: str, wide: bool) -> None:
    script = "".join(
        f"CREATE STREAM {name} (k INT, c {kind}, Ts TIMESTAMP) WITH (time = 'Ts');"
        for name, kind in (("A", "INT"), ("B", column))
    )
    script += "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 SECOND;"
    found = limits(compile_script(script).script.streams)
    assert bool(found) == wide
    assert not wide or int(found[BYTES]) < 2**31 - 1


def wide(text: str, count: int, step: int) -> pa.Table:
    """Of two streams with different steps few keys match."""
    keys = [number if number % step == 0 else -number * step - 1 for number in range(count)]
    times = [START + timedelta(seconds=number) for number in range(count)]
    texts = pa.array([text]).take(pa.array([0] * count))
    at = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.table({"k": pa.array(keys, pa.int32()), "s": texts, "Ts": at})


@pytest.mark.parametrize("count", [30, pytest.param(1_600, marks=LARGE)])
def test_spark_survives_wide_rows(mill: Callable[..., Any], count: int) -> None:
    """The larger case is more than fits in Spark's memory in one batch, as a Parquet reader's or as Arrow's."""
    script = "".join(f"CREATE STREAM {name} (k INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts');" for name in "AB")
    script += "CREATE QUERY q AS SELECT A.k, A.s AS s, length(B.s) AS n FROM A, B WHERE A.k = B.k WINDOW 1 HOUR;"
    text = "x" * 1_000_000
    some = mill(script)
    some.put({"A": wide(text, count, 1), "B": wide(text, count, 10)})
    some.pipeline.drain()
    assert int(some.pipeline.spark.conf.get(BYTES) or 0) < 2**31 - 1
    rows = some.pipeline.results("q")
    assert sorted(rows.column("k").to_pylist()) == list(range(0, count, 10))
    assert set(rows.column("n").to_pylist()) == {len(text)}


@pytest.mark.parametrize("master", ["local", "local[2,4]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077"])
def test_on_this_machine_nobody_else_reaches_spark(master: str) -> None:
    assert stays_here(master)


@pytest.mark.parametrize("master", ["spark://10.0.0.7:7077", "spark://127.example.com:1", "yarn", "k8s://https://a:1"])
def test_executors_on_other_machines_can_reach_the_driver(master: str) -> None:
    assert not stays_here(master)


@pytest.mark.parametrize(("error", "shown"), [(EOFError, False), (ConnectionResetError, False), (ValueError, True)])
def test_the_end_of_a_connection_is_no_traceback(
    error: type[Exception], shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    class Ends(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            raise error

    with socketserver.TCPServer(("127.0.0.1", 0), Ends) as server:
        _forgive_ends(server)
        with socket.create_connection(server.server_address[:2]):
            server.handle_request()
    assert ("Traceback" in capsys.readouterr().err) == shown
