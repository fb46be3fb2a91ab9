"""`run`: a script on rows in memory, batch by batch, to a table per query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema, arrow_type
from millstream.engine.chain_run import Budget
from millstream.engine.engine import Engine
from millstream.errors import ScriptError
from millstream.model.functions import Function
from millstream.model.stream import Stream
from millstream.plan import Plan

Rows: TypeAlias = "pa.Table | Sequence[Mapping[str, Any]]"
"""Rows of a stream: a table, or dicts."""


def run(
    script: str,
    rows: Mapping[str, Rows | Sequence[Rows]],
    *,
    batches: int = 1,
    runner: str = "engine",
    functions: Mapping[str, Function] | None = None,
    settings: Mapping[str, str] | None = None,
    budget: Budget | None = None,
) -> dict[str, pa.Table]:
    """What every query of the script gives for these rows.

    The rows of a stream are a table, a list of dicts, or a list of those: then each is a batch of its own. Otherwise
    they are cut into `batches` parts of equal length. With a budget, what a batch leaves undone is done later.
    """
    if runner != "engine":
        raise ScriptError(f"runner '{runner}'", "the runner is 'engine'", "Leave it out.")
    plan = compile_script(script, functions=functions, settings=settings)
    found: dict[str, list[pa.RecordBatch]] = {member.name: [] for member in plan.members}
    engine = Engine(plan, lambda name, batch: found[name].append(batch), functions=functions)
    for batch in as_batches(plan, rows, batches):
        engine.feed(batch, budget)
    engine.close()
    return {name: pa.Table.from_batches(parts, schema=_schema(plan, name)) for name, parts in found.items()}


def as_batches(plan: Plan, rows: Mapping[str, Rows | Sequence[Rows]], batches: int) -> list[dict[str, pa.Table]]:
    """Batch by batch, the rows of each stream."""
    streams = {stream.name: stream for stream in plan.script.streams}
    unknown = [name for name in rows if name not in streams]
    if unknown:
        raise ScriptError(f'rows for "{unknown[0]}"', f"the streams are {', '.join(streams)}", "Rename the rows.")
    cut = {name: _cut(streams[name], given, batches) for name, given in rows.items()}
    count = max((len(parts) for parts in cut.values()), default=0)
    return [{name: parts[i] for name, parts in cut.items() if i < len(parts)} for i in range(count)]


def _cut(stream: Stream, given: Any, batches: int) -> list[pa.Table]:
    if not isinstance(given, pa.Table) and any(not isinstance(item, Mapping) for item in given):
        return [_table(stream, part) for part in given]
    table = _table(stream, given)
    ends = [round(i * table.num_rows / batches) for i in range(batches + 1)]
    return [table.slice(start, stop - start) for start, stop in pairwise(ends)]


def _table(stream: Stream, rows: Rows) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=arrow_schema(stream))


def _schema(plan: Plan, name: str) -> pa.Schema:
    (query,) = (query for query in plan.script.queries if query.name == name)
    return pa.schema([pa.field(output.name, arrow_type(output.expr.type)) for output in query.outputs])
