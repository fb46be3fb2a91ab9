"""CREATE QUERY to a `Query` of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from millstream.errors import Errors, ScriptError, Where, did_you_mean, listing
from millstream.model import types
from millstream.model.expr import Call, Column, Expr, canonical, conjuncts, order, sources
from millstream.model.functions import Function
from millstream.model.query import Key, Output, Query, RowsWindow, Source, TimeWindow
from millstream.model.stream import Stream
from millstream.sql.dialect import CreateQuery
from millstream.sql.expressions import Binder
from millstream.sql.options import options_of
from millstream.sql.scope import Scope
from millstream.sql.text import Text
from millstream.sql.windows import TimeBounds, window_clause

_PARTS = ("expressions", "from_", "joins", "where", "windows")
_PART_NAMES = {
    "group": "GROUP BY",
    "having": "HAVING",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "distinct": "DISTINCT",
    "with_": "WITH",
    "qualify": "QUALIFY",
    "laterals": "LATERAL",
    "sample": "TABLESAMPLE",
    "into": "INTO",
}


def bind_query(
    node: CreateQuery, streams: Mapping[str, Stream], functions: Mapping[str, Function], text: Text, errors: Errors
) -> Query | None:
    """The query, or None after reporting everything that is wrong with it."""
    name = node.this.name
    select = node.args["select"]
    try:
        options = options_of(node)
        _check_shape(select)
        found = _sources(select, streams, text, errors, name)
    except ScriptError as error:
        errors.add(error.at(text.where(node, name)))
        return None
    if found is None:
        return None
    scope = Scope(found)
    binder = Binder(scope, functions, text, errors, name)
    predicates = _join_predicates(select, scope, binder)
    if select.args.get("where"):
        predicates.append(binder.boolean(select.args["where"].this))
    outputs = _outputs(select.expressions, scope, binder)
    known = [part for predicate in predicates if predicate is not None for part in conjuncts(predicate)]
    bounds = TimeBounds(scope)
    rest = [predicate for predicate in known if not bounds.take(predicate)]
    window = _window(select, bounds, binder) if select.args.get("windows") or None not in predicates else None
    if window is None or outputs is None or None in predicates:
        return None
    try:
        return _query(name, scope, rest, window, outputs, options, text.where(node, name))
    except ScriptError as error:
        errors.add(error.at(text.where(node, name)))
        return None


def _query(
    name: str,
    scope: Scope,
    predicates: Sequence[Expr],
    window: TimeWindow | RowsWindow,
    outputs: tuple[Output, ...],
    options: tuple[tuple[str, str], ...],
    where: Where,
) -> Query:
    keys: list[Key] = []
    selections: list[set[Expr]] = [set() for _ in scope.sources]
    residual: set[Expr] = set()
    for predicate in predicates:
        key = _key(predicate)
        looks_at = sources(predicate)
        if key is not None:
            keys.append(key)
        elif len(looks_at) == 1:
            selections[min(looks_at)].add(canonical(predicate))
        else:
            residual.add(canonical(predicate))
    joined = [predicate for predicate in predicates if len(sources(predicate)) > 1]
    if not joined:
        aliases = [source.alias for source in scope.sources]
        raise ScriptError(
            f"nothing but time joins {listing(aliases)}",
            "a query has a join predicate over its streams",
            f"Add one such as {aliases[0]}.key = {aliases[1]}.key.",
        )
    return Query(
        name,
        scope.sources,
        tuple(sorted(dict.fromkeys(keys), key=lambda key: (order(key.left), order(key.right)))),
        tuple(tuple(sorted(selection, key=order)) for selection in selections),
        tuple(sorted(residual, key=order)),
        window,
        outputs,
        options,
        where,
    )


def _key(predicate: Expr) -> Key | None:
    """An equality with one source on each side, the earlier source to the left."""
    if not (isinstance(predicate, Call) and predicate.op == "="):
        return None
    left, right = (canonical(arg) for arg in predicate.args)
    if len(sources(left)) != 1 or len(sources(right)) != 1 or sources(left) == sources(right):
        return None
    kind = types.common(left.type, right.type)
    if kind is None:
        return None
    return Key(left, right, kind) if min(sources(left)) < min(sources(right)) else Key(right, left, kind)


def _check_shape(select: exp.Expr) -> None:
    if not isinstance(select, exp.Select):
        raise ScriptError(
            "UNION and the like cannot make a query", "a query is one SELECT", "Write one query for each SELECT."
        )
    for part, value in select.args.items():
        if value and part not in _PARTS:
            raise ScriptError(
                f"{_PART_NAMES.get(part, part.rstrip('_').upper())} is not part of the language",
                "a query is SELECT ... FROM ... WHERE ... WINDOW ...",
                "Apply it to the results.",
            )
    if select.args.get("from_") is None:
        raise ScriptError("there is no FROM", "a query joins streams", "Add FROM a, b.")


def _sources(
    select: exp.Expr, streams: Mapping[str, Stream], text: Text, errors: Errors, query: str
) -> list[Source] | None:
    """The sources of FROM, or None after reporting what is wrong with some of them."""
    tables = [(select.args["from_"].this, None), *((join.this, join) for join in select.args.get("joins") or [])]
    found: list[Source] = []
    wrong = False
    for table, join in tables:
        try:
            if join is not None:
                _check_join(join)
            source = _source(table, streams)
            if source.alias.lower() in (other.alias.lower() for other in found):
                raise ScriptError(
                    f'two sources are called "{source.alias}"', "each source has its own name", "Give one an alias."
                )
            found.append(source)
        except ScriptError as error:
            errors.add(error.at(text.where(table, query)))
            wrong = True
    if wrong:
        return None
    if len(found) < 2:
        raise ScriptError("one stream in FROM", "a query joins two streams or more", "Name a second stream in FROM.")
    return found


def _source(table: exp.Expr, streams: Mapping[str, Stream]) -> Source:
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise ScriptError("a subquery in FROM", "FROM names streams", "Name a stream.")
    stream = streams.get(table.name.lower())
    if stream is None:
        names = [stream.name for stream in streams.values()]
        raise ScriptError(
            f'no stream "{table.name}"',
            f"the streams are {listing(names)}" if names else "no stream is declared before this query",
            did_you_mean(table.name, names, "Declare it with CREATE STREAM."),
        )
    return Source(table.alias or table.name, stream)


def _check_join(join: exp.Expr) -> None:
    words = [str(join.args[part]).upper() for part in ("method", "side", "kind") if join.args.get(part)]
    if any(word not in ("INNER", "CROSS") for word in words):
        raise ScriptError(f"{' '.join(words)} JOIN", "JOIN is an inner join", "Use JOIN ... ON, or FROM a, b WHERE ...")


def _join_predicates(select: exp.Expr, scope: Scope, binder: Binder) -> list[Expr | None]:
    predicates: list[Expr | None] = []
    for position, join in enumerate(select.args.get("joins") or [], start=1):
        if join.args.get("on"):
            predicates.append(binder.boolean(join.args["on"]))
        for name in join.args.get("using") or []:
            try:
                predicates.append(_using(name.name, position, scope))
            except ScriptError as error:
                binder.report(error, name)
                predicates.append(None)
    return predicates


def _using(name: str, position: int, scope: Scope) -> Expr:
    right = scope.column(position, name)
    left = next(
        (scope.column(i, name) for i in range(position) if scope.sources[i].stream.find(name) is not None), None
    )
    if left is None:
        left = scope.column(0, name)
    if types.common(left.type, right.type) is None:
        raise ScriptError(
            f"USING ({name}) meets {left.type} and {right.type}", "both columns have one type", "Use ON with a CAST."
        )
    return Call("=", (left, right), types.BOOLEAN)


def _window(select: exp.Expr, bounds: TimeBounds, binder: Binder) -> TimeWindow | RowsWindow | None:
    clause = select.args.get("windows")
    try:
        if clause is None:
            return bounds.window()
        if bounds:
            raise ScriptError(
                "a WINDOW and an interval predicate on the time columns",
                "a query has one or the other",
                "Remove one of them.",
            )
        return window_clause(clause, binder.scope)
    except ScriptError as error:
        binder.report(error, clause or select.args.get("where") or select)
        return None


def _outputs(nodes: Sequence[exp.Expr], scope: Scope, binder: Binder) -> tuple[Output, ...] | None:
    """The SELECT list. A column that needs it is named after its source too: T_Value, H_Value."""
    named: list[tuple[str | None, Expr]] = []
    complete = True
    for node in nodes:
        if _is_star(node):
            columns = _star(node, scope, binder)
            complete = complete and columns is not None
            named += [(None, column) for column in columns or []]
            continue
        bound = binder.bind(node.this if isinstance(node, exp.Alias) else node)
        if bound is None:
            complete = False
        else:
            named.append((node.alias if isinstance(node, exp.Alias) else None, bound))
    if not complete:
        return None
    plain = [(name or (expr.name if isinstance(expr, Column) else "")).lower() for name, expr in named]
    outputs = []
    for position, (name, expr) in enumerate(named):
        if name is None and isinstance(expr, Column):
            twice = plain.count(expr.name.lower()) > 1
            name = f"{scope.sources[expr.source].alias}_{expr.name}" if twice else expr.name
        outputs.append(Output(name or f"_c{position}", expr))
    return tuple(outputs)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _star(node: exp.Expr, scope: Scope, binder: Binder) -> list[Column] | None:
    star = node if isinstance(node, exp.Star) else node.this
    try:
        if any(star.args.values()):
            raise ScriptError("* with EXCEPT, REPLACE or RENAME", "* selects all columns", "List the columns you want.")
        wanted = [scope.source(node.table)] if isinstance(node, exp.Column) else range(len(scope.sources))
    except ScriptError as error:
        binder.report(error, node)
        return None
    return [scope.column(index, column.name) for index in wanted for column in scope.sources[index].stream.columns]
