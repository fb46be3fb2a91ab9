"""What chose the plan in use, written down and read again; damage of it is never an error."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from millstream.compile import compile_script
from millstream.engine.files import Files
from millstream.pipeline.chosen import NAME, Change, Chosen
from millstream.pipeline.measuring import Ratio, RunStatistics
from millstream.plan import costs_of
from millstream.plan.costs import Calibration
from millstream.plan.replan import replanned

SCRIPT = """
CREATE STREAM A (k BIGINT, Ts TIMESTAMP) WITH (time = 'Ts', rate = 30000, keys = 300);
CREATE STREAM B (k BIGINT, Ts TIMESTAMP) WITH (time = 'Ts', rate = 30000, keys = 300);
CREATE QUERY near AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 SECOND;
CREATE QUERY far AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 10 SECONDS;
"""


def known() -> RunStatistics:
    return RunStatistics(batches=9, rates={name: Ratio(3.0, 1.0) for name in "AB"})


def written(**parts: Any) -> Chosen:
    plan = compile_script(SCRIPT)
    given: dict[str, Any] = {"settings": asdict(plan.script.settings), "calibration": asdict(Calibration()), **parts}
    return Chosen(**given)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    one = written(statistics=known().to_json()).with_change(Change(7, "fewer slices")).with_effect("faster")
    one.write(files)
    assert Chosen.read(files) == one
    assert one.changes == (Change(7, "fewer slices", "faster"),)


def test_only_the_last_changes_are_kept() -> None:
    one = written()
    for batch in range(50):
        one = one.with_change(Change(batch, "why"))
    assert [change.batch for change in one.changes] == list(range(30, 50))


def test_the_plan_in_use_is_that_of_the_measurements() -> None:
    hinted = compile_script(SCRIPT)
    assert written().plan(hinted).chains == hinted.chains
    measured = known()
    costs = costs_of(hinted.script, measured.calibration(Calibration()))
    expected = replanned(hinted, measured.statistics(hinted), costs)
    assert expected.chains != hinted.chains
    assert written(statistics=measured.to_json()).plan(hinted).chains == expected.chains


@pytest.mark.parametrize(
    "damaged",
    ["", "{", "[]", "null", "{}", '{"changes": 3}', '{"changes": [], "nonsense": 1}', '{"changes": [{"batch": 1}]}'],
)
def test_a_damaged_file_is_as_none(tmp_path: Path, damaged: str) -> None:
    (tmp_path / NAME).write_text(damaged)
    assert Chosen.read(Files.at(tmp_path)) == Chosen()


def test_wrong_settings_and_statistics_are_as_none(tmp_path: Path) -> None:
    for parts in ({"settings": {"no_such": 1}}, {"calibration": {"no_such": 1}}, {"statistics": {"batches": 1}}):
        (tmp_path / NAME).write_text(json.dumps({**asdict(written()), **parts}))
        assert Chosen.read(Files.at(tmp_path)) == Chosen()


def test_a_missing_file_or_a_folder_is_as_none(tmp_path: Path) -> None:
    assert Chosen.read(Files.at(tmp_path)) == Chosen()
    (tmp_path / NAME).mkdir()
    assert Chosen.read(Files.at(tmp_path)) == Chosen()
