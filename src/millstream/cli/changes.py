"""The queries of a directory as `millstream query list` shows them, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click

from millstream.cli.words import count
from millstream.compile import compile_script
from millstream.errors import ScriptErrors
from millstream.model.functions import Function
from millstream.model.query import Query
from millstream.model.settings import Settings
from millstream.pipeline.changes import Changes
from millstream.pipeline.directory import Directory
from millstream.pipeline.registry import InForce
from millstream.pipeline.results import count_results, target_of
from millstream.pipeline.sinks import external_of
from millstream.plan import Plan

_MOST_FILES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A query as `list` shows it. `state` is 'running', 'waiting', 'dropping' or 'failed'."""

    name: str
    state: str
    text: str = ""
    window: str = ""
    since: int | None = None
    rows: int | None = None
    results: str = ""
    error: str = ""


def place_of(query: Query, directory: Directory, settings: Settings, base: str) -> str:
    """Where a query's rows can be read."""
    sink = external_of(query, base)
    if sink is not None:
        path = dict(sink.options).get("path")
        return f"{sink.format} sink{f' {path}' if path else ''}"
    return target_of(query, f"{directory.location}/results", settings.results, base).folder


def listed(changes: Changes, functions: Mapping[str, Function]) -> Iterator[Listed]:
    now, expected = changes.current(), changes.expected()
    plan = _plan(expected, functions)
    settings = plan.script.settings if plan else Settings()
    queries = {one.name: one for one in plan.script.queries} if plan else {}
    windows = {one.name: str(one.interval) for one in plan.members} if plan else {}
    for name, one in expected.queries.items():
        running = name in now.queries and now.queries[name] == one
        query, rows, place = queries.get(name), None, ""
        if one.callback:
            place = "callback"
        elif query is not None:
            place = place_of(query, changes.directory, settings, expected.base)
            if external_of(query, expected.base) is None:
                target = target_of(query, f"{changes.directory.location}/results", settings.results, expected.base)
                rows = count_results(target, _MOST_FILES, one.since) if running else 0
        state, since = ("running", one.since) if running else ("waiting", None)
        yield Listed(
            name=name,
            state=state,
            text=one.text,
            window=windows.get(name, "?"),
            since=since,
            rows=rows,
            results=place,
        )
    for name, error in expected.failed.items():
        yield Listed(name=name, state="failed", error=error)
    for name in now.queries:
        if name not in expected.queries:
            ends = now.queries[name]
            yield Listed(name=name, state="dropping", text=ends.text, since=ends.since)


def _plan(in_force: InForce, functions: Mapping[str, Function]) -> Plan | None:
    try:
        return compile_script(in_force.text(), functions=functions)
    except ScriptErrors:
        click.echo("windows and rows are shown with the --functions the pipeline was started with", err=True)
        return None


def row(one: Listed) -> tuple[str, str, str, str, str]:
    """A query as cells of a table."""
    if one.state == "failed":
        return one.name, "stopped", "", "", one.error.partition("\n")[0]
    if one.state == "dropping":
        return one.name, "ends", "", "", "with the next batch"
    since = "next" if one.since is None else str(one.since)
    return one.name, one.window, since, "-" if one.rows is None else count(one.rows), one.results


def as_json(changes: Changes, found: list[Listed]) -> dict[str, object]:
    return {
        "directory": changes.directory.location,
        "running": changes.directory.is_running(),
        "batch": changes.batch(),
        "queries": [{key: getattr(one, key) for key in Listed.__slots__} for one in found],
    }
