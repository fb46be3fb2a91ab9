"""`millstream bench`: benchmarks against peers and the papers' experiments."""

from __future__ import annotations

import click

from millstream.lab import bench_plan, paper_state_slice

_STATE_SLICE = {"11": paper_state_slice.figure_11, "19": paper_state_slice.figure_19}


@click.group()
def bench() -> None:
    """Measure Millstream, against peers and against the papers."""


@bench.command()
def plan() -> None:
    """How long planning and checking take."""
    for line in bench_plan.report():
        click.echo(line)


@bench.group()
def paper() -> None:
    """The papers' experiments, one command each."""


@paper.command("state-slice")
@click.option("--figure", type=click.Choice(list(_STATE_SLICE)), help="One figure; all if left out.")
def state_slice(figure: str | None) -> None:
    """State-Slice: savings by equation 4 (Figure 11) and the CPU-optimal chains (Figure 19)."""
    for number in [figure] if figure else list(_STATE_SLICE):
        for line in _STATE_SLICE[number]():
            click.echo(line)
        click.echo()
