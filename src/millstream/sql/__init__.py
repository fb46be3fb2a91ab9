"""Text to model, and only that: a script of CREATE STREAM, CREATE QUERY and SET becomes a `Script`.

This room knows `errors` and `model`, and the SQL parser sqlglot. It does not know how a script is planned or run.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from millstream.errors import Errors, ScriptError
from millstream.model.functions import Function
from millstream.model.query import Query
from millstream.model.script import Script
from millstream.model.settings import Settings
from millstream.model.stream import Stream
from millstream.sql.dialect import CreateQuery, CreateStream, SetValue
from millstream.sql.options import value_of
from millstream.sql.query import bind_query
from millstream.sql.stream import bind_stream
from millstream.sql.text import Text, statements

__all__ = ["read"]


def read(sql: str, errors: Errors, functions: Mapping[str, Function] | None = None) -> Script:
    """What the script declares. Whatever is wrong goes to `errors` and is left out."""
    text = Text(sql)
    parsed = list(statements(text, errors))
    streams: dict[str, Stream] = {}
    queries: dict[str, Query] = {}
    named: set[str] = set()
    settings = Settings()
    unusable: set[str] = set()
    for node in parsed:
        try:
            if isinstance(node, CreateStream | CreateQuery):
                _check_new(node, named)
            if isinstance(node, CreateStream):
                unusable.add(node.this.name.lower())
                streams[node.this.name.lower()] = bind_stream(node)
            elif isinstance(node, SetValue):
                _check_new(node, named)
                settings = settings.with_value(node.this.name, value_of(node.args["value"]))
        except ScriptError as error:
            query = node.this.name if isinstance(node, CreateQuery) else None
            errors.add(error.at(text.where(node, query)))
    unusable -= set(streams)
    for node in parsed:
        if isinstance(node, CreateQuery) and not _reads(node, unusable):
            query = bind_query(node, streams, functions or {}, text, errors)
            if query is not None:
                queries.setdefault(query.name.lower(), query)
    return Script(tuple(streams.values()), tuple(queries.values()), settings)


def _reads(node: CreateQuery, unusable: set[str]) -> bool:
    """Whether a query reads a stream whose declaration is already reported as wrong."""
    return any(table.name.lower() in unusable for table in node.find_all(exp.Table))


def _check_new(node: CreateStream | CreateQuery | SetValue, named: set[str]) -> None:
    kind = {CreateStream: "stream", CreateQuery: "query", SetValue: "setting"}[type(node)]
    name = node.this.name
    if f"{kind} {name.lower()}" in named:
        raise ScriptError(f'{kind} "{name}" stands twice', f"each {kind} is given once", "Rename or remove one.")
    named.add(f"{kind} {name.lower()}")
