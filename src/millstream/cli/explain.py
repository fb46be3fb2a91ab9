"""`millstream explain`: the shared plan of a script, or of a pipeline with what it has measured."""

from __future__ import annotations

import json
from pathlib import Path

import click

from millstream.cli.script import compile_file, read_functions, script_options
from millstream.errors import ScriptError, Where
from millstream.plan.explain import FORMATS


@click.command()
@script_options
@click.option("--format", "style", type=click.Choice(list(FORMATS)), default="text", show_default=True)
def explain(file: str, functions: tuple[str, ...], settings: tuple[str, ...], style: str) -> None:
    """Show the shared plan of FILE: its slices, whom they serve, what they hold and cost.

    FILE is a script, or the directory of a pipeline, running or stopped. Of a pipeline, the plan in use is shown, and
    what has been measured beside what was assumed.
    """
    if "://" in file or Path(file).is_dir():
        if settings:
            raise ScriptError(
                f"--set {settings[0]}",
                "a directory is explained with the settings it was last run with",
                "Leave it out, or explain the script with it.",
                Where(file=file),
            )
        _explain_directory(file, functions, style)
    else:
        click.echo(FORMATS[style](compile_file(file, functions, settings)))


def _explain_directory(place: str, functions: tuple[str, ...], style: str) -> None:
    from millstream.pipeline.explained import explain_directory
    from millstream.plan.explain.as_json import plan_json
    from millstream.plan.explain.measured import measured_json, measured_text

    found = explain_directory(place, read_functions(functions))
    if style == "json":
        shown = {**plan_json(found.plan), "measured": measured_json(found.plan, found.hinted, found.measured)}
        click.echo(json.dumps(shown, indent=2))
        return
    click.echo(FORMATS[style](found.plan))
    if style == "text":
        click.echo(f"\n{measured_text(found.plan, found.hinted, found.measured)}")
