"""Window joins over two streams: the window sets of the papers' tables, queries as a script, and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

TABLE_1: Mapping[str, tuple[int, ...]] = {
    "Uniform": (1, 100, 200, 300, 400, 500, 600),
    "Mostly-Small": (1, 5, 15, 30, 60, 300, 600),
    "Mostly-Large": (1, 60, 300, 420, 510, 570, 600),
    "Small-Large": (1, 5, 15, 300, 510, 570, 600),
}
"""shared-join, Table 1: the windows of seven queries, in seconds."""
UNIFORM = TABLE_1["Uniform"]

TABLE_4: Mapping[str, tuple[float, ...]] = {
    "Uniform": (2.5, 5, 7.5, 10, 12.5, 15, 17.5, 20, 22.5, 25, 27.5, 30),
    "Mostly-Small": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30),
    "Small-Large": (1, 2, 3, 4, 5, 6, 25, 26, 27, 28, 29, 30),
}
"""state-slice, Table 4: the windows of twelve queries, in seconds."""


def window_script(windows: Sequence[float], *, rate: float = 80, keys: int = 40) -> str:
    """One query per window (seconds) over the same two streams."""
    hints = f"WITH (time = 'Ts', rate = {rate:g}, keys = {keys})"
    streams = [f"CREATE STREAM {name} (Id INT, Value DOUBLE, Ts TIMESTAMP) {hints};" for name in ("A", "B")]
    queries = [
        f"CREATE QUERY q{number} AS SELECT * FROM A, B WHERE A.Id = B.Id WINDOW {seconds:g} SECONDS;"
        for number, seconds in enumerate(windows, start=1)
    ]
    return "\n".join([*streams, *queries, ""])


def window_rows(rate: float, keys: int, seconds: float, batches: int, seed: int = 1) -> Iterator[dict[str, pa.Table]]:
    """Rows for the streams of `window_script`, in batches of equal duration: uniform keys, Poisson arrivals."""
    rng = np.random.default_rng(seed)
    for number in range(batches):
        start, stop = (int(seconds * 1e6 * step / batches) for step in (number, number + 1))
        yield {name: _rows(rng, rng.poisson(rate * (stop - start) / 1e6), keys, start, stop) for name in ("A", "B")}


def _rows(rng: np.random.Generator, count: int, keys: int, start: int, stop: int) -> pa.Table:
    times = pa.array(np.sort(rng.integers(start, stop, count))).view(pa.timestamp("us", "UTC"))
    ids = pa.array(rng.integers(0, keys, count).astype(np.int32))
    return pa.table({"Id": ids, "Value": rng.random(count), "Ts": times})
