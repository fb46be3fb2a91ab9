"""Rescaling in small: two changes while queries run, and every row is there."""

from __future__ import annotations

from pathlib import Path

from millstream.lab.bench.rescale import report


def test_queries_go_on_with_other_numbers_of_slots(tmp_path: Path) -> None:
    lines = list(report(12, 9, 5, tmp_path, native=False))
    assert any("2 slots become 6" in line for line in lines)
    assert any("6 slots become 3" in line for line in lines)
    assert lines[-1].endswith("no restart: pass")
