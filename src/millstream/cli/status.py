"""`millstream status`, `results` and `late`: a pipeline seen from outside, running or stopped, without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import click

from millstream.cli.script import functions_option, read_functions
from millstream.cli.words import count, counted, near, seconds, share, size

_MOST_FILES = 2_000


@click.command()
@click.argument("directory")
@click.option("--json", "for_machines", is_flag=True, help="For machines.")
def status(directory: str, for_machines: bool) -> None:
    """Show whether the pipeline in DIRECTORY runs, since when, and how far it is.

    Exit code 0 where it runs and no query is stopped by an error, else 3.
    """
    from millstream.pipeline.changes import Changes

    found = status_json(Changes.of(directory))
    if for_machines:
        click.echo(json.dumps(found, indent=1))
    else:
        for line in status_lines(found, time.time()):
            click.echo(line)
    if not found["running"] or found["failed"]:
        raise click.exceptions.Exit(3)


def status_json(changes: Any) -> dict[str, Any]:
    from millstream.pipeline import manifest as manifests
    from millstream.pipeline.status import last_status

    directory = changes.directory
    last, told, now = manifests.latest(directory.files.below("manifest")), last_status(directory.files), time.time()
    in_force = changes.current()
    delays = _delays(in_force.declarations)
    segments = [one for slot in last.slots.values() for one in slot.shard.segments] if last else []
    running = directory.is_running()
    shed = last.shed if last else {}
    return {
        "directory": directory.location,
        "running": running,
        "process": told.get("process") if running else None,
        "started": told.get("started"),
        "batch": last.batch if last else 0,
        "committed": told.get("last", {}).get("committed"),
        "streams": {
            name: {
                "greatest_us": greatest,
                "watermark_us": greatest - delays.get(name, 0),
                "lag_seconds": now - greatest / 1e6,
                "rows_in": told.get("rows_in", {}).get(name, 0),
                "late": told.get("late", {}).get(name, 0),
                "shed": told.get("shed", {}).get(name, 0),
                "shed_ever": shed.get("rows", {}).get(name, 0),
            }
            for name, greatest in sorted((last.greatest if last else {}).items())
        },
        "completeness": {name: shed.get("completeness", {}).get(name, 1.0) for name in in_force.queries},
        "completeness_by": shed.get("completeness_by", ""),
        "queries": {name: told.get("rows_out", {}).get(name, 0) for name in in_force.queries},
        "state_rows": sum(one.rows for one in segments),
        "state_bytes": sum(one.nbytes for one in segments),
        "deferred": last.deferred if last else 0,
        "owing": last.owing if last else 0,
        "failed": dict(in_force.failed),
        "warnings": told.get("warnings", []),
    }


def _delays(declarations: tuple[str, ...]) -> dict[str, int]:
    from millstream import sql
    from millstream.errors import Errors

    text = ";\n".join(declarations)
    return {stream.name: stream.delay for stream in sql.read(text, Errors()).streams} if text else {}


def status_lines(found: dict[str, Any], now: float) -> Iterator[str]:
    """The status for people to read."""
    from millstream.model import moments

    state = f"running (process {found['process'] or '?'})" if found["running"] else "not running"
    since = f", started {_ago(now - found['started'])} ago" if found["started"] else ""
    yield f"{near(found['directory'])}: {state}{since}"
    yield from (f"warning: {warning}" for warning in found["warnings"])
    committed = f", committed {_ago(now - found['committed'])} ago" if found["committed"] else ""
    yield f"batch {count(found['batch'])}{committed}" if found["batch"] else "no batch has been committed"
    for name, one in found["streams"].items():
        late = f", {count(one['late'])} late or unreadable" if one["late"] else ""
        shed = f", {count(one['shed_ever'])} shed since the beginning" if one["shed_ever"] else ""
        yield (
            f"stream {name}: {count(one['rows_in'])} rows in{late}{shed}, up to {moments.text(one['greatest_us'])},"
            f" watermark {moments.text(one['watermark_us'])}"
        )
    for name, rows in found["queries"].items():
        short = f", about {share(found['completeness'][name])} complete" if found["completeness_by"] else ""
        yield f"query {name}: {counted(rows, 'row')} out{short}"
    if found["completeness_by"]:
        yield f"completeness is estimated {found['completeness_by']}"
    waiting = f", {counted(found['deferred'], 'unit')} deferred" if found["deferred"] else ""
    waiting += f", {counted(found['owing'], 'group')} owing results" if found["owing"] else ""
    yield f"state {count(found['state_rows'])} rows, {size(found['state_bytes'])}{waiting}"
    for name, error in found["failed"].items():
        first, *rest = error.splitlines() or [""]
        yield f"query {name} is stopped: {first}"
        yield from (f"  {line}" for line in rest)


def _ago(length: float) -> str:
    return seconds(max(0.0, length))


@click.command()
@click.argument("directory")
@click.argument("query")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many rows at most.")
@click.option("--json", "for_machines", is_flag=True, help="A line of JSON for each row.")
@functions_option
def results(directory: str, query: str, limit: int, for_machines: bool, functions: tuple[str, ...]) -> None:
    """Show rows of QUERY of the pipeline in DIRECTORY: those of the last batches, the newest batch last."""
    from millstream.compile import compile_script
    from millstream.errors import ScriptError
    from millstream.pipeline.changes import Changes
    from millstream.pipeline.results import newest_results, target_of
    from millstream.pipeline.sinks import external_of

    changes = Changes.of(directory)
    now = changes.current()
    name = changes.known(now, query)
    script = compile_script(now.text(), functions=read_functions(functions)).script
    found = next(one for one in script.queries if one.name == name)
    if now.queries[name].callback or external_of(found, now.base) is not None:
        raise ScriptError(
            f"the rows of {name} go to a sink",
            "results are those in Parquet files",
            "Look where the sink has put them.",
        )
    target = target_of(found, f"{changes.directory.location}/results", script.settings.results, now.base)
    show(newest_results(target, found, now.queries[name].since, limit), for_machines=for_machines)


@click.command()
@click.argument("directory")
@click.argument("stream", required=False)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many rows at most.")
def late(directory: str, stream: str | None, limit: int) -> None:
    """Show how many rows of each stream of the pipeline in DIRECTORY are late or unreadable, and why; of STREAM the
    newest of them too.
    """
    from millstream import sql
    from millstream.errors import Errors, ScriptError, did_you_mean, listing
    from millstream.pipeline import manifest as manifests
    from millstream.pipeline.changes import Changes
    from millstream.pipeline.late_watch import evidence_in
    from millstream.pipeline.likely import in_words, likely_reason
    from millstream.pipeline.results import late_files, newest_late

    changes = Changes.of(directory)
    streams = {one.name: one for one in sql.read(";\n".join(changes.current().declarations), Errors()).streams}
    name = next((one for one in streams if stream is not None and one.lower() == stream.lower()), None)
    if stream is not None and name is None:
        todo = did_you_mean(stream, streams, "Use one of these.")
        raise ScriptError(f'no stream "{stream}"', f"the streams are {listing(streams)}", todo)
    last = manifests.latest(changes.directory.files.below("manifest"))
    for one in streams.values() if name is None else [streams[name]]:
        folder = f"{changes.directory.location}/late/{one.name}"
        files = late_files(folder)
        greatest = last.greatest.get(one.name) if last else None
        evidence = evidence_in(one, [(folder, file) for file in files[-_MOST_FILES:]], greatest or 0)
        click.echo(f"{one.name}: {in_words(evidence.counts) or 'none late or unreadable'}")
        if evidence.counts:
            click.echo(f"  likely reason: {likely_reason(one, evidence)}")
        if name is not None and files:
            show(newest_late(folder, files, limit), for_machines=False)


def show(table: Any, *, for_machines: bool) -> None:
    """Rows as a table, or as lines of JSON."""
    rows = table.to_pylist()
    if for_machines:
        for row in rows:
            click.echo(json.dumps(row, default=str))
        return
    cells = [table.column_names, *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(table.num_columns)]
    for row in cells:
        click.echo("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
