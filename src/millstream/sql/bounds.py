"""Interval predicates to bounds on time differences.

Interval predicates are recognised as linear forms: any comparison that comes to `T_i - T_j <= constant`, however it
is written, is a bound; the bounds of all pairs are then closed under addition, which also finds contradictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from millstream.errors import ScriptError
from millstream.model import duration
from millstream.model.expr import MIRROR, Call, Column, Expr, Literal
from millstream.model.interval import Interval, lower_text, upper_text
from millstream.model.query import Bound, TimeWindow
from millstream.model.types import INTERVAL
from millstream.sql.closure import Limits, closed, contradiction, missing
from millstream.sql.report import Report, series
from millstream.sql.scope import Scope

_ORDERED = ("<", "<=", ">", ">=", "=")


@dataclass(frozen=True, slots=True)
class _Limit:
    """The most that a time difference may be, and the condition that says so, which is the n-th of the query."""

    most: int
    part: exp.Expr
    number: int


class TimeBounds:
    """Upper limits on T_i - T_j, in whole microseconds and inclusive."""

    def __init__(self, scope: Scope, report: Report) -> None:
        self._scope = scope
        self._report = report
        self._limits: dict[tuple[int, int], _Limit] = {}
        self._taken = 0

    def __bool__(self) -> bool:
        return bool(self._limits)

    def take(self, predicate: Expr, part: exp.Expr) -> bool:
        """Whether the predicate, a part of the text, is a bound on two sources' times; if so, it is recorded."""
        if not (isinstance(predicate, Call) and predicate.op in _ORDERED):
            return False
        self._taken += 1
        left, right = predicate.args
        for op, side, other in ((predicate.op, left, right), (MIRROR[predicate.op], right, left)):
            if isinstance(side, Call) and side.op == "abs" and op in ("<", "<="):
                limit = self._linear(other)
                inside = self._linear(side.args[0])
                if limit is not None and not limit[0] and inside is not None:
                    forms = (_minus(inside, limit), _minus(({}, 0), _plus(inside, limit)))
                    return self._keep(op, forms[0], part) and self._keep(op, forms[1], part)
        forms_of = self._linear(left), self._linear(right)
        if forms_of[0] is None or forms_of[1] is None:
            return False
        return self._keep(predicate.op, _minus(forms_of[0], forms_of[1]), part)

    def _keep(self, op: str, form: tuple[dict[int, int], int], part: exp.Expr) -> bool:
        """Records `form op 0`, where the form is T_i - T_j + constant."""
        coefficients, constant = form
        if sorted(coefficients.values()) != [-1, 1]:
            return False
        later = next(source for source, factor in coefficients.items() if factor == 1)
        earlier = next(source for source, factor in coefficients.items() if factor == -1)
        strict = 1 if op in ("<", ">") else 0
        if op in ("<", "<=", "="):
            self._limit((later, earlier), -constant - strict, part)
        if op in (">", ">=", "="):
            self._limit((earlier, later), constant - strict, part)
        return True

    def _limit(self, pair: tuple[int, int], most: int, part: exp.Expr) -> None:
        if pair not in self._limits or most < self._limits[pair].most:
            self._limits[pair] = _Limit(most, part, self._taken)

    def _linear(self, expr: Expr) -> tuple[dict[int, int], int] | None:
        """Coefficients of the sources' times and a constant, or None where it is something else."""
        if isinstance(expr, Column) and self._scope.is_time(expr):
            return {expr.source: 1}, 0
        if isinstance(expr, Literal) and expr.type == INTERVAL and isinstance(expr.value, int):
            return {}, expr.value
        if isinstance(expr, Call) and expr.op in ("+", "-", "neg"):
            forms = [self._linear(arg) for arg in expr.args]
            known = [form for form in forms if form is not None]
            if len(known) < len(forms):
                return None
            if expr.op == "neg":
                return _minus(({}, 0), known[0])
            return _plus(*known) if expr.op == "+" else _minus(*known)
        return None

    def window(self, refs: Sequence[exp.Expr]) -> TimeWindow | None:
        """A bounded interval for every pair of the sources in FROM, or None after reporting what is open or empty."""
        count = len(self._scope.sources)
        limits = {pair: limit.most for pair, limit in self._limits.items()}
        least = closed(limits, count)
        if least is None:
            self._report_contradiction(contradiction(limits, count))
            return None
        pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
        if not limits:
            self._report_nothing(refs[0])
        elif any((i, j) not in least or (j, i) not in least for i, j in pairs):
            self._report_missing(missing(limits, count, 5 * duration.MINUTE), refs)
        else:
            far = max(least, key=lambda pair: (abs(least[pair]), pair))
            if abs(least[far]) < duration.LONGEST:
                return TimeWindow(tuple(Bound(i, j, Interval.between(-least[i, j], least[j, i])) for i, j in pairs))
            found = " may be ".join(self._bound(*far, least[far]))
            error = ScriptError(found, "times reach about 146,000 years", "Use a shorter time.")
            self._report(error, self._limits[far].part if far in self._limits else refs[max(far)])
        return None

    def _time(self, source: int) -> str:
        return f"{self._scope.sources[source].alias}.{self._scope.sources[source].stream.time}"

    def _difference(self, i: int, j: int) -> str:
        return f"{self._time(i)} - {self._time(j)}"

    def _bound(self, i: int, j: int, most: int) -> tuple[str, str]:
        """`T_i - T_j <= most` as a difference and its bound; the source that FROM names first is subtracted."""
        if i > j:
            return self._difference(i, j), upper_text(most)
        return self._difference(j, i), lower_text(-most)

    def _report_contradiction(self, cycle: Sequence[int]) -> None:
        """At the last condition of the cycle: the ones before it hold together."""
        steps = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        last = max(steps, key=lambda pair: self._limits[pair].number)
        at = steps.index(last)
        others = [*steps[at + 1 :], *steps[:at]]
        valid = "the lower bound must not lie above the upper one"
        difference, bound = self._bound(*last, self._limits[last].most)
        _, against = self._bound(last[1], last[0], sum(self._limits[pair].most for pair in others))
        if len(others) == 1:
            lower, upper = (against, bound) if last[0] > last[1] else (bound, against)
            found = f"{difference} would be {lower} and {upper}"
            error = ScriptError(found, valid, "Swap the bounds or widen one of them.")
        else:
            through = series([self._time(i) for i, _ in others[1:]], "and")
            each = [" is ".join(self._bound(*pair, self._limits[pair].most)) for pair in others]
            found = f"{difference} would be {bound}, but {against} through {through}, where {series(each, 'and')}"
            error = ScriptError(found, valid, "Widen or remove one of these bounds.")
        self._report(error, self._limits[last].part)

    def _report_nothing(self, first: exp.Expr) -> None:
        times = [self._time(source) for source in range(len(self._scope.sources))]
        columns = "the two time columns" if len(times) == 2 else "the time columns of each two"
        error = ScriptError(
            f"nothing bounds {series(times, 'and')} to each other",
            "a join of streams needs a window",
            f"Add WINDOW 1 MINUTE, or a BETWEEN on {columns}.",
        )
        self._report(error, first)

    def _report_missing(self, limits: Limits, refs: Sequence[exp.Expr]) -> None:
        for (i, j), most in limits.items():
            late, early = self._time(i), self._time(j)
            minutes = f"INTERVAL '{most // duration.MINUTE}' MINUTE"
            if (j, i) in self._limits:
                error = ScriptError(
                    f"{late} may be any time after {early}",
                    f"{late} - {early} needs an upper bound",
                    f"Add for example AND {late} <= {early} + {minutes}.",
                )
                self._report(error, self._limits[j, i].part)
            elif i > j:
                error = ScriptError(
                    f"nothing bounds {early} and {late} to each other, not even through other streams",
                    "a join of streams bounds the times of every two",
                    f"Add for example AND {late} BETWEEN {early} AND {early} + {minutes}.",
                )
                self._report(error, refs[i])


def _plus(a: tuple[dict[int, int], int], b: tuple[dict[int, int], int]) -> tuple[dict[int, int], int]:
    total = {source: a[0].get(source, 0) + b[0].get(source, 0) for source in (*a[0], *b[0])}
    return {source: factor for source, factor in total.items() if factor}, a[1] + b[1]


def _minus(a: tuple[dict[int, int], int], b: tuple[dict[int, int], int]) -> tuple[dict[int, int], int]:
    return _plus(a, ({source: -factor for source, factor in b[0].items()}, -b[1]))
