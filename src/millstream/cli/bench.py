"""`millstream bench`: benchmarks against peers and the papers' experiments.

The lab is loaded only when one of these commands runs: it needs packages that the product does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click


@click.group()
def bench() -> None:
    """Measure Millstream, against peers and against the papers."""


@bench.command()
def plan() -> None:
    """How long planning and checking take."""
    from millstream.lab import bench_plan

    _show(bench_plan.report())


@bench.command()
@click.option("--seconds", type=int, default=1000, show_default=True, help="Seconds of event time, 1,000 rows each.")
def kernel(seconds: int) -> None:
    """The engine on one core: one window, seven windows, DuckDB, small batches."""
    from millstream.lab import bench_kernel

    _show(bench_kernel.report(seconds))


@bench.command("hot-key")
@click.option("--rows", type=int, default=30_000, show_default=True, help="Rows of one key on each side.")
def hot_key(rows: int) -> None:
    """All pairs of one key, counted: how much memory they take."""
    from millstream.lab import bench_engine

    _show(bench_engine.hot_key(rows))


@bench.command()
@click.option("--most", type=int, default=10_000_000, show_default=True, help="Rows of the largest window.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="Also plot it here (needs matplotlib).")
def scaling(most: int, png: Path | None) -> None:
    """Time per input row as the window grows, at a fixed number of matches."""
    from millstream.lab import bench_engine

    _show(bench_engine.scaling(most, png))


@bench.group()
def paper() -> None:
    """The papers' experiments, one command each."""


@paper.command("state-slice")
@click.option("--figure", type=click.Choice(["11", "19"]), help="One figure; all if left out.")
def state_slice(figure: str | None) -> None:
    """State-Slice: savings by equation 4 (Figure 11) and the CPU-optimal chains (Figure 19)."""
    from millstream.lab import paper_state_slice

    figures = {"11": paper_state_slice.figure_11, "19": paper_state_slice.figure_19}
    for number in [figure] if figure else list(figures):
        _show(figures[number]())
        click.echo()


def _show(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
