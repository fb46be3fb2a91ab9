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
from millstream.errors import ScriptError
from millstream.model import duration
from millstream.model.functions import Function

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
        tables = {
            name: given
            if isinstance(given, pa.Table)
            else pa.Table.from_pylist(list(given), schema=arrow_schema(streams[name]))
            for name, given in (rows or {}).items()
        }
        self.engine.feed(tables, budget, self._now)

    def advance(self, length: str) -> None:
        """Moves the clock on, by '5 seconds' for example."""
        self._now += duration.parse(length)

    def change(self, script: str) -> None:
        """Another script from the next batch on; queries that stay keep their state."""
        self.plan = compile_script(script, functions=self._functions, settings=self._settings)
        self.engine.change(self.plan)

    def close(self) -> None:
        """Finishes what is deferred and lets out what is held."""
        self.engine.close()

    def results(self, query: str) -> pa.Table:
        """The rows a query has given so far."""
        declared = {one.name: one for one in self.plan.script.queries}
        if query not in declared:
            raise ScriptError(f'no query "{query}"', f"the queries are {', '.join(declared)}", "Use one of these.")
        fields = [pa.field(output.name, arrow_type(output.expr.type)) for output in declared[query].outputs]
        return pa.Table.from_batches(self._found.get(query, []), schema=pa.schema(fields))

    @property
    def late(self) -> list[Late]:
        return self.engine.late
