"""Typed expressions: what selections, residual predicates and SELECT lists are made of.

Three nodes only: a `Column` of one of the query's sources, a `Literal`, and a `Call` of an operator or function.
`canonical` brings equivalent expressions to the same form, so that equal predicates of different queries are recognised
and evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from millstream.model import duration
from millstream.model.types import BOOLEAN, INTERVAL, STRING, DataType, Family, widens

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
MIRROR = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INFIX = (*COMPARISONS, "+", "-", "*", "/", "%", "||", "like")
_COMMUTATIVE = ("=", "<>", "+", "*")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the query's source with this index (0 is the first in FROM)."""

    source: int
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; times and intervals are integer microseconds, dates are days."""

    value: bool | int | float | str | None
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function applied to arguments."""

    op: str
    args: tuple[Expr, ...]
    type: DataType


Expr = Column | Literal | Call
TRUE = Literal(True, BOOLEAN)


def walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from walk(arg)


def sources(expr: Expr) -> frozenset[int]:
    """The sources that an expression reads."""
    return frozenset(node.source for node in walk(expr) if isinstance(node, Column))


def moved(expr: Expr, to: Callable[[int], int]) -> Expr:
    """The same expression over renumbered sources."""
    if isinstance(expr, Column):
        return replace(expr, source=to(expr.source))
    if isinstance(expr, Call):
        return replace(expr, args=tuple(moved(arg, to) for arg in expr.args))
    return expr


def can_fail(call: Call) -> bool:
    """Whether an operator or built-in function can fail on some values of its arguments."""
    if call.op in ("+", "-", "*", "neg", "abs"):
        return not call.type.is_float
    if call.op == "cast":
        return not widens(call.args[0].type, call.type)
    return call.op in ("floor", "ceil", "round")


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The parts of a chain of ANDs."""
    if isinstance(expr, Call) and expr.op == "and":
        return tuple(part for arg in expr.args for part in conjuncts(arg))
    return () if expr == TRUE else (expr,)


def canonical(expr: Expr) -> Expr:
    """One form for all ways to write the same predicate: sorted ANDs and ORs, columns left of constants.

    An operand that can fail comes last, since it is not evaluated where the first operand is null.
    """
    if not isinstance(expr, Call):
        return expr
    args = tuple(canonical(arg) for arg in expr.args)
    if expr.op in ("and", "or"):
        flat = [part for arg in args for part in (arg.args if isinstance(arg, Call) and arg.op == expr.op else (arg,))]
        unique = _sorted_unique(flat)
        return unique[0] if len(unique) == 1 else replace(expr, args=unique)
    if expr.op == "not" and isinstance(args[0], Call) and args[0].op == "not":
        return args[0].args[0]
    if expr.op == "in":
        return replace(expr, args=(args[0], *_sorted_unique(args[1:])))
    if expr.op in COMPARISONS and (_place(args[0]), expr.op) > (_place(args[1]), MIRROR[expr.op]):
        return replace(expr, op=MIRROR[expr.op], args=args[::-1])
    if expr.op in _COMMUTATIVE and expr.type.family == Family.NUMBER:
        args = tuple(sorted(args, key=_place))
    return replace(expr, args=args)


def _place(operand: Expr) -> tuple[int, bool, str]:
    constant, shown = order(operand)
    return constant, any(isinstance(node, Call) and can_fail(node) for node in walk(operand)), shown


def structure(expr: Expr) -> list[object]:
    """The structure of an expression as plain lists: equal for equal expressions only, whatever characters its names
    contain.
    """
    if isinstance(expr, Column):
        return ["column", expr.source, expr.name, str(expr.type)]
    if isinstance(expr, Literal):
        return ["literal", expr.value, str(expr.type)]
    return [expr.op, *map(structure, expr.args), str(expr.type)]


def order(expr: Expr) -> tuple[int, str]:
    """A total order on expressions: columns and calls before constants, then by text."""
    return (1 if isinstance(expr, Literal) else 0, text(expr, lambda column: f"{column.source}.{column.name!r}"))


def _sorted_unique(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
    by_order = {order(part): part for part in exprs}
    return tuple(by_order[key] for key in sorted(by_order))


def text(expr: Expr, name: Callable[[Column], str]) -> str:
    """An expression as SQL, with columns named by the caller."""
    if isinstance(expr, Column):
        return name(expr)
    if isinstance(expr, Literal):
        return _literal_text(expr)
    parts = [_nested(arg, name) if expr.op in _NESTING else text(arg, name) for arg in expr.args]
    if expr.op in _INFIX:
        return f"{parts[0]} {expr.op.upper()} {parts[1]}"
    if expr.op in ("and", "or"):
        return f" {expr.op.upper()} ".join(parts)
    if expr.op == "not":
        return f"NOT {parts[0]}"
    if expr.op == "neg":
        # Two minus signs begin a comment.
        return f"-({parts[0]})" if parts[0].startswith("-") else f"-{parts[0]}"
    if expr.op == "is_null":
        return f"{parts[0]} IS NULL"
    if expr.op == "in":
        return f"{parts[0]} IN ({', '.join(parts[1:])})"
    if expr.op == "case":
        whens = "".join(f" WHEN {parts[i]} THEN {parts[i + 1]}" for i in range(0, len(parts) - 1, 2))
        return f"CASE{whens} ELSE {parts[-1]} END"
    if expr.op in ("cast", "try_cast"):
        return f"{expr.op.upper()}({parts[0]} AS {expr.type})"
    if expr.op == "field":
        return f"{parts[0]}.{_field_name(expr.args[1])}"
    return f"{expr.op}({', '.join(parts)})"


_NESTING = (*_INFIX, "and", "or", "not", "neg", "is_null", "in")


def _nested(expr: Expr, name: Callable[[Column], str]) -> str:
    inner = text(expr, name)
    return f"({inner})" if isinstance(expr, Call) and expr.op in _NESTING else inner


def _field_name(expr: Expr) -> str:
    name = str(expr.value) if isinstance(expr, Literal) else ""
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


def _literal_text(literal: Literal) -> str:
    value = literal.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if literal.type == STRING:
        return "'" + str(value).replace("'", "''") + "'"
    if literal.type == INTERVAL:
        return f"INTERVAL '{duration.text(int(value))}'"
    if literal.type.family == Family.TIME:
        return _time_text(int(value), literal.type)
    return str(value)


def _time_text(value: int, kind: DataType) -> str:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    if kind.name == "DATE":
        return f"DATE '{(epoch + timedelta(days=value)).date().isoformat()}'"
    moment = (epoch + timedelta(microseconds=value)).replace(tzinfo=None)
    return f"{kind.name} '{moment.isoformat(sep=' ')}'"
