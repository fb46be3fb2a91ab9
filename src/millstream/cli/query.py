"""`millstream query`: the queries of a directory, whether a pipeline is running in it or not."""

from __future__ import annotations

import json
import sys

import click

from millstream.cli.script import errors_at_their_lines, functions_option, read_functions, read_script


@click.group()
def query() -> None:
    """Add, drop and list the queries of a pipeline, running or stopped."""


@query.command()
@click.argument("directory")
@click.argument("file", type=click.Path(allow_dash=True), default="-")
@functions_option
def add(directory: str, file: str, functions: tuple[str, ...]) -> None:
    """Add the queries of FILE (or of the standard input) to the pipeline in DIRECTORY.

    They see rows from the next batch on, and join them with the state that is there.
    """
    from millstream.pipeline.changes import Changes

    text = sys.stdin.read() if file == "-" else read_script(file)
    changes = Changes.of(directory, read_functions(functions))
    with errors_at_their_lines(text, file):
        found = changes.add(text, file)
    for asked in found:
        click.echo(f"{asked.query}: {changes.outcome(asked)}")


@query.command()
@click.argument("directory")
@click.argument("name")
def drop(directory: str, name: str) -> None:
    """End the query NAME of the pipeline in DIRECTORY. Its results stay."""
    from millstream.pipeline.changes import Changes

    changes = Changes.of(directory)
    click.echo(f"{name}: {changes.outcome(changes.drop(name))}")


@query.command("list")
@click.argument("directory")
@click.option("--json", "for_machines", is_flag=True, help="For machines.")
@functions_option
def list_queries(directory: str, for_machines: bool, functions: tuple[str, ...]) -> None:
    """Show the queries of the pipeline in DIRECTORY: window, first batch, rows; and those stopped by an error."""
    from millstream.cli.changes import as_json, listed, row
    from millstream.pipeline.changes import Changes

    changes = Changes.of(directory)
    found = list(listed(changes, read_functions(functions)))
    if for_machines:
        click.echo(json.dumps(as_json(changes, found), indent=1))
        return
    running = "running" if changes.directory.is_running() else "stopped"
    click.echo(f"{changes.directory.location}: {running}, batch {changes.batch()}")
    rows = [("query", "window", "since batch", "rows", "results"), *(row(one) for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for name, window, since, number, place in rows:
        cells = f"{name:{widths[0]}}  {window:{widths[1]}}  {since:>{widths[2]}}  {number:>{widths[3]}}  {place}"
        click.echo(cells.rstrip())
    for one in found:
        first, *trace = one.error.splitlines() or [""]
        for line in [f"query {one.name} was stopped: {first}", *(f"  {line}" for line in trace)] if trace else ():
            click.echo(line)
