"""Hints ten times wrong on Spark: the plan is chosen again while it runs, before and after a restart, and what comes
out is what DuckDB gives.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from millstream.engine.files import Files
from millstream.pipeline import replanning
from millstream.pipeline.chosen import Chosen
from millstream.pipeline.explained import explain_directory
from two_streams import START

SECONDS, KEYS, BATCHES, AFTER = 10, 200, 8, 10
RATES = {"A": 50, "B": 1, "C": 10}
"""Rows per second of each stream, as they are; after the restart A and B have changed places."""
HINTS = {"A": (5, 2_000), "B": (10, 20), "C": (1, 2_000)}
"""Rates and keys as declared."""
STREAMS = "".join(
    f"CREATE STREAM {name} (k INT, g INT, n INT, Ts TIMESTAMP) WITH (time = 'Ts', rate = {rate}, keys = {keys});\n"
    for name, (rate, keys) in HINTS.items()
)
TWO = ("A.n AS a, B.n AS b, 0 AS c", "A, B", "A.k = B.k")
THREE = ("A.n AS a, B.n AS b, C.n AS c", "A, B, C", "A.g = B.g AND B.g = C.g")
QUERIES = {"near": (TWO, 2), "wide": (TWO, 10), "three": (THREE, 6)}
SCRIPT = f"{STREAMS} SET replan_margin = 0.001; SET replan_batches = 1; SET slots = 2;\n" + "".join(
    f"CREATE QUERY {name} AS SELECT {columns} FROM {sources} WHERE {keys} WINDOW {seconds} SECONDS;\n"
    for name, ((columns, sources, keys), seconds) in QUERIES.items()
)


def table(name: str, number: int) -> pa.Table:
    rates = RATES if number < BATCHES else {**RATES, "A": RATES["B"], "B": RATES["A"]}
    rng = np.random.default_rng([ord(name), number])
    count = rates[name] * SECONDS
    micros = np.sort(rng.integers(number * SECONDS * 1_000_000, (number + 1) * SECONDS * 1_000_000, count))
    times = [START + timedelta(microseconds=int(one)) for one in micros]
    return pa.table(
        {
            "k": pa.array(rng.integers(0, KEYS, count), pa.int32()),
            "g": pa.array(rng.integers(0, KEYS, count), pa.int32()),
            "n": pa.array(np.arange(count) + 1_000 * number, pa.int32()),
            "Ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def pairs(name: str, tables: dict[str, pa.Table]) -> Counter[tuple[int, int, int]]:
    """The results of a query by DuckDB: of any two rows the times are less than its window apart."""
    (columns, sources, keys), seconds = QUERIES[name]
    names = sources.split(", ")
    apart = [
        f"abs(epoch_us({one}.Ts) - epoch_us({other}.Ts)) < {seconds} * 1000000"
        for at, one in enumerate(names)
        for other in names[:at]
    ]
    with duckdb.connect() as db:
        for stream, rows in tables.items():
            db.register(stream, rows)
        found = db.sql(f"SELECT {columns} FROM {sources} WHERE {' AND '.join([keys, *apart])}").fetchall()
    return Counter(found)


@pytest.mark.parametrize(
    "settings",
    [
        {"order": "eager"},
        {"order": "strict", "budget": "1 microsecond", "heartbeat": "50 milliseconds"},
        {"order": "eager", "memory": "30 kB"},
    ],
    ids=["at once", "deferred, in order", "little memory"],
)
def test_wrong_hints_are_put_right_while_it_runs(
    mill: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    monkeypatch.setattr(replanning, "_PACE", 0)  # so that plans are compared after every batch, however slow that is
    fed = [{name: table(name, number) for name in RATES} for number in range(BATCHES + AFTER)]
    first = mill(SCRIPT, settings=settings)
    for batch in fed[:BATCHES]:
        first.put(batch)
    first.pipeline.start()
    first.await_rows(sum(len(rows) for batch in fed[:BATCHES] for rows in batch.values()))
    first.pipeline.stop()
    told = [line for line in first.said if "the plan is chosen again" in line]
    assert any("A of chain 2 is found by scan, not index" in line for line in told), first.said
    assert any("looks its streams up in another order" in line for line in told), first.said
    state = Files.at(tmp_path / "state")
    assert len(Chosen.read(state).changes) == len(told)
    explained = explain_directory(str(tmp_path / "state"))
    assert explained.measured.chooses
    paths = [[one.access.left for one in plan.chains if one.is_pairwise] for plan in (explained.hinted, explained.plan)]
    # What a comparison costs is measured too, so the plan may have been changed once more.
    assert paths == [["index"], re.findall(r"A of chain \d is found by (\w+)", "".join(told))[-1:]]

    second = mill(SCRIPT, settings=settings)
    for batch in fed[BATCHES:]:
        second.put(batch)
    second.pipeline.drain()
    assert any("the plan is chosen again" in line for line in second.said), second.said
    batches = [second.done.get() for _ in range(second.done.qsize())]
    assert any(one.disk_bytes for one in batches) == ("memory" in settings)
    tables = {name: pa.concat_tables([batch[name] for batch in fed]) for name in RATES}
    for name in QUERIES:
        found = Counter((row["a"], row["b"], row["c"]) for row in second.results(name))
        assert found == pairs(name, tables), name
        assert found.total() > 100
