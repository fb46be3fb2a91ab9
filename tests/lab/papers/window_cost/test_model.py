"""Figures 2, 3 and 5 of window-cost are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.lab.papers.window_cost import model
from millstream.plan import Calibration


@pytest.mark.parametrize(("keys", "printed"), [(10, 70), (20, 140)])
def test_hnj_takes_over_where_the_paper_says(keys: int, printed: float) -> None:
    assert model.crossing_rate(keys) == pytest.approx(printed, rel=0.1)


def test_the_joins_cost_what_equations_4_to_6_say() -> None:
    found = model.costs(100, 10)
    assert found["HHJ"] == pytest.approx((10 + 100) * (60 * 100 / 10 + 60 * 10 / 10 + 1) * 0.65)
    assert found["NNJ"] == pytest.approx(10 * (60 * 100 + 2) * 0.5 + 100 * (60 * 10 + 2) * 0.5)
    assert found["HNJ"] == pytest.approx(10 * (6000 * 0.5 + 60 * 0.65 + 0.65) + 100 * (60 * 0.65 + 2 * 0.5))


def test_the_figures_of_the_model_pass_and_are_written(tmp_path: Path) -> None:
    for lines in (model.figure_2(tmp_path), model.figure_3(tmp_path), model.figure_5(tmp_path, Calibration())):
        shown = "\n".join(lines)
        assert "pass" in shown
        assert "FAIL" not in shown
    names = {path.name for path in tmp_path.iterdir()}
    assert {f"window-cost_figure_{number}.csv" for number in (2, 3, 5)} <= names
