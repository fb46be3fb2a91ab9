"""WINDOW clauses and interval predicates to bounds on time differences.

Interval predicates are recognised as linear forms: any comparison that comes to `T_i - T_j <= constant`, however it
is written, is a bound; the bounds of all pairs are then closed under addition, which also finds contradictions.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream.errors import ScriptError, listing
from millstream.model import duration
from millstream.model.expr import MIRROR, Call, Column, Expr, Literal
from millstream.model.interval import Interval
from millstream.model.query import Bound, RowsWindow, TimeWindow
from millstream.model.types import INTERVAL
from millstream.sql.report import Report
from millstream.sql.scope import Scope

_ORDERED = ("<", "<=", ">", ">=", "=")


class TimeBounds:
    """Upper limits on T_i - T_j, in whole microseconds and inclusive."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._most: dict[tuple[int, int], int] = {}

    def __bool__(self) -> bool:
        return bool(self._most)

    def take(self, predicate: Expr) -> bool:
        """Whether the predicate is a bound on two sources' times; if so, it is recorded."""
        if not (isinstance(predicate, Call) and predicate.op in _ORDERED):
            return False
        left, right = predicate.args
        for op, side, other in ((predicate.op, left, right), (MIRROR[predicate.op], right, left)):
            if isinstance(side, Call) and side.op == "abs" and op in ("<", "<="):
                limit = self._linear(other)
                inside = self._linear(side.args[0])
                if limit is not None and not limit[0] and inside is not None:
                    forms = (_minus(inside, limit), _minus(({}, 0), _plus(inside, limit)))
                    return self._keep(op, forms[0]) and self._keep(op, forms[1])
        forms_of = self._linear(left), self._linear(right)
        if forms_of[0] is None or forms_of[1] is None:
            return False
        return self._keep(predicate.op, _minus(forms_of[0], forms_of[1]))

    def _keep(self, op: str, form: tuple[dict[int, int], int]) -> bool:
        """Records `form op 0`, where the form is T_i - T_j + constant."""
        coefficients, constant = form
        if sorted(coefficients.values()) != [-1, 1]:
            return False
        later = next(source for source, factor in coefficients.items() if factor == 1)
        earlier = next(source for source, factor in coefficients.items() if factor == -1)
        strict = 1 if op in ("<", ">") else 0
        if op in ("<", "<=", "="):
            self._limit(later, earlier, -constant - strict)
        if op in (">", ">=", "="):
            self._limit(earlier, later, constant - strict)
        return True

    def _limit(self, i: int, j: int, most: int) -> None:
        self._most[i, j] = min(most, self._most.get((i, j), most))

    def _linear(self, expr: Expr) -> tuple[dict[int, int], int] | None:
        """Coefficients of the sources' times and a constant, or None where it is something else."""
        if isinstance(expr, Column) and self._scope.is_time(expr):
            return {expr.source: 1}, 0
        if isinstance(expr, Literal) and expr.type == INTERVAL:
            return {}, int(expr.value or 0)
        if isinstance(expr, Call) and expr.op in ("+", "-", "neg"):
            forms = [self._linear(arg) for arg in expr.args]
            known = [form for form in forms if form is not None]
            if len(known) < len(forms):
                return None
            if expr.op == "neg":
                return _minus(({}, 0), known[0])
            return _plus(*known) if expr.op == "+" else _minus(*known)
        return None

    def window(self) -> TimeWindow:
        """A bounded interval for every pair of sources; refuses what is open or empty."""
        count = len(self._scope.sources)
        most = dict(self._most)
        for k in range(count):
            for i in range(count):
                for j in range(count):
                    if len({i, j, k}) == 3 and (i, k) in most and (k, j) in most:
                        through = most[i, k] + most[k, j]
                        most[i, j] = min(through, most.get((i, j), through))
        bounds = []
        for i in range(count):
            for j in range(i + 1, count):
                self._check_bounded(i, j, most)
                bounds.append(Bound(i, j, Interval.between(-most[i, j], most[j, i])))
        return TimeWindow(tuple(bounds))

    def _check_bounded(self, i: int, j: int, most: dict[tuple[int, int], int]) -> None:
        missing = [(a, b) for a, b in ((i, j), (j, i)) if (a, b) not in most]
        if not missing:
            return
        times = {k: f"{self._scope.sources[k].alias}.{self._scope.sources[k].stream.time}" for k in (i, j)}
        if len(missing) == 2:
            raise ScriptError(
                f"nothing bounds {times[i]} and {times[j]} to each other",
                "a join of streams needs a window",
                "Add WINDOW 1 MINUTE, or a BETWEEN on the two time columns.",
            )
        late, early = missing[0]
        raise ScriptError(
            f"{times[late]} may be any time after {times[early]}",
            f"{times[late]} - {times[early]} needs an upper bound",
            f"Add for example AND {times[late]} <= {times[early]} + INTERVAL '5' MINUTE.",
        )


def _plus(a: tuple[dict[int, int], int], b: tuple[dict[int, int], int]) -> tuple[dict[int, int], int]:
    total = {source: a[0].get(source, 0) + b[0].get(source, 0) for source in (*a[0], *b[0])}
    return {source: factor for source, factor in total.items() if factor}, a[1] + b[1]


def _minus(a: tuple[dict[int, int], int], b: tuple[dict[int, int], int]) -> tuple[dict[int, int], int]:
    return _plus(a, ({source: -factor for source, factor in b[0].items()}, -b[1]))


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
    found: dict[int, tuple[int, bool] | None] = {}
    for size in sizes:
        source = size.args.get("source")
        try:
            if source is None:
                raise ScriptError(
                    "several windows, and this one names no source",
                    "WINDOW takes one size, or one per source",
                    "Write WINDOW a 5 MINUTES, b 1 MINUTE.",
                )
            index = scope.source(source.name)
            if index in found:
                raise ScriptError(f'two windows for "{source.name}"', "each source has one", "Remove one of them.")
            found[index] = _length(size, report)
        except ScriptError as error:
            report(error, size)
            return []
    left_out = [source.alias for index, source in enumerate(scope.sources) if index not in found]
    if left_out:
        raise ScriptError(
            f"no window for {listing(left_out)}", "a window per source names every source", "Add the missing one."
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
