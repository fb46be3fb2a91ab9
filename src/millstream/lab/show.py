"""The output of experiments: verdicts, bars in the terminal, a CSV file, and a plot where matplotlib is installed."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

_BAR = 40


def verdict(holds: bool) -> str:
    return "pass" if holds else "FAIL"


def bars(value: float, greatest: float, width: int = _BAR) -> str:
    return "█" * max(round(width * value / greatest), 0) if greatest > 0 else ""


def save_csv(directory: Path, name: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def save_lines(
    directory: Path,
    name: str,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x: str,
    y: str,
    *,
    log: bool = False,
) -> str:
    """A plot with one line per name; says so where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "no picture: matplotlib is not installed (pip install 'millstream[lab]')"
    directory.mkdir(parents=True, exist_ok=True)
    picture = Figure(figsize=(8, 4.5), layout="constrained")
    axes = picture.add_subplot()
    for label, (xs, ys) in lines.items():
        axes.plot(xs, ys, label=label, marker="." if len(xs) < 20 else None)
    axes.set(xlabel=x, ylabel=y, title=name.replace("_", " "), yscale="log" if log else "linear")
    axes.legend()
    path = directory / f"{name}.png"
    picture.savefig(path, dpi=120)
    return str(path)
