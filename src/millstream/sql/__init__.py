"""Text to model, and only that: a script of CREATE STREAM, CREATE QUERY and SET becomes a `Script`.

This room knows `errors` and `model`, and the SQL parser sqlglot. It does not know how a script is planned or run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from millstream.errors import Errors, ScriptError, Where
from millstream.model.functions import Function
from millstream.model.query import Query
from millstream.model.script import Script
from millstream.model.settings import Settings
from millstream.model.stream import Stream
from millstream.sql.nodes import CreateQuery, CreateStream, SetValue
from millstream.sql.query import bind_query
from millstream.sql.report import Report
from millstream.sql.same import same
from millstream.sql.stream import bind_stream
from millstream.sql.text import Statement, Text, split, statements

__all__ = ["Declared", "Statement", "declared", "read", "same", "split"]


def read(sql: str, errors: Errors, functions: Mapping[str, Function] | None = None) -> Script:
    """What the script declares, in any order. Invalid statements are reported to `errors` and left out."""
    text = Text(sql)
    parsed = statements(text, errors)
    streams: dict[str, Stream] = {}
    queries: dict[str, Query] = {}
    named: set[str] = set()
    settings = Settings()
    unusable = set(parsed.broken_streams)
    for node in parsed.nodes:
        report = Report(text, errors, node.this.name if isinstance(node, CreateQuery) else None)
        new = _is_new(node, named, report)
        if isinstance(node, CreateStream):
            stream = bind_stream(node, report)
            if stream is None:
                unusable.add(node.this.name.lower())
            else:
                streams.setdefault(stream.name.lower(), stream)
        elif isinstance(node, SetValue) and new:
            settings = _set(settings, node, report)
    for node in parsed.nodes:
        if isinstance(node, CreateQuery) and not _reads(node, unusable - set(streams)):
            query = bind_query(node, streams, functions or {}, text, errors)
            if query is not None:
                queries.setdefault(query.name.lower(), query)
    return Script(tuple(streams.values()), tuple(queries.values()), settings)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a statement declares: its kind ('stream', 'query' or 'set'), the name, and its place in the text."""

    kind: str
    name: str
    where: Where

    @property
    def title(self) -> str:
        return f"{'' if self.kind == 'set' else 'CREATE '}{self.kind.upper()} {self.name}"


def declared(sql: str) -> list[Declared]:
    """What the statements of a text declare, whether or not that is valid; those that do not parse are left out."""
    text = Text(sql)
    found = []
    for node in statements(text, Errors()).nodes:
        kind, name = _kind(node), node.this.name
        found.append(Declared(kind, name, text.where(node, name if kind == "query" else None)))
    return found


def _kind(node: exp.Expr) -> str:
    return "stream" if isinstance(node, CreateStream) else "query" if isinstance(node, CreateQuery) else "set"


def _set(settings: Settings, node: SetValue, report: Report) -> Settings:
    value = node.args["value"]
    try:
        return settings.with_value(node.this.name, value.name)
    except ScriptError as error:
        known = node.this.name.lower() in Settings.__dataclass_fields__
        report(error, value if known else node)
        return settings


def _reads(node: CreateQuery, unusable: set[str]) -> bool:
    """Whether a query reads a stream whose declaration is already reported as wrong."""
    return any(source.this.name.lower() in unusable for source in node.args["sources"])


def _is_new(node: exp.Expr, named: set[str], report: Report) -> bool:
    name, kind = node.this.name, _kind(node).replace("set", "setting")
    if f"{kind} {name.lower()}" in named:
        todo = "Remove one of them." if kind == "setting" else "Rename or remove one."
        report(ScriptError(f'{kind} "{name}" stands twice', f"each {kind} is given once", todo), node)
        return False
    named.add(f"{kind} {name.lower()}")
    return True
