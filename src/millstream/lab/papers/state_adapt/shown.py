"""How the figures of state-adapt are shown: curves as tables, claims with what the paper says, CSV and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from millstream.lab.papers.state_adapt.run import Outcome
from millstream.lab.show import save_csv, save_lines, verdict

_COLUMNS = 6


def claim(text: str, *, paper: str, measured: str, holds: bool) -> str:
    return f"  {text} (paper: {paper}): {measured}  {verdict(holds)}"


def complete(found: Mapping[str, Outcome]) -> str:
    """Whether each run gave every result once, while it ran or in its clean-up."""
    expected = next(iter(found.values())).streams.results()
    right = all(one.running + one.owed == expected for one in found.values())
    return f"  every run gave all {expected:,} results once, with the clean-up: {verdict(right)}"


def curves(minutes: Sequence[float], lines: Mapping[str, Sequence[float]], what: str, form: str = ",.0f") -> list[str]:
    """Some points of each line, side by side."""
    at = [round((number + 1) * len(minutes) / _COLUMNS) - 1 for number in range(_COLUMNS)]
    wide = max(len(name) for name in [*lines, what]) + 2
    found = [f"  {what:<{wide}}" + "".join(f"{minutes[place]:>9.0f} min" for place in at)]
    for name, line in lines.items():
        found.append(f"  {name:<{wide}}" + "".join(f"{format(line[place], form):>13}" for place in at))
    return found


def results(found: Mapping[str, Outcome]) -> list[str]:
    """Results so far over time, of each run."""
    minutes = next(iter(found.values())).minutes
    return curves(minutes, {name: one.so_far for name, one in found.items()}, "results so far")


def saved(
    directory: Path, name: str, found: Mapping[str, Outcome], *, memory: bool = False, y: str = ""
) -> Iterator[str]:
    """A CSV file of all batches, and a plot of results or of memory over time."""
    rows = [
        (label, minute, so_far, *_of(sample.memory), *_of(sample.disk), sample.moved)
        for label, one in found.items()
        for minute, so_far, sample in zip(one.minutes, one.so_far, one.samples, strict=True)
    ]
    header = ("run", "minute", "results", "memory_bytes", "disk_bytes", "moved_groups")
    yield f"written: {save_csv(directory, f'state-adapt_{name}', header, rows)}"
    if memory:
        lines = {
            label if len(one.samples[0].memory) == 1 else f"{label}, machine {machine + 1}": (
                one.minutes,
                one.memory(machine),
            )
            for label, one in found.items()
            for machine in range(len(one.samples[0].memory))
        }
    else:
        lines = {label: (one.minutes, [float(value) for value in one.so_far]) for label, one in found.items()}
    axis = y or ("state in memory, MB" if memory else "results so far")
    yield f"written: {save_lines(directory, f'state-adapt_{name}', lines, 'minutes', axis)}"


def _of(values: Sequence[int]) -> tuple[str]:
    return (" ".join(map(str, values)),)
