"""Expressions of the text to typed expressions of the model.

Binding reports an error and goes on: a part that cannot be bound becomes None, and every expression that contains it
becomes None too. So one mistake gives one error, and independent mistakes give one each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from millstream.errors import InternalError, ScriptError, did_you_mean, listing
from millstream.model import types
from millstream.model.expr import Call, Expr, Literal
from millstream.model.functions import BUILTINS, Function, widest
from millstream.model.types import BOOLEAN, DOUBLE, INTERVAL, NULL, STRING, DataType, Family
from millstream.sql import operators
from millstream.sql.nodes import Path, SourceStar
from millstream.sql.report import Report
from millstream.sql.scope import Scope
from millstream.sql.terms import is_written
from millstream.sql.text import Text, too_deep
from millstream.sql.types import data_type
from millstream.sql.windows import in_days, microseconds_of

_COMPARE: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_CONDITIONS = (*_COMPARE, exp.Is, exp.In, exp.Between, exp.Like)
_ARITHMETIC: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_AGGREGATES = ("count", "sum", "avg", "min", "max", "first", "last", "stddev", "collect_list", "row_number")


class Binder:
    """Binds the expressions of one query."""

    def __init__(self, scope: Scope, functions: Mapping[str, Function], text: Text, report: Report) -> None:
        self.scope = scope
        self.report = report
        # A function goes by the name it is given here, which may be another than the one it was registered under.
        self._given = functions
        self._functions = {**BUILTINS, **{name.lower(): replace(one, name=name) for name, one in functions.items()}}
        self._text = text
        self._depth = 0
        self._told = False  # whether "too deep" is reported for this expression, which may be too deep in many places
        self._sizes: dict[int, tuple[Expr, int]] = {}

    def upto(self, position: int) -> Binder:
        """For the ON of the source at this position."""
        return Binder(self.scope.upto(position), self._given, self._text, self.report)

    def bind(self, node: exp.Expr) -> Expr | None:
        """The typed expression, or None after reporting an error."""
        self._depth += 1
        try:
            if self._depth > operators.DEEPEST:
                if self._told:
                    return None
                self._told = True
                raise too_deep(self._text.where(node))
            bound = self._bind(node)
            if bound is not None and self._size(bound) > operators.LARGEST:
                found, valid = "the expression is too large", f"it has up to {operators.LARGEST:,} parts"
                raise ScriptError(found, f"{valid}; CASE x and BETWEEN repeat x", "Split it into simpler ones.")
            return bound
        except ScriptError as error:
            self.report(error, node)
            return None
        finally:
            self._depth -= 1
            self._told = self._told and self._depth > 0

    def _size(self, expr: Expr) -> int:
        """How many nodes an expression has when it is written out."""
        if not isinstance(expr, Call):
            return 1
        known = self._sizes.get(id(expr))
        if known is None:
            # Stored with the expression, so that its id is not reused.
            known = self._sizes[id(expr)] = (expr, 1 + sum(self._size(arg) for arg in expr.args))
        return known[1]

    def output(self, node: exp.Expr) -> Expr | None:
        """A column of the result, which has a type."""
        bound = self.bind(node)
        if bound is None or bound.type != NULL:
            return bound
        found, valid = "this is always NULL and has no type", "a result column has one"
        self.report(ScriptError(found, valid, "Write CAST(NULL AS INT), or another type."), node)
        return None

    def boolean(self, node: exp.Expr) -> Expr | None:
        """A predicate."""
        bound = self.bind(node)
        if bound is None or bound.type == BOOLEAN:
            return bound
        if bound.type == types.NULL:
            return operators.typed_null(bound, BOOLEAN)
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
            try:
                number = float(node.name)
            except ValueError:
                raise ScriptError(f"{node.name} is no number", "an exponent has digits", "Write 5e3.") from None
            if number == float("inf"):
                raise ScriptError(f"{node.name} is too large", "numbers reach about 1.8e308", "Write a smaller one.")
            return Literal(number, DOUBLE)
        return operators.number(node.name)

    def _boolean(self, node: exp.Expr) -> Expr | None:
        return Literal(bool(node.this), BOOLEAN)

    def _negate(self, node: exp.Expr) -> Expr | None:
        if isinstance(node.this, exp.Literal) and not node.this.is_string and node.this.name.isdecimal():
            return operators.number(f"-{node.this.name}")
        arg = self.bind(node.this)
        return None if arg is None else operators.negated(arg)

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
        for part in nodes:
            if _is_open_condition(part):
                error = ScriptError(
                    "a condition is compared with something without parentheses",
                    "systems differ in what a = b < c and a < b IS NULL mean",
                    "Put parentheses around what comes first.",
                )
                raise self.report.placed(error, part)
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
        left, right = self._coerced(nodes[0], args[0], args[1].type), self._coerced(nodes[1], args[1], args[0].type)
        return operators.compared(op, left, right)

    def _coerced(self, node: exp.Expr, expr: Expr, wanted: DataType) -> Expr:
        try:
            return operators.coerced(expr, wanted)
        except ScriptError as error:
            raise self.report.placed(error, node) from None

    def _in(self, node: exp.Expr) -> Expr | None:
        nodes = [node.this, *node.expressions]
        args = self._all(nodes)
        if args is None:
            return None
        wanted = widest([NULL, *(arg.type for arg in args if arg.type != STRING)]) or NULL
        args = [self._coerced(part, arg, wanted) for part, arg in zip(nodes, args, strict=True)]
        alike = operators.in_one_type(args)
        if alike is None:
            raise self._unlike(nodes, args)
        return Literal(None, BOOLEAN) if args[0].type == NULL else Call("in", tuple(alike), BOOLEAN)

    def _unlike(self, nodes: Sequence[exp.Expr], args: Sequence[Expr]) -> ScriptError:
        """The error at the first value of an IN that cannot be compared with one before it."""
        before: dict[DataType, Expr] = {}
        for node, arg in zip(nodes, operators.exact(*args), strict=True):
            for other in before.values():
                try:
                    operators.compared("=", other, arg)
                except ScriptError as error:
                    return self.report.placed(error, node)
            before.setdefault(arg.type, arg)
        raise InternalError("values with no common type can all be compared")

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
        try:
            operators.check_pattern(str(args[1].value))
        except ScriptError as error:
            raise self.report.placed(error, node.expression) from None
        return Call("like", (operators.typed_null(args[0], STRING), args[1]), BOOLEAN)

    def _is_null(self, node: exp.Expr) -> Expr | None:
        arg = self.bind(node.this)
        return None if arg is None else Call("is_null", (arg,), BOOLEAN)

    def _arithmetic(self, node: exp.Expr) -> Expr | None:
        args = self._all([node.this, node.expression])
        if args is None:
            return None
        op = _ARITHMETIC[type(node)]
        days = any(_is_in_days(part) for part in (node.this, node.expression))
        moved = operators.moved_by_days(op, args[0], args[1]) if days else None
        return moved or operators.arithmetic(op, args[0], args[1])

    def _concat(self, node: exp.Expr) -> Expr | None:
        args = self._all([node.this, node.expression])
        return None if args is None else self._apply(BUILTINS["concat"], args)

    def _interval(self, node: exp.Expr) -> Expr | None:
        return Literal(microseconds_of(node.this, self.report), INTERVAL)

    def _case(self, node: exp.Expr) -> Expr | None:
        tests = self._tests(node)
        values = self._all(
            [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default") or exp.null()]
        )
        whens = [test for test in tests if test is not None]
        if values is None or len(whens) < len(tests):
            return None
        return operators.choice(whens, values)

    def _tests(self, node: exp.Expr) -> list[Expr | None]:
        """The conditions of a CASE; the operand after CASE is bound once and compared with each."""
        branches = node.args["ifs"]
        if not node.this:
            return [self.boolean(branch.this) for branch in branches]
        sought = self.bind(node.this)
        options = [self.bind(branch.this) for branch in branches]
        if sought is None or None in options:
            return [None]
        tests: list[Expr | None] = []
        for branch, option in zip(branches, options, strict=True):
            if option is not None:
                try:
                    tests.append(self._compare("=", [node.this, branch.this], [sought, option]))
                except ScriptError as error:
                    raise self.report.placed(error, branch.this) from None
        return tests

    def _cast(self, node: exp.Expr) -> Expr | None:
        arg = self.bind(node.this)
        kind = data_type(node.args["to"], self.report)
        return None if arg is None else operators.cast(arg, kind, attempt=isinstance(node, exp.TryCast))

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
        result = function.result(args)
        if function.name == "if":
            return operators.choice([operators.typed_null(args[0], BOOLEAN)], args[1:])
        if result == NULL:
            return Literal(None, NULL)
        kinds = [function.of_null(position) or result for position in range(len(args))]
        args = [operators.typed_null(arg, kind) for arg, kind in zip(args, kinds, strict=True)]
        if function.call is not None:
            args = [operators.converted(arg, kind) for arg, kind in zip(args, function.takes, strict=True)]
        return Call(function.name, tuple(args), result)


def _is_in_days(node: exp.Expr) -> bool:
    """Whether this is an interval written in days, possibly with parentheses or a minus sign."""
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return isinstance(node, exp.Interval) and in_days(node.this)


def operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain of ANDs or ORs, which sqlglot nests one level for each."""
    found, rest = [], [node]
    while rest:
        part = rest.pop()
        if type(part) is kind:
            rest += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _is_open_condition(node: exp.Expr) -> bool:
    """Whether it is a condition without parentheses around it."""
    while isinstance(node, exp.Not) or (isinstance(node, exp.Paren) and not is_written(node)):
        node = node.this
    return isinstance(node, _CONDITIONS)


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
