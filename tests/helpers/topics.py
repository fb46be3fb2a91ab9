"""Two topics of JSON rows, and what the queries over them must give, by DuckDB."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millstream.lab.workloads.broker import Broker

START = datetime(2024, 5, 31, 12)
WINDOWS = {"wide": 30, "narrow": 3}
SELECT = "SELECT A.k, A.n AS a, B.n AS b, A.ts AS at FROM A, B WHERE A.k = B.k"


def rows(seed: int, count: int = 400, keys: int = 20) -> list[dict[str, Any]]:
    """Rows in the order of their times, a tenth of a second apart; every seed goes on where the one before ended."""
    rng = np.random.default_rng(seed)
    micros = np.sort(rng.integers(0, count * 100_000, count))
    return [
        {
            "k": int(key),
            "n": seed * count + at,
            "ts": START + timedelta(microseconds=int(micros[at]) + seed * count * 100_000),
        }
        for at, key in enumerate(rng.integers(0, keys, count))
    ]


def values(given: Iterable[Mapping[str, Any]]) -> list[bytes]:
    return [json.dumps({**row, "ts": row["ts"].isoformat()}).encode() for row in given]


def stream(name: str, broker: Broker, topic: str, options: str = "", columns: str = "") -> str:
    """The declaration of a stream; everything that was produced is read."""
    return (
        f"CREATE STREAM {name} (k INT, n BIGINT, ts TIMESTAMP{columns}) WITH (time = 'ts', delay = '1 hour', "
        f"format = 'kafka', value = 'json', 'kafka.bootstrap.servers' = '{broker.address}', subscribe = '{topic}', "
        f"startingOffsets = 'earliest'{options});\n"
    )


def queries(options: str = "") -> str:
    given = f" WITH ({options})" if options else ""
    return "".join(f"CREATE QUERY {name}{given} AS {SELECT} WINDOW {size} SECONDS;\n" for name, size in WINDOWS.items())


def expected(a: Iterable[Mapping[str, Any]], b: Iterable[Mapping[str, Any]], seconds: int) -> Counter[tuple[Any, ...]]:
    left, right = (pa.Table.from_pylist(list(one)) for one in (a, b))
    with duckdb.connect() as connection:
        connection.register("A", left)
        connection.register("B", right)
        found = connection.execute(
            f"SELECT A.n, B.n, A.ts FROM A, B WHERE A.k = B.k AND abs(epoch_us(A.ts) - epoch_us(B.ts)) < {seconds}e6"
        ).fetchall()
    return Counter(found)


def given(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter((row["a"], row["b"], row["at"].replace(tzinfo=None)) for row in table.to_pylist())
