"""`millstream bench replan` in small: wrong hints give other plans, and all rows are right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from millstream.compile import compile_script
from millstream.lab.bench import replan


def test_wrong_hints_give_another_plan_in_every_workload() -> None:
    for workload in replan.WORKLOADS:
        right, wrong = (compile_script(workload.script(way)).chains[0] for way in replan.WAYS[:2])
        assert (right.slices, right.access) != (wrong.slices, wrong.access)


def test_rows_are_right_in_every_way(tmp_path: Path) -> None:
    small = replace(replan.WORKLOADS[1], batches=14, settled=10, seconds=2, rates=(1_500, 1_500))
    lines = list(replan.report(lambda _: None, 1, tmp_path, (small,)))
    assert [line.strip().split("  ")[0] for line in lines[2:5]] == list(replan.WAYS)
    assert "the plan stayed" in lines[4]
    assert "all rows as by DuckDB, in every way: pass" in [line.strip() for line in lines]
    assert not list(tmp_path.iterdir())
