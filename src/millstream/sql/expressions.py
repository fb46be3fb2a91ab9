"""Expressions of the text to typed expressions of the model.

Reports what is wrong and goes on: a part that cannot be bound becomes None, and whoever holds it becomes None too,
so one mistake gives one error and independent mistakes give one each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime

from sqlglot import exp

from millstream.errors import Errors, ScriptError, did_you_mean, listing
from millstream.model import duration, types
from millstream.model.expr import Call, Expr, Literal
from millstream.model.functions import BUILTINS, Function
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, INT, INTERVAL, STRING, DataType, Family
from millstream.sql.scope import Scope
from millstream.sql.text import Text

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

    def __init__(self, scope: Scope, functions: Mapping[str, Function], text: Text, errors: Errors, query: str) -> None:
        self.scope = scope
        self._functions = {**BUILTINS, **functions}
        self._text = text
        self._errors = errors
        self._query = query

    def report(self, error: ScriptError, node: exp.Expr) -> None:
        self._errors.add(error.at(self._text.where(node, self._query)))

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
        if bound is None or bound.type in (BOOLEAN, types.NULL):
            return bound
        found = f"this is {bound.type}, not a condition"
        self.report(ScriptError(found, "a condition is BOOLEAN", "Compare it with something."), node)
        return None

    def _bind(self, node: exp.Expr) -> Expr | None:
        for kind, method in _METHODS:
            if isinstance(node, kind):
                return method(self, node)
        raise ScriptError(
            f"{_word(node)} cannot stand here",
            "conditions, arithmetic, CASE, CAST and scalar functions can",
            "Rewrite it with these.",
        )

    def _all(self, nodes: Sequence[exp.Expr]) -> list[Expr] | None:
        bound = [self.bind(node) for node in nodes]
        return [expr for expr in bound if expr is not None] if None not in bound else None

    def _paren(self, node: exp.Expr) -> Expr | None:
        return self.bind(node.this)

    def _column(self, node: exp.Expr) -> Expr | None:
        if isinstance(node.this, exp.Star):
            raise ScriptError("* cannot stand in an expression", "* selects all columns", "Name a column.")
        parts = node.parts if isinstance(node, exp.Column | exp.Dot) else []
        return self.scope.resolve([part.name for part in parts])

    def _literal(self, node: exp.Expr) -> Expr | None:
        if node.is_string:
            return Literal(node.name, STRING)
        if node.name.isdigit():
            value = int(node.name)
            if value >= 2**63:
                raise ScriptError(
                    f"{value} is too large", "whole numbers reach 2^63 - 1", "Write it with a decimal point."
                )
            return Literal(value, INT if value < 2**31 else BIGINT)
        return Literal(float(node.name), DOUBLE)

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
        parts = [self.boolean(part) for part in _operands(node)]
        args = [part for part in parts if part is not None]
        if len(args) < len(parts):
            return None
        op = "and" if isinstance(node, exp.And) else "or" if isinstance(node, exp.Or) else "not"
        return Call(op, tuple(args), BOOLEAN)

    def _comparison(self, node: exp.Expr) -> Expr | None:
        args = self._all([node.this, node.expression])
        return None if args is None else self._compare(_COMPARE[type(node)], args[0], args[1])

    def _between(self, node: exp.Expr) -> Expr | None:
        args = self._all([node.this, node.args["low"], node.args["high"]])
        if args is None:
            return None
        value, low, high = args
        return Call("and", (self._compare(">=", value, low), self._compare("<=", value, high)), BOOLEAN)

    def _compare(self, op: str, left: Expr, right: Expr) -> Expr:
        left, right = coerced(left, right.type), coerced(right, left.type)
        if types.common(left.type, right.type) is None:
            raise ScriptError(
                f"{left.type} cannot be compared with {right.type}",
                "both sides of a comparison are numbers, strings, times, intervals or booleans alike",
                "CAST one side, or compare other columns.",
            )
        return Call(op, (left, right), BOOLEAN)

    def _in(self, node: exp.Expr) -> Expr | None:
        if node.args.get("query") or not node.expressions:
            raise ScriptError("IN with a subquery", "IN takes a list of values", "List the values.")
        args = self._all([node.this, *node.expressions])
        if args is None:
            return None
        options = [self._compare("=", args[0], option) for option in args[1:]]
        value = options[0].args[0] if isinstance(options[0], Call) else args[0]
        return Call("in", (value, *(o.args[1] for o in options if isinstance(o, Call))), BOOLEAN)

    def _like(self, node: exp.Expr) -> Expr | None:
        args = self._all([node.this, node.expression])
        if args is None:
            return None
        if any(arg.type != STRING for arg in args) or not isinstance(args[1], Literal):
            raise ScriptError("this LIKE", "LIKE compares a STRING with a pattern in '...'", "Change the two sides.")
        return Call("like", tuple(args), BOOLEAN)

    def _is(self, node: exp.Expr) -> Expr | None:
        arg = self.bind(node.this)
        if arg is None:
            return None
        if isinstance(node.expression, exp.Null):
            return Call("is_null", (arg,), BOOLEAN)
        raise ScriptError("this IS", "IS NULL and IS NOT NULL are known", "Use = for other values.")

    def _arithmetic(self, node: exp.Expr) -> Expr | None:
        args = self._all([node.this, node.expression])
        if args is None:
            return None
        op = _ARITHMETIC[type(node)]
        return Call(op, tuple(args), _arithmetic_type(op, args[0].type, args[1].type))

    def _concat(self, node: exp.Expr) -> Expr | None:
        args = self._all([node.this, node.expression])
        return None if args is None else self._apply("concat", args)

    def _interval(self, node: exp.Expr) -> Expr | None:
        amount, unit = node.this, node.args.get("unit")
        if isinstance(amount, exp.Neg):
            amount = exp.Literal.number(f"-{amount.this.name}")
        if not isinstance(amount, exp.Literal) or (unit is not None and not isinstance(unit, exp.Var)):
            raise ScriptError(
                "this INTERVAL", "an interval is a constant such as INTERVAL '5' MINUTE", "Write a number and one unit."
            )
        length = duration.parse(amount.name) if unit is None else _interval_length(amount.name, unit.name)
        return Literal(length, INTERVAL)

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
        arg, kind = self.bind(node.this), data_type(node.args["to"])
        if arg is None:
            return None
        if isinstance(arg, Literal) and arg.type == STRING and kind.family == Family.TIME:
            return coerced(arg, kind)
        if Family.NESTED in (arg.type.family, kind.family):
            raise ScriptError(f"CAST of {arg.type} to {kind}", "plain types can be cast", "Cast a field instead.")
        return Call("cast", (arg,), kind)

    def _extract(self, node: exp.Expr) -> Expr | None:
        arg = self.bind(node.expression)
        return None if arg is None else self._apply(node.this.name.lower(), [arg])

    def _function(self, node: exp.Expr) -> Expr | None:
        name = node.name.lower()
        if name in _AGGREGATES and name not in self._functions:
            raise ScriptError(
                f"{name} is an aggregate", "a query gives joined rows, one by one", "Aggregate its results."
            )
        args = self._all(node.expressions)
        return None if args is None else self._apply(name, args)

    def _apply(self, name: str, args: list[Expr]) -> Expr:
        if name == "if" and len(args) == 3 and args[0].type == BOOLEAN:
            return self._choice(args[:1], args[1:])
        if name == "abs" and [arg.type for arg in args] == [INTERVAL]:
            return Call("abs", tuple(args), INTERVAL)
        function = self._functions.get(name)
        if function is None:
            known = sorted(self._functions)
            raise ScriptError(
                f'no function "{name}"',
                f"there are {listing(known, 50)}",
                did_you_mean(name, known, "Use one of these, or register your own."),
            )
        return Call(function.name, tuple(args), function.result([arg.type for arg in args]))


def coerced(expr: Expr, wanted: DataType) -> Expr:
    """A string constant read as a time where a time is wanted; anything else as it is."""
    if not (isinstance(expr, Literal) and expr.type == STRING and wanted.family == Family.TIME):
        return expr
    text = str(expr.value)
    try:
        if wanted.name == "DATE":
            return Literal((date.fromisoformat(text) - _EPOCH.date()).days, wanted)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ScriptError(
            f"'{text}' is not a {wanted}",
            "times are written like '2024-05-31 12:30:00' (UTC) or '2024-05-31T12:30:00+02:00'",
            "Correct the text.",
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    return Literal((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds, wanted)


def data_type(node: exp.Expr) -> DataType:
    """A type of the text as a type of the model."""
    parts = node.expressions
    kind = node.this.name if isinstance(node, exp.DataType) and not isinstance(node.this, str) else str(node.this)
    if kind == "STRUCT":
        fields = tuple(types.Field(part.name, data_type(part.args["kind"])) for part in parts)
        return DataType("STRUCT", fields=fields)
    if kind in ("ARRAY", "LIST", "MAP"):
        return DataType("MAP" if kind == "MAP" else "ARRAY", parts=tuple(data_type(part) for part in parts))
    if kind == "DECIMAL":
        sizes = [int(part.name) for part in parts]
        return types.decimal(*(sizes or [10]), *([0] if len(sizes) < 2 else []))
    return types.simple(kind)


def _interval_length(amount: str, unit: str) -> int:
    try:
        return duration.of(amount, unit)
    except ArithmeticError:
        raise ScriptError(
            f"INTERVAL '{amount}' {unit}",
            "an interval is a number and a unit",
            "Write for example INTERVAL '5' MINUTE.",
        ) from None


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
    if Family.NULL in families:
        return right if left.family == Family.NULL else left
    raise ScriptError(
        f"{left} {op} {right} has no meaning",
        "arithmetic takes numbers, a timestamp and an interval, or two timestamps",
        "CAST one side, or use other columns.",
    )


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """The operands of NOT, or of a whole run of ANDs or ORs, which sqlglot nests as deep as they are many."""
    if isinstance(node, exp.Not):
        return [node.this]
    operands, rest = [], [node]
    while rest:
        part = rest.pop()
        if type(part) is type(node):
            rest += [part.expression, part.this]
        else:
            operands.append(part)
    return operands


def _word(node: exp.Expr) -> str:
    if isinstance(node, exp.Subquery | exp.Select):
        return "a subquery"
    return "OVER" if isinstance(node, exp.Window) else type(node).__name__.upper()


_Method = Callable[[Binder, exp.Expr], Expr | None]
_METHODS: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], _Method], ...] = (
    (exp.Paren, Binder._paren),
    ((exp.Column, exp.Dot), Binder._column),
    (exp.Literal, Binder._literal),
    (exp.Boolean, Binder._boolean),
    (exp.Null, lambda _binder, _node: Literal(None, types.NULL)),
    (exp.Neg, Binder._negate),
    ((exp.And, exp.Or, exp.Not), Binder._logic),
    (tuple(_COMPARE), Binder._comparison),
    (exp.Between, Binder._between),
    (exp.In, Binder._in),
    (exp.Like, Binder._like),
    (exp.Is, Binder._is),
    (tuple(_ARITHMETIC), Binder._arithmetic),
    (exp.DPipe, Binder._concat),
    (exp.Interval, Binder._interval),
    (exp.Case, Binder._case),
    (exp.Cast, Binder._cast),
    (exp.Extract, Binder._extract),
    (exp.Anonymous, Binder._function),
)
