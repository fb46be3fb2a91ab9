"""A script under test, fed batch by batch, with a clock that moves only when told to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema, arrow_type
from millstream.engine.backlog import Budget
from millstream.engine.engine import Engine
from millstream.engine.judge import Late
from millstream.errors import ScriptError, did_you_mean, listing
from millstream.model import duration
from millstream.model.functions import Function
from millstream.model.stream import Stream

Rows: TypeAlias = "pa.Table | Sequence[Mapping[str, Any]]"
"""Rows of a stream: a table, or dicts."""


class Session:
    """`feed` batches, `advance` the clock (it matters to streams with `idle`), look at `results` and `late`."""

    def __init__(
        self,
        script: str,
        *,
        functions: Mapping[str, Function] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._functions, self._settings = functions, settings
        self.plan = compile_script(script, functions=functions, settings=settings)
        self._now = 0
        self._found: dict[str, list[pa.RecordBatch]] = {}
        self.engine = Engine(self.plan, self._take, functions=functions)

    def _take(self, query: str, rows: pa.RecordBatch) -> None:
        self._found.setdefault(query, []).append(rows)

    def feed(self, rows: Mapping[str, Rows] | None = None, budget: Budget | None = None) -> None:
        """One batch, possibly of no rows."""
        streams = {stream.name: stream for stream in self.plan.script.streams}
        for name in rows or {}:
            if name not in streams:
                known = ", ".join(streams)
                raise ScriptError(f'rows for "{name}"', f"the streams are {known}", "Rename the rows.")
        tables = {name: table_of(streams[name], given) for name, given in (rows or {}).items()}
        self.engine.feed(tables, budget, self._now)

    def advance(self, length: str) -> None:
        """Moves the clock on, by '5 seconds' for example."""
        self._now += duration.parse(length)

    def change(self, script: str) -> None:
        """Another script from the next batch on; queries that stay keep state and results. Streams cannot change."""
        before, plan = self.plan.script, compile_script(script, functions=self._functions, settings=self._settings)
        known = {stream.name.lower(): stream for stream in before.streams}
        for stream in plan.script.streams:
            old = known.get(stream.name.lower(), stream)
            if (old.name, old.columns, old.time) != (stream.name, stream.columns, stream.time):
                raise ScriptError(
                    f"stream {stream.name} is not what it was", "queries may change, streams stay", "Use a new session."
                )
        self.plan = plan
        same = {query.name for query in plan.script.queries if query in before.queries}
        self._found = {name: rows for name, rows in self._found.items() if name in same}
        self.engine.change(self.plan)

    def close(self) -> None:
        """Does all deferred units and releases all held rows."""
        self.engine.close()

    def results(self, query: str) -> pa.Table:
        """The rows of a query since it was added or last changed."""
        declared = {one.name: one for one in self.plan.script.queries}
        if query not in declared:
            raise ScriptError(f'no query "{query}"', f"the queries are {', '.join(declared)}", "Use one of these.")
        fields = [pa.field(output.name, arrow_type(output.expr.type)) for output in declared[query].outputs]
        return pa.Table.from_batches(self._found.get(query, []), schema=pa.schema(fields))

    @property
    def late(self) -> list[Late]:
        return self.engine.late


def table_of(stream: Stream, rows: Rows) -> pa.Table:
    """Rows as a table. Dicts name every column of the stream, in any case of letters."""
    if isinstance(rows, pa.Table):
        return rows
    names = {column.name.lower(): column.name for column in stream.columns}
    return pa.Table.from_pylist([_row(stream, names, row) for row in rows], schema=arrow_schema(stream))


def _row(stream: Stream, names: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, Any]:
    given = {key.lower(): value for key, value in row.items()}
    if given.keys() == names.keys():
        return {names[key]: value for key, value in given.items()}
    known = f"its columns are {listing(names.values())}"
    unknown = sorted(given.keys() - names.keys())
    if unknown:
        todo = did_you_mean(unknown[0], names.values(), "Use one of these.")
        raise ScriptError(f'a row of {stream.name} has a value for "{unknown[0]}"', known, todo)
    missing = next(names[key] for key in names if key not in given)
    raise ScriptError(f'a row of {stream.name} has no "{missing}"', known, "Give it; None is a missing value.")
