"""`millstream bench pools` in small: what it counts, and what it would call wrong."""

from __future__ import annotations

from pathlib import Path

from millstream.lab.bench.pools import JOINS, STREAMS, fed, kept_once, report, run
from millstream.lab.workloads.window_joins import Readings


def test_the_report_has_a_line_for_each_and_all_rows_are_right(tmp_path: Path) -> None:
    lines = list(report(rows=2_000, batches=2, native=False, place=tmp_path))
    assert [line.split("  ")[1] for line in lines if " MB" in line] == [
        "pools, which all queries share",
        "a state per chain",
    ]
    assert [line.rsplit(None, 1)[1] for line in lines if "DuckDB" in line or "kept once" in line] == ["pass", "pass"]
    assert not list(tmp_path.iterdir())


def test_rows_that_are_gone_or_there_twice_are_seen() -> None:
    """Seconds enough that rows have left every window."""
    readings = Readings(streams=STREAMS, rows=4_000, rate=4, keys=200)
    parts = fed(readings, 10)
    kept = run(readings, JOINS, parts)
    found = kept_once(readings, kept, parts)
    assert all(one.needed == one.kept for one in found.values())
    assert all(one.needed < 4_000 * 0.8 for one in found.values())
    (pool,) = (pool for pool in kept.engine.pools() if pool.pool.stream.name == "B")
    newest = max(pool.segments, key=lambda segment: segment.last)
    pool.segments.append(newest)
    assert kept_once(readings, kept, parts)["B"].kept == found["B"].needed + len(newest)
    pool.segments[:] = [segment for segment in pool.segments if segment is not newest]
    assert kept_once(readings, kept, parts)["B"].kept < found["B"].needed
