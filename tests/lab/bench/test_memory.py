"""The memory benchmark in small: a limited run spills, its workers are seen, and no row is missing."""

from __future__ import annotations

from pathlib import Path

from millstream.lab.bench.memory import MemoryBench


def test_a_limited_run_gives_all_rows(tmp_path: Path) -> None:
    told: list[str] = []
    bench = MemoryBench(tmp_path, rows=6_000, batches=5, tell=told.append)
    files = bench.busy.write(tmp_path / "busy")
    ran = bench.run(files, bench.busy.script("SET memory = '300 KB';\n"), "limit")
    assert ran.right
    assert ran.most("disk") > 0
    assert ran.most("owing") > 0
    assert ran.batches[-1]["owing"] == 0
    assert ran.seconds > 0
    assert ran.peak.workers >= 1
    assert ran.peak.whole > ran.peak.own > 1_000_000
    assert told[-1].startswith("limit: ")
