"""`millstream why`: why a pair of rows is or is not in the results of a query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from millstream.cli.script import functions_option, read_functions
from millstream.cli.words import counted
from millstream.engine.arrow import arrow_type
from millstream.engine.expressions import as_array, compile_expr
from millstream.engine.expressions.casts import cast
from millstream.errors import ScriptError, listing
from millstream.model import duration, moments
from millstream.model.expr import Column, Expr, text, walk
from millstream.model.functions import Function
from millstream.model.query import Query, TimeWindow
from millstream.model.stream import Stream
from millstream.model.types import STRING

_PAIR = re.compile(
    r"""\s*(?:"(?P<quoted>[^"]+)"|(?P<name>[^\s=,"]+))\s*=\s*(?P<value>'(?:[^']|'')*'|[^,]*)\s*(?:,|$)"""
)
_FORM = 'a row is written as "column = value, column = value", with at least its time'


@click.command()
@click.argument("directory")
@click.argument("query")
@click.option("--left", required=True, help='A row of the first stream, such as "Id = 7, Ts = 2024-05-31T12:00:00Z".')
@click.option("--right", required=True, help="A row of the second stream.")
@functions_option
def why(directory: str, query: str, left: str, right: str, functions: tuple[str, ...]) -> None:
    """Say why a pair of rows is or is not in the results of QUERY of the pipeline in DIRECTORY.

    Columns that are not given are unknown, and so is what depends on them.
    """
    from millstream.compile import compile_script
    from millstream.pipeline.changes import Changes

    changes, known = Changes.of(directory), read_functions(functions)
    now = changes.current()
    name = changes.known(now, query)
    script = compile_script(now.text(), functions=known).script
    found = next(one for one in script.queries if one.name == name)
    if len(found.sources) != 2 or not isinstance(found.window, TimeWindow):
        raise ScriptError(f"{name} joins {len(found.sources)} streams", "why takes a query of two", "Choose another.")
    rows = [read_row(one, source.stream) for one, source in zip((left, right), found.sources, strict=True)]
    reasons = list(judged(found, rows, known))
    for reason in reasons:
        click.echo(reason.told)
    location = changes.directory.location
    ends = zip(found.sources, rows, strict=True)
    late = [line for source, row in ends for line in in_late(location, source.stream, row)]
    for line in late:
        click.echo(line)
    click.echo(f"added: {name} sees pairs with at least one row of batch {now.queries[name].since} or later")
    click.echo(_verdict(reasons, late))


@dataclass(frozen=True, slots=True)
class Reason:
    """One condition on a pair: whether it holds, None where that depends on columns that are not given."""

    holds: bool | None
    told: str


def _verdict(reasons: list[Reason], late: list[str]) -> str:
    if any(reason.holds is False for reason in reasons):
        return "so the pair is not in the results"
    if late:
        return "so the pair is not in the results, unless the row was in time for this join"
    if any(reason.holds is None for reason in reasons):
        return "so it depends on the columns that are not given"
    return "so the pair is in the results, if both rows were read and one of them came after the query was added"


def read_row(given: str, stream: Stream) -> dict[str, pa.Scalar]:
    """The values of a row by column, in the declared types."""
    found: dict[str, pa.Scalar] = {}
    position = 0
    while position < len(given):
        pair = _PAIR.match(given, position)
        if pair is None:
            raise ScriptError(f"'{given}' is no row of {stream.name}", _FORM, "Correct it.")
        position = pair.end()
        column = stream.column(pair["quoted"] or pair["name"])
        value = pair["value"].strip()
        if value[:1] == "'":
            value = value[1:-1].replace("''", "'")
        try:
            made = cast(STRING, column.type)(pa.array([None if value.upper() == "NULL" else value], pa.string()))
        except ValueError as error:
            raise ScriptError(f"{column.name}: {error}", f"it is {column.type}", "Correct the value.") from None
        found[column.name] = made[0]
    if stream.time not in found or not found[stream.time].is_valid:
        names = [column.name for column in stream.columns]
        valid = f"{_FORM}; its columns are {listing(names)}"
        raise ScriptError(f"the row of {stream.name} has no {stream.time}", valid, "Add it.")
    return found


def judged(query: Query, rows: list[dict[str, pa.Scalar]], functions: Mapping[str, Function]) -> Iterator[Reason]:
    """Every condition of the query on these rows, in the order time, key, selections, residual."""
    left, right = (source.stream.time for source in query.sources)
    times = [int(row[time].value) for row, time in zip(rows, (left, right), strict=True)]
    if isinstance(query.window, TimeWindow):
        (bound,) = query.window.bounds
        apart = times[bound.right] - times[bound.left]
        inside = bound.interval.lo <= apart < bound.interval.hi
        names = [query.sources[one].alias for one in (bound.right, bound.left)]
        yield Reason(
            inside,
            f"window: {names[0]} comes {duration.text(apart)} after {names[1]}, {_in(inside)} {bound.interval}",
        )
    for key in query.keys:
        one, other = (_value(side, rows, functions) for side in (key.left, key.right))
        same = None if one is None or other is None else _same(one, other, arrow_type(key.type))
        shown = " and ".join("?" if side is None else str(side.as_py()) for side in (one, other))
        yield Reason(same, f"key: {_text(key.left, query)} = {_text(key.right, query)} is {_word(same)} ({shown})")
    for kind, conditions in (
        ("selection", [one for selection in query.selections for one in selection]),
        ("condition", list(query.residual)),
    ):
        for condition in conditions:
            value = _value(condition, rows, functions)
            holds = None if value is None else bool(value.as_py())
            shown = "null, which is not true" if value is not None and not value.is_valid else _word(holds)
            yield Reason(holds, f"{kind}: {_text(condition, query)} is {shown}")


def _value(expr: Expr, rows: list[dict[str, pa.Scalar]], functions: Mapping[str, Function]) -> pa.Scalar | None:
    """The value of an expression; None where it reads a column that is not given."""
    used = (node for node in walk(expr) if isinstance(node, Column))
    if any(column.name not in rows[column.source] for column in used):
        return None

    def read(column: Column) -> pa.Array:
        return pa.array([rows[column.source][column.name].as_py()], arrow_type(column.type))

    return as_array(compile_expr(expr, functions)(read), 1, arrow_type(expr.type))[0]


def _same(one: pa.Scalar, other: pa.Scalar, kind: pa.DataType) -> bool:
    return bool(one.is_valid and other.is_valid and pc.equal(one.cast(kind), other.cast(kind)).as_py())


def in_late(location: str, stream: Stream, row: Mapping[str, pa.Scalar]) -> Iterator[str]:
    """Rows of a stream in `late/` with the given values, with the reason."""
    from millstream.pipeline.results import late_files, newest_late

    folder = f"{location}/late/{stream.name}"
    names = late_files(folder)
    if not names:
        return
    table: Any = newest_late(folder, names, 1 << 62)
    for name, value in row.items():
        column = table.column(name)
        table = table.filter(pc.equal(column, value.cast(column.type)) if value.is_valid else pc.is_null(column))
    told = next(name for name in reversed(table.column_names) if name.endswith("_reason"))
    for reason, number in Counter(table.column(told).to_pylist()).items():
        time = moments.text(row[stream.time].value)
        yield f"late: {counted(number, 'row')} of {stream.name} at {time} with these values is in late/: {reason}"


def _text(expr: Expr, query: Query) -> str:
    return text(expr, lambda column: f"{query.sources[column.source].alias}.{column.name}")


def _in(inside: bool) -> str:
    return "inside" if inside else "outside"


def _word(holds: bool | None) -> str:
    return "unknown: a column is not given" if holds is None else "true" if holds else "false"
