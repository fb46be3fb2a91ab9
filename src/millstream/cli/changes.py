"""Changes to the queries of a directory, and what its queries are, without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click

from millstream import sql
from millstream.cli.script import compile_text
from millstream.cli.words import count
from millstream.compile import compile_script
from millstream.errors import ScriptError, ScriptErrors, Where, did_you_mean, listing
from millstream.model.functions import Function
from millstream.model.query import Query
from millstream.model.settings import Settings
from millstream.pipeline import manifest as manifests
from millstream.pipeline.directory import Directory
from millstream.pipeline.registry import InForce, Registry
from millstream.pipeline.results import count_results, target_of
from millstream.pipeline.sinks import external_of
from millstream.plan import Plan

_POLL_SECONDS = 0.05
_MOST_FILES = 2_000


@dataclass(frozen=True)
class Changes:
    """The way to change what runs in a directory: through its inbox, which the next batch empties."""

    directory: Directory
    registry: Registry

    @classmethod
    def of(cls, place: str) -> Changes:
        directory = Directory.at(place)
        if not directory.exists():
            raise ScriptError(
                "no pipeline has been here",
                "a directory is what `millstream run` was given as --directory, or state/<name of the script>",
                "Check the path, or run a script first.",
                Where(file=place),
            )
        return cls(directory, Registry(directory.files.below("registry")))

    def in_force(self) -> InForce:
        return self.registry.in_force()

    def expected(self) -> InForce:
        """What will be in force once the inbox is empty."""
        found = self.in_force()
        for _, entry in self.registry.waiting():
            found = found.after(entry)
        return found

    def batch(self) -> int:
        last = manifests.latest(self.directory.files.below("manifest"))
        return last.batch if last else 0

    def add(self, text: str, name: str, functions: Mapping[str, Function]) -> dict[str, str]:
        """Asks for the queries of a text, once all are known to be good; the ticket of each."""
        expected = self.expected()
        before = expected.text() if expected.script else ""
        compile_text(text, name, dict(functions), before=before, base=expected.base)
        statements = sql.split(text)
        others = [one for one in statements if one.kind != "query"]
        if others or not statements:
            found = f"{others[0].kind.upper()} {others[0].name}" if others else "no statement"
            raise ScriptError(
                found,
                "streams and settings stay as the pipeline was started; CREATE QUERY can be added",
                "Give CREATE QUERY statements alone.",
                Where(file=name),
            )
        return {one.name: self.registry.ask("add", one.name, one.text) for one in statements}

    def drop(self, name: str) -> str:
        known = {one.lower(): one for one in self.expected().queries}
        if name.lower() not in known:
            todo = did_you_mean(name, known.values(), "Use one of these.")
            raise ScriptError(
                f'no query "{name}"',
                f"the queries are {listing(known.values()) or 'none'}",
                todo,
                Where(file=self.directory.place),
            )
        return self.registry.ask("drop", known[name.lower()])

    def outcome(self, ticket: str, name: str) -> str:
        """What became of it, in words; waits for a running pipeline to take it up."""
        while self.registry.is_waiting(ticket):
            if not self.directory.is_running():
                return "waits; it takes effect when the pipeline is started next"
            time.sleep(_POLL_SECONDS)
        why = self.registry.refusal(ticket)
        if why is not None:
            raise ScriptError(f"not applied: {why}", "nothing has changed", "Correct it and ask again.")
        now = self.in_force()
        known = now.find(name)
        since = now.changed_at[-1] if known is None else now.queries[known].since
        return f"{'dropped' if known is None else 'in force'} from batch {since} on"


@dataclass(frozen=True, slots=True)
class Listed:
    """A query as `list` shows it. `state` is 'running', 'waiting' or 'failed'."""

    name: str
    state: str
    text: str = ""
    window: str = ""
    since: int | None = None
    rows: int | None = None
    results: str = ""
    error: str = ""


def place_of(query: Query, directory: Directory, settings: Settings, base: str) -> str:
    """Where a query's rows can be looked at."""
    sink = external_of(query, base)
    if sink is not None:
        path = dict(sink.options).get("path")
        return f"{sink.format} sink{f' {path}' if path else ''}"
    return target_of(query, f"{directory.place}/results", settings.results, base).folder


def listed(changes: Changes, functions: Mapping[str, Function]) -> Iterator[Listed]:
    now, expected = changes.in_force(), changes.expected()
    plan = _plan(expected, functions)
    settings = plan.script.settings if plan else Settings()
    queries = {one.name: one for one in plan.script.queries} if plan else {}
    windows = {one.name: str(one.interval) for one in plan.members} if plan else {}
    for name, one in expected.queries.items():
        running = name in now.queries and now.queries[name] == one
        query, rows, place = queries.get(name), None, ""
        if query is not None:
            place = place_of(query, changes.directory, settings, expected.base)
            if external_of(query, expected.base) is None:
                target = target_of(query, f"{changes.directory.place}/results", settings.results, expected.base)
                rows = count_results(target, _MOST_FILES, one.since) if running else 0
        state, since = ("running", one.since) if running else ("waiting", None)
        yield Listed(name, state, one.text, windows.get(name, "?"), since, rows, place)
    for name, error in expected.failed.items():
        yield Listed(name, "failed", error=error)
    for name in now.queries:
        if name not in expected.queries:
            yield Listed(name, "dropping", now.queries[name].text, since=now.queries[name].since)


def _plan(in_force: InForce, functions: Mapping[str, Function]) -> Plan | None:
    try:
        return compile_script(in_force.text(), functions=functions)
    except ScriptErrors:
        click.echo("windows and rows are shown with the --functions the pipeline was started with", err=True)
        return None


def row(one: Listed) -> tuple[str, str, str, str, str]:
    """A query as cells of a table."""
    if one.state == "failed":
        return one.name, "stopped", "", "", one.error
    if one.state == "dropping":
        return one.name, "ends", "", "", "with the next batch"
    since = "next" if one.since is None else str(one.since)
    return one.name, one.window, since, "-" if one.rows is None else count(one.rows), one.results


def as_json(changes: Changes, found: list[Listed]) -> dict[str, object]:
    return {
        "directory": changes.directory.place,
        "running": changes.directory.is_running(),
        "batch": changes.batch(),
        "queries": [{key: getattr(one, key) for key in Listed.__slots__} for one in found],
    }
