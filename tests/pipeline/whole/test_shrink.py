"""Memory without a disk on Spark: state stays within it, rows that come out are right, what is told is true, and all is
there again when the load has fallen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from two_streams import PAIR, START, STREAMS

WINDOWS = {"near": 10, "wide": 120}
QUERIES = "".join(f"CREATE QUERY {name} AS {PAIR} WINDOW {seconds} SECONDS;\n" for name, seconds in WINDOWS.items())
KEYS, SECONDS, MANY, FEW = 400, 10, 22, 22
ROWS = {"A": 1_000, "B": 3_000}
"""Of a batch of ten seconds, while there are many; then a tenth of them."""
MEMORY = 900_000


def some_rows(seed: int, count: int, first: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    micros = np.sort(rng.integers(first * 1_000_000, (first + SECONDS) * 1_000_000, count))
    times = [START + timedelta(microseconds=int(one)) for one in micros]
    keys = rng.integers(0, KEYS, count).astype("int32")
    stamps = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.table({"k": keys, "v": rng.random(count), "Ts": stamps})


def pairs(tables: dict[str, pa.Table], seconds: int) -> pa.Table:
    """All pairs, with the time of the later row, by DuckDB."""
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        near = f"BETWEEN -INTERVAL {seconds} SECOND AND INTERVAL {seconds} SECOND"
        return db.sql(
            "SELECT A.k, A.v AS av, B.v AS bv, greatest(A.Ts, B.Ts) AS later"
            f" FROM A JOIN B ON A.k = B.k AND A.Ts - B.Ts {near}"
        ).to_arrow_table()


def counted(rows: list[dict[str, Any]]) -> Counter[tuple[int, float, float]]:
    return Counter((row["k"], row["av"], row["bv"]) for row in rows)


def test_windows_are_shortened_while_memory_is_short(mill: Callable[..., Any]) -> None:
    one = mill(f"{STREAMS} SET slots = 2; SET memory = '{MEMORY} B'; SET memory_short = 'shrink'; {QUERIES}")
    fed = []
    for number in range(MANY + FEW):
        part = 1 if number < MANY else 10
        rows = {name: count // part for name, count in ROWS.items()}
        fed.append({name: some_rows(number + 1_000 * (name == "B"), rows[name], number * SECONDS) for name in rows})
        one.put(fed[-1])
    one.pipeline.drain()
    told = []
    while not one.done.empty():
        told.append(one.done.get())
    assert max(each.memory_bytes for each in told) <= MEMORY
    assert any(each.reaches for each in told)
    assert not any(each.disk_bytes for each in told)
    tables = {name: pa.concat_tables([batch[name] for batch in fed]) for name in ROWS}
    calm = START + timedelta(seconds=SECONDS * (MANY + FEW) - 20)
    for name, seconds in WINDOWS.items():
        there, whole = counted(one.results(name)), pairs(tables, seconds).to_pylist()
        assert not there - counted(whole), "no row that should not be there, and none twice"
        share = there.total() / len(whole)
        assert abs(share - told[-1].completeness[name]) < 0.05
        assert (share > 0.99) if name == "near" else (0.4 < share < 0.9)
        assert not counted([row for row in whole if row["later"] > calm]) - there, "after the load all is there"
    news = [line for line in one.said if "memory" in line]
    steady = [line for line in news if int(line.split(":")[0].removeprefix("batch ")) <= MANY]
    assert 1 <= len(steady) < 6, "reaches do not change all the time"
    later = [each.reaches.get("B by k", inf) for each in told if each.batch > MANY + 2]
    assert later == sorted(later), "they only grow when the load has fallen"
    assert news[-1].endswith("all pools reach as far as queries need again: there is memory for them")


def test_what_was_cut_is_told_after_a_restart(mill: Callable[..., Any]) -> None:
    script = f"{STREAMS} SET slots = 2; SET memory = '30 kB'; SET memory_short = 'shrink'; {QUERIES}"
    shares = []
    for first in (0, 4):
        one = mill(script)
        for number in range(first, first + 4):
            one.put({name: some_rows(number, 500, number * SECONDS) for name in ROWS})
        one.pipeline.drain()
        while not one.done.empty():
            shares.append(one.done.get().completeness.get("wide", 1.0))
    assert shares[0] == 1.0
    assert shares[-1] < 0.9
    assert shares[4] < 1.0, "the first batch of the second run"
