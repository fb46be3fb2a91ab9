"""`run`: a script on rows in memory, batch by batch, to a table per query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from millstream.engine.backlog import Budget
from millstream.errors import ScriptError
from millstream.model.functions import Function
from millstream.testing.session import Rows, Session


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
    """The results of every query of the script for these rows.

    The rows of a stream are a table, a list of dicts, or a list of those: then each is a batch of its own. Otherwise
    they are cut into `batches` parts of equal length. With a budget, each batch defers the work that exceeds it; on
    Spark the budget is the setting of that name. The runner is the engine in this process, or Spark.
    """
    if runner not in ("engine", "spark"):
        raise ScriptError(f"runner = '{runner}'", "the runner is 'engine' or 'spark'", "Choose one.")
    if batches < 1:
        raise ScriptError(f"batches = {batches}", "there is at least one batch", "Give a positive number.")
    cut = {name: _cut(given, batches) for name, given in rows.items()}
    if runner == "spark":
        from millstream.testing.on_spark import run_on_spark  # loads Spark only where it is used

        return run_on_spark(script, cut, functions=functions, settings=settings)
    session = Session(script, functions=functions, settings=settings)
    for number in range(max((len(parts) for parts in cut.values()), default=0)):
        session.feed({name: parts[number] for name, parts in cut.items() if number < len(parts)}, budget)
    session.close()
    return {query.name: session.results(query.name) for query in session.plan.script.queries}


def _cut(given: Any, batches: int) -> list[Rows]:
    """Explicit batches unchanged, anything else in parts of equal length."""
    if not isinstance(given, pa.Table) and any(not isinstance(item, Mapping) for item in given):
        return list(given)
    ends = [round(i * len(given) / batches) for i in range(batches + 1)]
    if isinstance(given, pa.Table):
        return [given.slice(start, stop - start) for start, stop in pairwise(ends)]
    return [given[start:stop] for start, stop in pairwise(ends)]
