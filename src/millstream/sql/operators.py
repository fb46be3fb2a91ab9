"""The typing of operators: the types of their operands and results, and the combinations that are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millstream.errors import ScriptError
from millstream.model import moments, types
from millstream.model.expr import Call, Expr, Literal
from millstream.model.functions import TOO_WIDE, too_wide, widest
from millstream.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, INTERVAL, NULL, STRING, DataType, Family

_LEAST = {INT: -(2**31), BIGINT: -(2**63)}
"""The least value of each type, whose negation does not fit the type."""
DEEPEST = 100
LARGEST = 50_000
# The most digits that two operands of the remainder may have together, at their common scale.
_REMAINDER_DIGITS = 74


def number(digits: str) -> Literal:
    """A whole number, with a minus sign or without."""
    if len(digits.lstrip("-0")) <= 19 and -(2**63) <= int(digits) < 2**63:
        value = int(digits)
        return Literal(value, INT if -(2**31) <= value < 2**31 else BIGINT)
    todo = "Write it with a decimal point."
    raise ScriptError("this whole number is too large", "whole numbers reach from -2^63 to 2^63 - 1", todo)


def negated(arg: Expr) -> Expr:
    if arg.type.family not in (Family.NUMBER, Family.DURATION, Family.NULL):
        raise ScriptError(f"- before {arg.type}", "numbers and intervals can be negative", "Remove the minus sign.")
    if isinstance(arg, Literal) and isinstance(arg.value, int | float) and arg.value != _LEAST.get(arg.type):
        return replace(arg, value=-arg.value)
    return typed_null(arg, DOUBLE) if arg.type == NULL else Call("neg", (arg,), arg.type)


def typed_null(expr: Expr, kind: DataType) -> Expr:
    """NULL as a value of a type; anything else as it is."""
    return Literal(None, kind) if expr.type == NULL else expr


def compared(op: str, left: Expr, right: Expr) -> Call:
    """A comparison; a string constant compared with a time is read as a time."""
    left, right = coerced(left, right.type), coerced(right, left.type)
    common = types.common(*(one.type for one in exact(left, right)))
    nested = Family.NESTED in (left.type.family, right.type.family)
    if nested or common is None:
        raise ScriptError(
            f"{left.type} cannot be compared with {right.type}",
            TOO_WIDE
            if too_wide([left.type, right.type])
            else "fields of structs can be, but no ARRAY, MAP or STRUCT"
            if nested
            else "both sides of a comparison are numbers, strings, times, intervals or booleans alike",
            "CAST one side, or compare other columns.",
        )
    kind = BOOLEAN if common == NULL else common
    left, right = exact(typed_null(left, kind), typed_null(right, kind))
    return Call(op, (left, right), BOOLEAN)


def exact(*exprs: Expr) -> tuple[Expr, ...]:
    """A whole-number constant beside a DECIMAL becomes a DECIMAL with as many digits as the constant has."""
    if all(expr.type.name != "DECIMAL" for expr in exprs):
        return exprs
    return tuple(
        replace(expr, type=types.decimal(len(str(abs(int(expr.value)))), 0))
        if isinstance(expr, Literal) and expr.type.is_integer and expr.value is not None
        else expr
        for expr in exprs
    )


def in_one_type(exprs: Sequence[Expr]) -> Sequence[Expr] | None:
    """What an IN seeks and its options, as Spark compares them: in the one type of all; None where there is none.

    Where this is DOUBLE, exact options become DOUBLE, since it has the same value for 2^53 and 2^53 + 1. No other type
    changes which values are equal.
    """
    kind = widest([expr.type for expr in exprs])
    if kind is None or not kind.is_float:
        exprs = exact(*exprs)
        kind = widest([expr.type for expr in exprs])
    elif not exprs[0].type.is_float:
        exprs = [exprs[0], *(expr if expr.type.is_float else converted(expr, kind) for expr in exprs[1:])]
    if kind is None or kind.family == Family.NESTED:
        return None
    return [typed_null(expr, kind) for expr in exprs]


def moved_by_days(op: str, left: Expr, right: Expr) -> Expr | None:
    """A DATE plus or minus an interval that is written in days, which gives a DATE; None for anything else."""
    date, days = (left, right) if op == "-" or left.type == DATE else (right, left)
    whole = isinstance(days, Literal) and days.type == INTERVAL and int(days.value or 0) % moments.DAY == 0
    return Call(op, (left, right), DATE) if op in ("+", "-") and date.type == DATE and whole else None


def arithmetic(op: str, left: Expr, right: Expr) -> Expr:
    left, right = exact(left, right)
    kind = _arithmetic_type(op, left.type, right.type)
    if NULL in (left.type, right.type):
        other = right.type if left.type == NULL else left.type
        wanted = DOUBLE if other == NULL else INTERVAL if op == "+" and other.is_timestamp else other
        left, right = typed_null(left, wanted), typed_null(right, wanted)
    return Call(op, (left, right), kind)


def _arithmetic_type(op: str, left: DataType, right: DataType) -> DataType:
    families = (left.family, right.family)
    if families == (Family.NUMBER, Family.NUMBER):
        return _number_type(op, left, right)
    if op in ("+", "-") and families == (Family.DURATION, Family.DURATION):
        return INTERVAL
    if op in ("+", "-") and left.is_timestamp and right in (INTERVAL, NULL):
        return left if op == "+" or right == INTERVAL else INTERVAL
    if op == "+" and left in (INTERVAL, NULL) and right.is_timestamp:
        return right
    if op == "-" and right.is_timestamp and left in (right, NULL):
        return INTERVAL
    if Family.NULL in families and set(families) <= {Family.NULL, Family.NUMBER}:
        other = right if left == NULL else left
        return DOUBLE if other == NULL else _number_type(op, other, other)
    if op in ("+", "-") and set(families) == {Family.NULL, Family.DURATION}:
        return INTERVAL
    raise ScriptError(
        f"{left} {op} {right} has no meaning",
        "arithmetic takes numbers, a timestamp and an interval, a date and an INTERVAL of days, or two timestamps",
        "CAST one side, or use other columns.",
    )


def _number_type(op: str, left: DataType, right: DataType) -> DataType:
    if op == "/":
        return DOUBLE
    if left.is_float or right.is_float or (left.is_integer and right.is_integer):
        return types.common(left, right) or DOUBLE
    if op == "%":
        scale = max(types.digits(left)[1], types.digits(right)[1])
        over, under = (precision - own + scale for precision, own in map(types.digits, (left, right)))
        if over + under > _REMAINDER_DIGITS:
            point = f"with {scale} digits after the point" if scale else "without a point"
            valid = f"written {point} they have {over} and {under} digits, and % takes {_REMAINDER_DIGITS} in all"
            raise ScriptError(f"{left} % {right} has too many digits", valid, "CAST one of them to fewer digits.")
    return types.decimal_result(op, left, right)


def choice(whens: Sequence[Expr], values: Sequence[Expr]) -> Expr:
    """A CASE; the last value is for all other rows."""
    kind = widest([value.type for value in values])
    if kind is None:
        names = " and ".join(dict.fromkeys(str(value.type) for value in values if value.type != NULL))
        valid = TOO_WIDE if too_wide([value.type for value in values]) else "all its results have one type"
        raise ScriptError(f"CASE gives {names}", valid, "CAST one of them.")
    if kind == NULL:
        return Literal(None, NULL)
    typed = [typed_null(value, kind) for value in values]
    args = [part for when, value in zip(whens, typed, strict=False) for part in (when, value)]
    return Call("case", (*args, typed[-1]), kind)


def cast(arg: Expr, kind: DataType, *, attempt: bool) -> Expr:
    if isinstance(arg, Literal) and arg.value is None:
        return Literal(None, kind)
    if isinstance(arg, Literal) and arg.type == STRING and kind.family == Family.TIME and not attempt:
        return coerced(arg, kind)
    if not types.can_cast(arg.type, kind):
        valid = "numbers, strings, booleans and times can be cast"
        raise ScriptError(f"CAST of {arg.type} to {kind}", valid, "Cast something else, or to another type.")
    return Call("try_cast" if attempt else "cast", (arg,), kind)


def converted(expr: Expr, wanted: Family | DataType | str) -> Expr:
    """An argument as the type its function declares."""
    if not isinstance(wanted, DataType) or expr.type == wanted:
        return expr
    if isinstance(expr, Literal) and expr.value is None:
        return replace(expr, type=wanted)
    if isinstance(expr, Literal) and expr.type.is_integer and (wanted.is_integer or wanted.is_float):
        return replace(expr, value=float(expr.value or 0) if wanted.is_float else expr.value, type=wanted)
    return Call("cast", (expr,), wanted)


def coerced(expr: Expr, wanted: DataType) -> Expr:
    """A string constant read as a time where a time is wanted; anything else as it is."""
    if not (isinstance(expr, Literal) and expr.type == STRING and wanted.family == Family.TIME):
        return expr
    text = str(expr.value)
    is_date = wanted.name == "DATE"
    found = moments.date_days(text) if is_date else moments.time_microseconds(text, zoned=wanted.name == "TIMESTAMP")
    if found is None:
        example = "'2024-05-31'" if is_date else "'2024-05-31 12:30:00' or '2024-05-31T12:30:00+02:00'"
        raise ScriptError(f"'{text}' is not a {wanted}", f"it is written like {example}", "Correct the text.")
    days = found if is_date else found // moments.DAY
    if not moments.days_of(1, 1, 1) <= days <= moments.days_of(9999, 12, 31):
        raise ScriptError(f"'{text}' is too far away", "constants have years from 1 to 9999", "Use another time.")
    return Literal(found, wanted)


def check_pattern(pattern: str) -> None:
    """Refuses a LIKE pattern with a backslash that is not followed by %, _ or another backslash."""
    rest = iter(pattern)
    for character in rest:
        if character == "\\" and next(rest, "") not in ("%", "_", "\\"):
            found, valid = f"'{pattern}' has a lone backslash", r"\%, \_ and \\ stand for %, _ and \ themselves"
            raise ScriptError(found, valid, r"Write \\ for a backslash.")
