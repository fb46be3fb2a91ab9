"""The calibration is measured, kept and used, and a broken file does no harm."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from millstream.compile import compile_script
from millstream.lab.calibrate import measure
from millstream.lab.workloads.windows import TABLE_4, window_script
from millstream.plan import Calibration
from millstream.plan.calibration import cache_path, load, save


def test_what_is_kept_comes_back(empty_cache: Path) -> None:
    assert load() is None
    kept = Calibration(search_step=1234.5)
    assert save(kept) == cache_path() == empty_cache / "calibration.json"
    assert load() == kept


@pytest.mark.parametrize("text", ["", "[]", "{", '{"route": 1}', "null"])
def test_a_broken_file_is_as_none(empty_cache: Path, text: str) -> None:
    empty_cache.mkdir()
    cache_path().write_text(text, encoding="utf-8")
    assert load() is None


def test_costs_that_cannot_be_are_not_used() -> None:
    save(Calibration(route=-1))
    assert load() is None


def test_measuring_gives_a_cost_for_every_step() -> None:
    measured = asdict(measure())
    assert set(measured) == set(asdict(Calibration()))
    assert all(0 < cost < 100_000 for cost in measured.values())


def test_the_planner_weighs_with_it() -> None:
    script = window_script(TABLE_4["Uniform"])
    dear_search = compile_script(script, calibration=Calibration(search_step=1e6))
    dear_route = compile_script(script, calibration=Calibration(route=1e6))
    assert len(dear_search.chains[0].slices) == 1
    assert len(dear_route.chains[0].slices) == 23
    paper = compile_script(script, calibration=Calibration(search_step=1e6), settings={"costs": "paper"})
    assert len(paper.chains[0].slices) == 23
