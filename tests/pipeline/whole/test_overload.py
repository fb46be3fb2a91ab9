"""More rows than can be joined in time, on Spark: nothing is ever shed unless it is asked for, and where it is, what
comes out is right by DuckDB, what is told is true, and later rows are all there when the load has fallen.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from millstream.pipeline import manifest as manifests
from millstream.pipeline.progress import BatchProgress
from two_streams import PAIR, START, STREAMS

WINDOWS = {"near": 5, "wide": 25}
QUERIES = "".join(f"CREATE QUERY {name} AS {PAIR} WINDOW {seconds} SECONDS;\n" for name, seconds in WINDOWS.items())
SCRIPT = f"{STREAMS} SET slots = 2; SET groups = 32; {QUERIES}"
KEYS, SECONDS, ROWS = 200, 10, 600
Pairs = Counter[tuple[int, float, float]]
Fed = list[dict[str, pa.Table]]


def some_rows(seed: int, first: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    micros = np.sort(rng.integers(first * 1_000_000, (first + SECONDS) * 1_000_000, ROWS))
    stamps = pa.array([START + timedelta(microseconds=int(one)) for one in micros], pa.timestamp("us", "UTC"))
    return pa.table({"k": rng.integers(0, KEYS, ROWS).astype("int32"), "v": rng.random(ROWS), "Ts": stamps})


def put(mill: Any, first: int, count: int) -> Fed:
    fed = [
        {name: some_rows(number + 1_000 * (name == "B"), number * SECONDS) for name in "AB"}
        for number in range(first, first + count)
    ]
    for batch in fed:
        mill.put(batch)
    return fed


def whole(fed: Fed, seconds: int) -> Pairs:
    """All pairs of these batches, by DuckDB."""
    with duckdb.connect() as db:
        for name in "AB":
            db.register(name, pa.concat_tables([batch[name] for batch in fed]))
        near = f"BETWEEN -INTERVAL {seconds} SECOND AND INTERVAL {seconds} SECOND"
        return Counter(db.sql(f"SELECT A.k, A.v, B.v FROM A JOIN B ON A.k = B.k AND A.Ts - B.Ts {near}").fetchall())


def there(mill: Any, name: str) -> Pairs:
    return Counter((row["k"], row["av"], row["bv"]) for row in mill.results(name))


def told_by(mill: Any) -> list[BatchProgress]:
    return [mill.done.get_nowait() for _ in range(mill.done.qsize())]


def saved(mill: Any) -> dict[str, Any]:
    found = manifests.latest(mill.pipeline.directory.files.below("manifest"))
    assert found is not None
    shed: dict[str, Any] = json.loads(json.dumps(dict(found.shed)))
    return shed


@pytest.mark.parametrize(
    "settings",
    [
        "SET overload_after = '1 millisecond';",
        "SET overload_after = '1 millisecond'; SET memory = '20 kB'; SET memory_short = 'spill';",
        "SET overload_after = '1 millisecond'; SET budget = '1 millisecond';",
    ],
    ids=["no limit", "tiny memory", "work put off"],
)
def test_no_row_is_ever_shed_unless_it_is_asked_for(mill: Callable[..., Any], settings: str) -> None:
    one = mill(f"{SCRIPT} SET overload = 'later'; {settings}")
    fed = put(one, 0, 5)
    one.pipeline.drain()
    told = told_by(one)
    assert sum(sum(each.rows_in.values()) for each in told) == 5 * 2 * ROWS
    assert not any(each.shed or each.completeness or each.completeness_by or each.reaches for each in told)
    assert saved(one) == {}
    if "memory" in settings:
        assert any(each.disk_bytes for each in told), "memory was short"
    for name, seconds in WINDOWS.items():
        assert there(one, name) == whole(fed, seconds)


def test_what_is_shed_is_told_truly_and_later_rows_are_whole(mill: Callable[..., Any]) -> None:
    """Rows that may wait for five milliseconds wait for longer; in the last run they have time."""
    fed: Fed = []
    shed, last = 0, dict.fromkeys(WINDOWS, 1.0)
    for number, after in enumerate(("5 milliseconds", "5 milliseconds", "10 minutes")):
        one = mill(f"{SCRIPT} SET overload = 'shed_keys'; SET overload_after = '{after}';")
        fed += put(one, len(fed), 6)
        if number == 0:
            # Stopped in the middle: what is left is read by the next run.
            one.pipeline.start()
            one.await_rows(4 * 2 * ROWS)
            one.pipeline.stop()
        else:
            one.pipeline.drain()
        told = [each for each in told_by(one) if each.rows_in]
        told_now = saved(one)
        if number:
            assert told[0].completeness, "from the first batch on"
            shed += sum(sum(each.shed.values()) for each in told)
        else:
            shed = sum(told_now["rows"].values())
        assert sum(told_now["rows"].values()) == shed > 0
        if number < 2:
            assert any("% of the keys are kept" in line for line in one.said)
        else:
            assert not any(each.shed for each in told)
            assert told[-1].completeness["near"] > last["near"]
        last = dict(told_now["completeness"])
    for name, seconds in WINDOWS.items():
        found, every = there(one, name), whole(fed, seconds)
        assert not found - every, "no row that should not be there, and none twice"
        assert 0.2 < found.total() / every.total() < 0.95
        assert last[name] == pytest.approx(found.total() / every.total(), abs=0.1)
        calm = whole(fed[12:], seconds)
        assert not calm - found, "all pairs of the rows that came when there was time"
