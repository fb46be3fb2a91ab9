"""What many tests of the pipeline begin with: two streams of three columns, a join of them, and rows for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from millstream.testing import run

Rows = list[dict[str, Any]]
START = datetime(2024, 1, 1, tzinfo=UTC)
STREAMS = """
CREATE STREAM A (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM B (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
"""
PAIR = "SELECT A.k, A.v AS av, B.v AS bv FROM A, B WHERE A.k = B.k"
BATCHES = [
    {
        name: [{"k": n % 3, "v": n + shift, "Ts": START + timedelta(seconds=10 * batch + n)} for n in range(12)]
        for name, shift in (("A", 0.0), ("B", 0.5))
    }
    for batch in range(3)
]


def by_stream(batches: list[dict[str, Rows]]) -> dict[str, list[Rows]]:
    """Each stream's rows, batch by batch, as the runners of `millstream.testing` take them."""
    return {name: [batch[name] for batch in batches] for name in batches[0]}


def same(found: pa.Table | Rows, expected: pa.Table | Rows) -> None:
    """The same rows, in any order."""
    one, other = (rows if isinstance(rows, list) else rows.to_pylist() for rows in (found, expected))
    assert sorted(map(repr, one)) == sorted(map(repr, other))


def filled(mill: Any) -> Any:
    """A mill with the first two batches in its folders."""
    for batch in BATCHES[:2]:
        mill.put(batch)
    return mill


def expected(window: int, batches: list[dict[str, Rows]] = BATCHES[:2]) -> pa.Table:
    """What the engine makes of batches: pairs less than so many seconds apart."""
    return run(f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW {window} SECONDS;", by_stream(batches))["q"]
