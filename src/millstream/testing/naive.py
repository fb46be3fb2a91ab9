"""The naive oracle: nested loops over rows in plain Python, straight from the definition of a query.

Slow on purpose and independent of the engine's code, so that the two can be compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import product
from typing import Any

from millstream.errors import InternalError
from millstream.model.expr import Call, Column, Expr, Literal
from millstream.model.query import Query, TimeWindow
from millstream.model.types import DataType, Family

Row = Mapping[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_COMPARED = ("=", "<>", "<", "<=", ">", ">=")


def naive(query: Query, rows: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """The rows of a query over all rows of its streams, none of them late."""
    return [
        {output.name: value(output.expr, chosen) for output in query.outputs}
        for chosen in product(*(rows.get(source.stream.name, ()) for source in query.sources))
        if _in_window(query, chosen) and all(_holds(condition, chosen) for condition in _conditions(query))
    ]


def _conditions(query: Query) -> list[Expr]:
    selections = [predicate for selection in query.selections for predicate in selection]
    return [*selections, *query.residual]


def _in_window(query: Query, chosen: Sequence[Row]) -> bool:
    if not isinstance(query.window, TimeWindow):
        raise InternalError("the oracle knows windows in time only")
    times = [microseconds(row[source.stream.time]) for row, source in zip(chosen, query.sources, strict=True)]
    for bound in query.window.bounds:
        left, right = times[bound.left], times[bound.right]
        if left is None or right is None or not bound.interval.lo <= right - left < bound.interval.hi:
            return False
    return all(_same(value(key.left, chosen), value(key.right, chosen)) for key in query.keys)


def _same(left: Any, right: Any) -> bool:
    return left is not None and right is not None and _compare(left, right) == 0


def microseconds(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _holds(condition: Expr, chosen: Sequence[Row]) -> bool:
    return value(condition, chosen) is True


def value(expr: Expr, chosen: Sequence[Row]) -> Any:
    """An expression for one row of each source; None is null."""
    if isinstance(expr, Column):
        return chosen[expr.source][expr.name]
    if isinstance(expr, Literal):
        return _constant(expr)
    if expr.op in _LAZY:
        return _LAZY[expr.op](expr, chosen)
    args = _known(expr, chosen)
    if args is None:
        return None
    if expr.op not in _STRICT:
        raise InternalError(f"the oracle does not know {expr.op}")
    if expr.type.is_float or (expr.op in _COMPARED and any(isinstance(arg, float) for arg in args)):
        args = [float(arg) if isinstance(arg, int | Decimal) else arg for arg in args]
    return _as(_STRICT[expr.op](*args), expr.type)


def _known(call: Call, chosen: Sequence[Row]) -> list[Any] | None:
    """The operands' values; None where one is null: those after it are not evaluated. The divisor comes first."""
    first_to_last = call.args[::-1] if call.op in ("/", "%") else call.args
    found = []
    for arg in first_to_last:
        found.append(value(arg, chosen))
        if found[-1] is None:
            return None
    return found[::-1] if call.op in ("/", "%") else found


def _as(result: Any, kind: DataType) -> Any:
    """A number in its type; a number that the type cannot hold is an error of the query."""
    if result is None or isinstance(result, bool):
        return result
    if kind.is_integer:
        return _whole(result, kind)
    if kind.name == "DECIMAL":
        return _decimal(result, kind)
    return float(result) if kind.is_float else result


def _whole(result: Any, kind: DataType) -> int:
    if isinstance(result, float) and not math.isfinite(result):
        raise OverflowError(f"{result} is no {kind}")
    half: int = 2 ** (_BITS[kind.name] - 1)
    if isinstance(result, float) and kind.name == "BIGINT" and result == half:
        return half - 1
    number = int(result)
    if not -half <= number < half:
        raise OverflowError(f"{number} does not fit in {kind}")
    return number


def _decimal(result: Any, kind: DataType) -> Decimal | None:
    if isinstance(result, float) and not math.isfinite(result):
        return None
    exact = Decimal(repr(result)) if isinstance(result, float) else Decimal(result)
    number = exact.quantize(Decimal(1).scaleb(-(kind.scale or 0)), context=_EXACT)
    if abs(number) >= Decimal(10) ** ((kind.precision or 0) - (kind.scale or 0)):
        raise OverflowError(f"{number} does not fit in {kind}")
    return number


def _cast(call: Call, chosen: Sequence[Row]) -> Any:
    """Casts between numbers and booleans; the oracle does not cover text and times."""
    if {call.type.family, call.args[0].type.family} - {Family.NUMBER, Family.BOOLEAN}:
        raise InternalError("the oracle casts numbers only")
    given = value(call.args[0], chosen)
    if given is None:
        return None
    if call.type.family == Family.BOOLEAN:
        return given != 0
    try:
        return _as(int(given) if isinstance(given, bool) else given, call.type)
    except OverflowError:
        if call.op == "try_cast":
            return None
        raise


def _constant(literal: Literal) -> Any:
    if literal.value is None or literal.type.family not in (Family.TIME, Family.DURATION):
        return literal.value
    if literal.type.name == "DATE":
        return date(1970, 1, 1) + timedelta(days=int(literal.value))
    length = timedelta(microseconds=int(literal.value))
    if literal.type.family == Family.DURATION:
        return length
    moment = _EPOCH + length
    return moment if literal.type.name == "TIMESTAMP" else moment.replace(tzinfo=None)


def _and(call: Call, chosen: Sequence[Row]) -> bool | None:
    values = [value(arg, chosen) for arg in call.args]
    return False if False in values else None if None in values else True


def _or(call: Call, chosen: Sequence[Row]) -> bool | None:
    values = [value(arg, chosen) for arg in call.args]
    return True if True in values else None if None in values else False


def _in(call: Call, chosen: Sequence[Row]) -> bool | None:
    sought, *options = [value(arg, chosen) for arg in call.args]
    if sought is None:
        return None
    if any(_compare(sought, option) == 0 for option in options if option is not None):
        return True
    return None if None in options else False


def _compare(a: Any, b: Any) -> int:
    """-1, 0 or 1; NaN equals itself and is greater than any other number."""
    if isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
        if math.isnan(a) or math.isnan(b):
            return int(math.isnan(a)) - int(math.isnan(b))
    return int(a > b) - int(a < b)


def _remainder(a: Any, b: Any) -> Any:
    """The remainder, with the sign of the dividend."""
    if not b:
        return None
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b) if math.isfinite(a) else math.nan
    rest = _EXACT.remainder(Decimal(abs(a)), Decimal(abs(b)))
    return -rest if a < 0 else rest


def _case(call: Call, chosen: Sequence[Row]) -> Any:
    for when, then in zip(call.args[:-1:2], call.args[1::2], strict=False):
        if value(when, chosen) is True:
            return _as(value(then, chosen), call.type)
    return _as(value(call.args[-1], chosen), call.type)


def _coalesce(call: Call, chosen: Sequence[Row]) -> Any:
    values = (value(arg, chosen) for arg in call.args)
    return next((_as(found, call.type) for found in values if found is not None), None)


def _like(text: str, pattern: str) -> bool:
    parts = [".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern]
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


_LAZY: Mapping[str, Callable[[Call, Sequence[Row]], Any]] = {
    "and": _and,
    "or": _or,
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "is_null": lambda call, chosen: value(call.args[0], chosen) is None,
    "cast": _cast,
    "try_cast": _cast,
}
_STRICT: Mapping[str, Callable[..., Any]] = {
    "=": lambda a, b: _compare(a, b) == 0,
    "<>": lambda a, b: _compare(a, b) != 0,
    "<": lambda a, b: _compare(a, b) < 0,
    "<=": lambda a, b: _compare(a, b) <= 0,
    ">": lambda a, b: _compare(a, b) > 0,
    ">=": lambda a, b: _compare(a, b) >= 0,
    "+": lambda a, b: _EXACT.add(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a + b,
    "-": lambda a, b: _EXACT.subtract(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a - b,
    "*": lambda a, b: _EXACT.multiply(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a * b,
    "/": lambda a, b: a / b if b else None,
    "%": _remainder,
    "neg": lambda a: -a,
    "not": lambda a: not a,
    "like": _like,
    "abs": abs,
    "length": len,
    "upper": str.upper,
    "lower": str.lower,
}
