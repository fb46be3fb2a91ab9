"""How much state is held: with selections, the rows of state-slice's equation 3, not those of pull-up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from millstream.compile import compile_script
from millstream.engine.engine import Engine

RATE, NARROW, WIDE, SHARE = 200, 10, 600, 0.01


def held_rows(selection: str) -> float:
    """Rows of state, on average over the last batches, after the widest window has filled."""
    streams = "".join(f"CREATE STREAM {n} (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');" for n in "AB")
    join = "SELECT A.k FROM A, B WHERE A.k = B.k"
    queries = f"CREATE QUERY n AS {join} WINDOW {NARROW} SECONDS; CREATE QUERY w AS {join} AND {selection} "
    script = f"{streams}{queries}WINDOW {WIDE} SECONDS;"
    engine = Engine(compile_script(script, settings={"slicing": "memory"}), lambda _name, _rows: None)
    rng = np.random.default_rng(1)
    counts = []
    for second in range(WIDE + 60):
        times = np.sort(rng.integers(second * 1_000_000, (second + 1) * 1_000_000, RATE))
        columns = {"k": rng.integers(0, 10_000, RATE), "Ts": pa.array(times).view(pa.timestamp("us", "UTC"))}
        engine.feed({name: pa.table({**columns, "v": rng.random(RATE)}) for name in "AB"})
        if second >= WIDE + 10:
            segments = [segment for pool in engine.pools() for segment in pool.segments]
            counts.append(sum(len(segment) for segment in segments))
    return float(np.mean(counts))


PULL_UP = 2 * RATE * WIDE


def test_a_selection_on_one_stream_halves_the_state() -> None:
    equation_3 = 2 * RATE * NARROW + (1 + SHARE) * RATE * (WIDE - NARROW)
    held = held_rows(f"A.v < {SHARE}")
    assert held == pytest.approx(equation_3, rel=0.1)
    assert held < 0.6 * PULL_UP


def test_selections_on_both_streams_leave_less_than_a_tenth() -> None:
    assert held_rows(f"A.v < {SHARE} AND B.v < {SHARE}") < 0.1 * PULL_UP
