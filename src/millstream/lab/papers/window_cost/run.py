"""The figures, by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from millstream.lab.calibrate import measure
from millstream.lab.papers.window_cost.allot import figure_9
from millstream.lab.papers.window_cost.both import figure_10, figure_11
from millstream.lab.papers.window_cost.joins import figure_4, figure_6, figure_7
from millstream.lab.papers.window_cost.model import figure_2, figure_3, figure_5
from millstream.lab.papers.window_cost.regulate import figure_8
from millstream.lab.papers.window_cost.seven import seven
from millstream.plan import Calibration
from millstream.plan.calibration import load


@cache
def _calibration() -> Calibration:
    """That of this machine; measured where there is none."""
    return load() or measure()


FIGURES: Mapping[str, Callable[[Path], Iterator[str]]] = {
    "2": figure_2,
    "3": figure_3,
    "4": figure_4,
    "5": lambda out: figure_5(out, _calibration()),
    "6": lambda out: figure_6(out, _calibration()),
    "7": figure_7,
    "8": figure_8,
    "9": figure_9,
    "10": figure_10,
    "11": figure_11,
    "seven": seven,
}
"""`seven` is no figure of the paper: its questions for seven shared queries."""
