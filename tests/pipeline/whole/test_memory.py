"""Little memory on Spark, and slots that come and go: the rows are those of a run without either."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from millstream.pipeline.changes import Changes
from millstream.testing import Session
from two_streams import PAIR, START, STREAMS, Rows, same

QUERIES = f"""
CREATE QUERY wide AS {PAIR} WINDOW 60 SECONDS;
CREATE QUERY near AS {PAIR} WINDOW 5 SECONDS;
CREATE QUERY later AS SELECT A.k, A.v FROM A, B WHERE A.k = B.k AND A.v < B.v WINDOW 20 SECONDS;
"""
KEYS = 60


def some_rows(seed: int, count: int, first: int, last: int) -> Rows:
    rng = np.random.default_rng(seed)
    seconds = np.sort(rng.integers(first, last, count))
    return [
        {"k": int(key), "v": round(float(value), 3), "Ts": START + timedelta(seconds=int(second))}
        for key, value, second in zip(rng.integers(0, KEYS, count), rng.random(count), seconds, strict=True)
    ]


BATCHES = [{name: some_rows(n + 50 * (name == "B"), 300, n * 8, n * 8 + 8) for name in "AB"} for n in range(5)]


@pytest.mark.parametrize(
    "settings",
    [
        "SET memory = '20 kB';",
        "SET memory = '1 B'; SET order = 'strict'; SET spill_share = 1;",
        "SET memory = '20 kB'; SET adaptation = 'active_disk'; SET budget = '1 millisecond'; SET inactive = '0 s';",
    ],
)
def test_memory_and_slots_change_nothing(mill: Callable[..., Any], settings: str) -> None:
    script = f"{STREAMS} SET groups = 32; SET slots = 2; {settings} {QUERIES}"
    session = Session(f"{STREAMS} {QUERIES}")
    spilled, slots = 0, []
    for number, batch in enumerate(BATCHES):
        one = mill(script)
        one.put(batch)
        if number:
            Changes.of(one.pipeline.directory.location).rescale((5, 32, 1, 3)[number - 1])
        one.pipeline.drain()
        session.feed(batch)
        while not one.done.empty():
            spilled += one.done.get().disk_bytes
        slots.append(len(one.pipeline.executors))
    session.close()
    for name in ("wide", "near", "later"):
        same(one.results(name), session.results(name))
    assert spilled, "something was on disk only"
    assert slots == [2, 5, 32, 1, 3]
