"""WINDOW clauses and lengths of time."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream.errors import ScriptError
from millstream.model import duration
from millstream.model.interval import Interval
from millstream.model.query import Bound, RowsWindow, TimeWindow
from millstream.sql.report import Report, series
from millstream.sql.scope import Scope


def window_clause(clause: exp.Expr, scope: Scope, report: Report) -> TimeWindow | RowsWindow | None:
    """A WINDOW clause over the sources of a query, or None after reporting its errors."""
    sizes: Sequence[exp.Expr] = clause.args["sizes"]
    if len(sizes) == 1 and sizes[0].args.get("source") is None:
        length = _length(sizes[0], report)
        lengths = [length] * len(scope.sources)
    else:
        lengths = _per_source(sizes, scope, report)
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths) or not known:
        return None
    if len({is_rows for _, is_rows in known}) > 1:
        raise ScriptError(
            "a window in ROWS beside one in time", "a query's windows are all of one kind", "Use one kind."
        )
    amounts = [amount for amount, _ in known]
    if known[0][1]:
        return RowsWindow(tuple(amounts))
    return TimeWindow(
        tuple(
            Bound(i, j, Interval.windows(amounts[i], amounts[j]))
            for i in range(len(amounts))
            for j in range(i + 1, len(amounts))
        )
    )


def _per_source(sizes: Sequence[exp.Expr], scope: Scope, report: Report) -> list[tuple[int, bool] | None]:
    nameless = next((size for size in sizes if size.args.get("source") is None), None)
    if nameless is not None:
        error = ScriptError(
            "several windows, and this one names no source",
            "WINDOW takes one size, or one per source",
            "Write WINDOW a 5 MINUTES, b 1 MINUTE.",
        )
        raise report.placed(error, nameless)
    found: dict[int, tuple[int, bool] | None] = {}
    before = report.count
    for size in sizes:
        name = size.args["source"].name
        try:
            index = scope.source(name)
            if index in found:
                raise ScriptError(f'two windows for "{name}"', "each source has one", "Remove one of them.")
            found[index] = _length(size, report)
        except ScriptError as error:
            report(error, size)
    if report.count > before:
        return []
    left_out = [source.alias for index, source in enumerate(scope.sources) if index not in found]
    if left_out:
        raise ScriptError(
            f"no window for {series(left_out, 'and')}",
            "a window per source names every source",
            f"Add for example {', '.join(f'{alias} 1 MINUTE' for alias in left_out)}.",
        )
    return [found[index] for index in range(len(scope.sources))]


def _length(size: exp.Expr, report: Report) -> tuple[int, bool] | None:
    """Microseconds, or a number of rows and True; None after reporting an error."""
    length = size.this
    amount, unit = length.this, length.args.get("unit")
    try:
        if unit is not None and unit.name.upper() in ("ROW", "ROWS"):
            rows = _rows(amount.name)
            RowsWindow((rows,))
            return rows, True
        microseconds = microseconds_of(length, report)
        Interval.window(microseconds)
        return microseconds, False
    except ScriptError as error:
        report(error, length)
        return None


def _rows(amount: str) -> int:
    if not amount.removeprefix("-").isdecimal() or len(amount) > 15:
        raise ScriptError(f"a window of {amount} ROWS", "rows are counted in whole numbers", "Give a whole number.")
    return int(amount)


def in_days(length: exp.Expr) -> bool:
    """Whether a valid length is written in days or weeks."""
    unit = length.args.get("unit")
    names = [unit.name] if unit is not None else duration.units(length.this.name)
    return all(duration.unit(name) % duration.DAY == 0 for name in names)


def microseconds_of(length: exp.Expr, report: Report) -> int:
    """A number and a unit, or text with both."""
    amount, unit = length.this, length.args.get("unit")
    if unit is not None:
        try:
            duration.unit(unit.name)
        except ScriptError as error:
            raise report.placed(error, unit) from None
        return duration.of(amount.name, unit.name)
    if amount.is_string:
        return duration.parse(amount.name)
    raise ScriptError(f"{amount.name} has no unit", "a length is a number and a unit", f"Write {amount.name} SECONDS.")
