"""Expressions of the text to typed expressions of the model.

Reports what is wrong and goes on: a part that cannot be bound becomes None, and whoever holds it becomes None too,
so one mistake gives one error and independent mistakes give one each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from sqlglot import exp

from millstream.errors import ScriptError, did_you_mean, listing
from millstream.model import types
from millstream.model.expr import Call, Expr, Literal
from millstream.model.functions import BUILTINS, Function
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, INT, INTERVAL, STRING, DataType, Family
from millstream.sql.nodes import Path, SourceStar
from millstream.sql.report import Report
from millstream.sql.scope import Scope
from millstream.sql.text import Text
from millstream.sql.types import data_type
from millstream.sql.windows import microseconds_of

_COMPARE: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_AGGREGATES = ("count", "sum", "avg", "min", "max", "first", "last", "stddev", "collect_list", "row_number")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Binder:
    """Binds the expressions of one query."""

    def __init__(self, scope: Scope, functions: Mapping[str, Function], text: Text, report: Report) -> None:
        self.scope = scope
        self.report = report
        self._functions = {**BUILTINS, **functions}
        self._text = text

    def bind(self, node: exp.Expr) -> Expr | None:
        """The typed expression, or None after reporting why there is none."""
        try:
            return self._bind(node)
        except ScriptError as error:
            self.report(error, node)
            return None

    def boolean(self, node: exp.Expr) -> Expr | None:
        """A predicate."""
        bound = self.bind(node)
        if bound is None or bound.type == BOOLEAN:
            return bound
        if bound.type == types.NULL:
            return converted(bound, BOOLEAN)
        found = f"this is {bound.type}, not a condition"
        self.report(ScriptError(found, "a condition is BOOLEAN", "Compare it with something."), node)
        return None

    def _bind(self, node: exp.Expr) -> Expr | None:
        for kind, method in _METHODS:
            if isinstance(node, kind):
                return method(self, node)
        raise ScriptError(
            f"{type(node).__name__.upper()} cannot stand here",
            "conditions, arithmetic, CASE, CAST and scalar functions can",
            "Rewrite it with these.",
        )

    def _all(self, nodes: Sequence[exp.Expr]) -> list[Expr] | None:
        bound = [self.bind(node) for node in nodes]
        return [expr for expr in bound if expr is not None] if None not in bound else None

    def _paren(self, node: exp.Expr) -> Expr | None:
        return self.bind(node.this)

    def _path(self, node: exp.Expr) -> Expr | None:
        parts = node.args["parts"]
        return self.scope.resolve([part.name for part in parts], [self._text.where(part) for part in parts])

    def _star(self, _node: exp.Expr) -> Expr | None:
        raise ScriptError("* cannot stand in an expression", "* selects all columns", "Name a column.")

    def _literal(self, node: exp.Expr) -> Expr | None:
        if node.is_string:
            return Literal(node.name, STRING)
        if not node.name.isdecimal():
            number = float(node.name)
            if number == float("inf"):
                raise ScriptError(f"{node.name} is too large", "numbers reach about 1.8e308", "Write a smaller one.")
            return Literal(number, DOUBLE)
        if len(node.name) > 19 or int(node.name) >= 2**63:
            todo = "Write it with a decimal point."
            raise ScriptError("this whole number is too large", "whole numbers reach 2^63 - 1", todo)
        value = int(node.name)
        return Literal(value, INT if value < 2**31 else BIGINT)

    def _boolean(self, node: exp.Expr) -> Expr | None:
        return Literal(bool(node.this), BOOLEAN)

    def _negate(self, node: exp.Expr) -> Expr | None:
        arg = self.bind(node.this)
        if arg is None:
            return None
        if arg.type.family not in (Family.NUMBER, Family.DURATION):
            raise ScriptError(f"- before {arg.type}", "numbers and intervals can be negative", "Remove the minus sign.")
        if isinstance(arg, Literal) and isinstance(arg.value, int | float):
            return Literal(-arg.value, arg.type)
        return Call("neg", (arg,), arg.type)

    def _logic(self, node: exp.Expr) -> Expr | None:
        parts = [self.boolean(part) for part in operands(node, type(node))]
        args = [part for part in parts if part is not None]
        if len(args) < len(parts):
            return None
        return Call("and" if isinstance(node, exp.And) else "or", tuple(args), BOOLEAN)

    def _not(self, node: exp.Expr) -> Expr | None:
        arg = self.boolean(node.this)
        return None if arg is None else Call("not", (arg,), BOOLEAN)

    def _comparison(self, node: exp.Expr) -> Expr | None:
        nodes = [node.this, node.expression]
        args = self._all(nodes)
        return None if args is None else self._compare(_COMPARE[type(node)], nodes, args)

    def _between(self, node: exp.Expr) -> Expr | None:
        nodes = [node.this, node.args["low"], node.args["high"]]
        args = self._all(nodes)
        if args is None:
            return None
        low = self._compare(">=", nodes[:2], args[:2])
        return Call("and", (low, self._compare("<=", nodes[::2], args[::2])), BOOLEAN)

    def _compare(self, op: str, nodes: Sequence[exp.Expr], args: Sequence[Expr]) -> Call:
        left, right = self._coerced(nodes[0], args[0], args[1]), self._coerced(nodes[1], args[1], args[0])
        if types.common(left.type, right.type) is None:
            raise ScriptError(
                f"{left.type} cannot be compared with {right.type}",
                "both sides of a comparison are numbers, strings, times, intervals or booleans alike",
                "CAST one side, or compare other columns.",
            )
        return Call(op, (left, right), BOOLEAN)

    def _coerced(self, node: exp.Expr, expr: Expr, other: Expr) -> Expr:
        try:
            return coerced(expr, other.type)
        except ScriptError as error:
            raise self.report.placed(error, node) from None

    def _in(self, node: exp.Expr) -> Expr | None:
        nodes = [node.this, *node.expressions]
        args = self._all(nodes)
        if args is None:
            return None
        options = []
        for position in range(1, len(args)):
            try:
                options.append(self._compare("=", [nodes[0], nodes[position]], [args[0], args[position]]))
            except ScriptError as error:
                raise self.report.placed(error, nodes[position]) from None
        return Call("in", (options[0].args[0], *(option.args[1] for option in options)), BOOLEAN)

    def _like(self, node: exp.Expr) -> Expr | None:
        args = self._all([node.this, node.expression])
        if args is None:
            return None
        if args[0].type.family not in (Family.STRING, Family.NULL):
            raise ScriptError(f"{args[0].type} LIKE a pattern", "LIKE looks at a STRING", "CAST it to STRING.")
        if not isinstance(args[1], Literal) or args[1].type != STRING:
            error = ScriptError(
                "LIKE without a fixed pattern", "the pattern is text such as 'a%'", "Write it in '...'."
            )
            raise self.report.placed(error, node.expression)
        return Call("like", tuple(args), BOOLEAN)

    def _is_null(self, node: exp.Expr) -> Expr | None:
        arg = self.bind(node.this)
        return None if arg is None else Call("is_null", (arg,), BOOLEAN)

    def _arithmetic(self, node: exp.Expr) -> Expr | None:
        args = self._all([node.this, node.expression])
        if args is None:
            return None
        op = _ARITHMETIC[type(node)]
        return Call(op, tuple(args), _arithmetic_type(op, args[0].type, args[1].type))

    def _concat(self, node: exp.Expr) -> Expr | None:
        args = self._all([node.this, node.expression])
        return None if args is None else self._apply(BUILTINS["concat"], args)

    def _interval(self, node: exp.Expr) -> Expr | None:
        return Literal(microseconds_of(node.this, self.report), INTERVAL)

    def _case(self, node: exp.Expr) -> Expr | None:
        conditions = [
            exp.EQ(this=node.this, expression=branch.this) if node.this else branch.this for branch in node.args["ifs"]
        ]
        results = [branch.args["true"] for branch in node.args["ifs"]]
        tests = [self.boolean(condition) for condition in conditions]
        values = self._all([*results, node.args.get("default") or exp.null()])
        whens = [test for test in tests if test is not None]
        if values is None or len(whens) < len(tests):
            return None
        return self._choice(whens, values)

    def _choice(self, whens: Sequence[Expr], values: Sequence[Expr]) -> Expr:
        kind = values[0].type
        for value in values[1:]:
            wider = types.common(kind, value.type)
            if wider is None:
                raise ScriptError(
                    f"CASE gives {kind} and {value.type}", "all its results have one type", "CAST one of them."
                )
            kind = wider
        args = [part for when, value in zip(whens, values, strict=False) for part in (when, value)]
        return Call("case", (*args, values[-1]), kind)

    def _cast(self, node: exp.Expr) -> Expr | None:
        arg = self.bind(node.this)
        kind = data_type(node.args["to"], self.report)
        if arg is None:
            return None
        if isinstance(arg, Literal) and arg.type == STRING and kind.family == Family.TIME:
            return coerced(arg, kind)
        if Family.NESTED in (arg.type.family, kind.family):
            raise ScriptError(f"CAST of {arg.type} to {kind}", "plain types can be cast", "Cast a field instead.")
        return Call("try_cast" if isinstance(node, exp.TryCast) else "cast", (arg,), kind)

    def _function(self, node: exp.Expr) -> Expr | None:
        name = node.name.lower()
        function = self._functions.get(name)
        if function is None and name in _AGGREGATES:
            raise ScriptError(
                f"{name} is an aggregate", "a query gives joined rows, one by one", "Aggregate its results."
            )
        args = self._all(node.expressions)
        if function is None:
            known = sorted(self._functions)
            raise ScriptError(
                f'no function "{name}"',
                f"there are {listing(known, 50)}",
                did_you_mean(name, known, "Use one of these, or register your own."),
            )
        return None if args is None else self._apply(function, args)

    def _apply(self, function: Function, args: list[Expr]) -> Expr:
        if function.name == "abs" and [arg.type for arg in args] == [INTERVAL]:
            return Call("abs", tuple(args), INTERVAL)
        result = function.result([arg.type for arg in args])
        if function.name == "if":
            return self._choice(args[:1], args[1:])
        if function.call is not None:
            args = [converted(arg, kind) for arg, kind in zip(args, function.takes, strict=True)]
        return Call(function.name, tuple(args), result)


def converted(expr: Expr, wanted: Family | DataType | str) -> Expr:
    """An argument as the type its function declares."""
    if not isinstance(wanted, DataType) or expr.type == wanted:
        return expr
    if isinstance(expr, Literal) and expr.type.is_integer and (wanted.is_integer or wanted.is_float):
        return replace(expr, value=float(expr.value or 0) if wanted.is_float else expr.value, type=wanted)
    if isinstance(expr, Literal) and expr.value is None:
        return replace(expr, type=wanted)
    return Call("cast", (expr,), wanted)


def coerced(expr: Expr, wanted: DataType) -> Expr:
    """A string constant read as a time where a time is wanted; anything else as it is."""
    if not (isinstance(expr, Literal) and expr.type == STRING and wanted.family == Family.TIME):
        return expr
    text = str(expr.value)
    try:
        if wanted.name == "DATE":
            return Literal((date.fromisoformat(text) - _EPOCH.date()).days, wanted)
        moment = datetime.fromisoformat(text)
        since = (moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError):
        example = "'2024-05-31'" if wanted.name == "DATE" else "'2024-05-31 12:30:00' or '2024-05-31T12:30:00+02:00'"
        raise ScriptError(f"'{text}' is not a {wanted}", f"it is written like {example}", "Correct the text.") from None
    return Literal((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds, wanted)


def _arithmetic_type(op: str, left: DataType, right: DataType) -> DataType:
    families = (left.family, right.family)
    if families == (Family.NUMBER, Family.NUMBER):
        common = types.common(left, right)
        if common is not None:
            return DOUBLE if op == "/" else common
    if op in ("+", "-") and families == (Family.DURATION, Family.DURATION):
        return INTERVAL
    if op in ("+", "-") and left.is_timestamp and right == INTERVAL:
        return left
    if op == "+" and left == INTERVAL and right.is_timestamp:
        return right
    if op == "-" and left.is_timestamp and left == right:
        return INTERVAL
    if Family.NULL in families and set(families) <= {Family.NULL, Family.NUMBER, Family.DURATION}:
        return right if left.family == Family.NULL else left
    raise ScriptError(
        f"{left} {op} {right} has no meaning",
        "arithmetic takes numbers, a timestamp and an interval, or two timestamps",
        "CAST one side, or use other columns.",
    )


def operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a whole run of ANDs or ORs, which sqlglot nests as deep as they are many."""
    found, rest = [], [node]
    while rest:
        part = rest.pop()
        if type(part) is kind:
            rest += [part.expression, part.this]
        else:
            found.append(part)
    return found


_Method = Callable[[Binder, exp.Expr], Expr | None]
_METHODS: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], _Method], ...] = (
    (exp.Paren, Binder._paren),
    (Path, Binder._path),
    ((exp.Star, SourceStar), Binder._star),
    (exp.Literal, Binder._literal),
    (exp.Boolean, Binder._boolean),
    (exp.Null, lambda _binder, _node: Literal(None, types.NULL)),
    (exp.Neg, Binder._negate),
    ((exp.And, exp.Or), Binder._logic),
    (exp.Not, Binder._not),
    (tuple(_COMPARE), Binder._comparison),
    (exp.Between, Binder._between),
    (exp.In, Binder._in),
    (exp.Like, Binder._like),
    (exp.Is, Binder._is_null),
    (tuple(_ARITHMETIC), Binder._arithmetic),
    (exp.DPipe, Binder._concat),
    (exp.Interval, Binder._interval),
    (exp.Case, Binder._case),
    (exp.Cast, Binder._cast),
    (exp.Anonymous, Binder._function),
)
