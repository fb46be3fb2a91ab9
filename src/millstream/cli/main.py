"""The commands."""

from __future__ import annotations

from dataclasses import asdict

import click

from millstream import __version__
from millstream.cli.bench import bench
from millstream.cli.explain import explain
from millstream.cli.query import query
from millstream.cli.rescale import rescale
from millstream.cli.run import run
from millstream.cli.script import ErrorsShown, compile_file, read_script, script_options
from millstream.cli.status import late, results, status
from millstream.cli.why import why
from millstream.cli.words import counted
from millstream.pipeline.preflight import unchecked
from millstream.plan import calibration


@click.group(cls=ErrorsShown, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Many window joins over the same streams, run as one shared stream of work on Spark."""


@main.command()
@script_options
@click.option("--read", is_flag=True, help="Open the sources too, compare their columns, and read a sample of rows.")
def check(file: str, functions: tuple[str, ...], settings: tuple[str, ...], read: bool) -> None:
    """Say whether FILE is a valid script, and if not, everything that is wrong with it."""
    plan = compile_file(file, functions, settings)
    slices = sum(len(chain.slices) for chain in plan.chains)
    counts = ((len(plan.script.streams), "stream"), (len(plan.members), "query"), (len(plan.chains), "chain"))
    words = [counted(count, word) for count, word in (*counts, (slices, "slice"))]
    click.echo(f"{file}: ok, {', '.join(words)}")
    for line in unchecked(plan.script):
        click.echo(line)
    if read:
        from millstream.cli.reading import read_sources

        read_sources(plan.script, read_script(file), file)


@main.command()
@click.option("--directory", metavar="DIR", help="Where everything goes.  [default: a new temporary one, which stays]")
@click.option(
    "--seconds", type=click.FloatRange(4, 600), default=30, show_default=True, help="How long readings are written."
)
def demo(directory: str | None, seconds: float) -> None:
    """Run an example on Spark: seven window joins over two sensor streams, and one more added half-way."""
    from millstream.cli.demo import run_demo

    run_demo(directory, seconds)


@main.command()
def prepare() -> None:
    """Make Spark start faster: keep the classes it loads in an archive (once, about a minute, 200 MB)."""
    from millstream.pipeline.java import make_archive

    click.echo("running a small pipeline and writing down what Java loads ...")
    path = make_archive()
    click.echo(f"kept in {path} ({path.stat().st_size / 1e6:.0f} MB); every session on this machine starts from it")


@main.command()
def calibrate() -> None:
    """Measure what the engine's steps cost on this machine and keep it for `explain` and `run`."""
    from millstream.lab.calibrate import measure

    click.echo("running the engine on plans that differ in their windows and slices ...")
    measured = measure()
    for name, nanoseconds in asdict(measured).items():
        click.echo(f"{name:<16} {nanoseconds:8.2f} ns")
    click.echo(f"kept in {calibration.save(measured)}")


for command in (bench, explain, late, query, rescale, results, run, status, why):
    main.add_command(command)
