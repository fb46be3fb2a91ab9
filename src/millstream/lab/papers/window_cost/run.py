"""The figures, by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from millstream.lab.papers.window_cost.allot import figure_9
from millstream.lab.papers.window_cost.both import figure_10, figure_11
from millstream.lab.papers.window_cost.regulate import figure_8
from millstream.lab.papers.window_cost.seven import seven

FIGURES: Mapping[str, Callable[[Path], Iterator[str]]] = {
    "8": figure_8,
    "9": figure_9,
    "10": figure_10,
    "11": figure_11,
    "seven": seven,
}
"""`seven` is no figure of the paper: its questions for seven shared queries."""
