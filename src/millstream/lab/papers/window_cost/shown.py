"""How the figures of regulating and allotting are shown: ways side by side, claims, CSV and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from millstream.lab.papers.window_cost.measured import Measured
from millstream.lab.show import bars, save_csv, save_lines, verdict

Way = tuple[str, float, Measured]
"""What a way does in words, the results per second that the paper's equation gives it, and what was measured."""


def claim(text: str, *, paper: str, measured: str, holds: bool) -> str:
    return f"  {text} (paper: {paper}): {measured}  {verdict(holds)}"


def table(ways: Mapping[str, Way]) -> Iterator[str]:
    greatest = max(one.output_rate for _, _, one in ways.values())
    wide = max(map(len, ways)) + 2
    said = max(len(words) for words, _, _ in ways.values()) + 2
    yield f"  {'':<{wide}}{'':<{said}}{'rows in':>9}{'state rows':>12}{'model/s':>10}{'measured/s':>12}{'CPU s':>8}"
    for name, (words, model, one) in ways.items():
        yield (
            f"  {name:<{wide}}{words:<{said}}{one.rows:>9,}{one.state_rows:>12,.0f}{model:>10,.0f}"
            f"{one.output_rate:>12,.0f}{one.cpu:>8.2f}  {bars(one.output_rate, greatest, 24)}"
        )


def near_the_model(ways: Mapping[str, Way], within: float = 0.05) -> str:
    """Whether every rate measured is that of the equation, to a share of the greatest."""
    greatest = max(model for _, model, _ in ways.values())
    off = max(abs(one.output_rate - model) / greatest for _, model, one in ways.values())
    return f"  measured within {within:.0%} of the greatest rate of the model: {off:.1%}  {verdict(off <= within)}"


def best(ways: Mapping[str, Way]) -> list[str]:
    """The ways, the one with most results first."""
    return sorted(ways, key=lambda name: -ways[name][2].output_rate)


def saved(out: Path, name: str, ways: Mapping[str, Way]) -> Iterator[str]:
    """A CSV file, and results so far over time."""
    rows = [
        (label, words, one.rows, one.state_rows, model, one.output_rate, one.cpu)
        for label, (words, model, one) in ways.items()
    ]
    header = ("way", "means", "rows_in", "state_rows", "model_per_second", "measured_per_second", "cpu_seconds")
    yield f"written: {save_csv(out, f'window-cost_{name}', header, rows)}"
    lines = {}
    for label, (_, _, one) in ways.items():
        step = one.seconds / len(one.so_far)
        lines[label] = ([step * (n + 1) for n in range(len(one.so_far))], [float(value) for value in one.so_far])
    yield f"written: {save_lines(out, f'window-cost_{name}', lines, 'seconds', 'results so far')}"
