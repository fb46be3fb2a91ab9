"""CREATE QUERY to a `Query` of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from sqlglot import exp

from millstream.errors import Errors, ScriptError, did_you_mean, listing
from millstream.model import types
from millstream.model.expr import Call, Column, Expr, Literal, canonical, conjuncts, order, sources
from millstream.model.functions import Function
from millstream.model.query import Key, Output, Query, RowsWindow, Source, TimeWindow, parse_weight
from millstream.model.stream import Stream, check_column, check_name
from millstream.sql.bounds import TimeBounds
from millstream.sql.expressions import Binder, operands
from millstream.sql.nodes import CreateQuery, SourceStar
from millstream.sql.operators import compared
from millstream.sql.options import options_of, pair
from millstream.sql.report import Report, series
from millstream.sql.scope import Scope
from millstream.sql.text import Text, too_deep
from millstream.sql.windows import window_clause


def bind_query(
    node: CreateQuery, streams: Mapping[str, Stream], functions: Mapping[str, Function], text: Text, errors: Errors
) -> Query | None:
    """The query, or None after reporting all its errors."""
    report = Report(text, errors, node.this.name)
    try:
        return _bind_query(node, streams, functions, text, report)
    except RecursionError:
        errors.add(too_deep(text.where(node, node.this.name)))
        return None


def _bind_query(
    node: CreateQuery, streams: Mapping[str, Stream], functions: Mapping[str, Function], text: Text, report: Report
) -> Query | None:
    name = node.this.name
    try:
        check_name("query", name)
    except ScriptError as error:
        report(error, node)
    given = options_of(node, report, read=False)
    if "weight" in given:
        try:
            parse_weight(pair(given["weight"])[1])
        except ScriptError as error:
            report(error, given["weight"].args["value"])
    options = tuple(pair(option) for option in given.values())
    scope = _scope(node, streams, report)
    if scope is None:
        return None
    binder = Binder(scope, functions, text, report)
    conditions = _conditions(node, binder)
    outputs = _outputs(node.args["outputs"], scope, binder)
    bounds = TimeBounds(scope, report)
    rest: list[Expr] = []
    for part, bound in conditions:
        predicates = conjuncts(bound) if bound is not None else ()
        rest += [predicate for predicate in predicates if not bounds.take(predicate, part)]
    complete = all(bound is not None for _, bound in conditions)
    window = _window(node, bounds, binder, complete=complete)
    if complete:
        _check_joined(rest, scope, node, report)
    if report.count or window is None or outputs is None:
        return None
    keys, selections, residual = _sorted_out(rest, len(scope.sources))
    return Query(name, scope.sources, keys, selections, residual, window, outputs, options, text.where(node, name))


def _scope(node: CreateQuery, streams: Mapping[str, Stream], report: Report) -> Scope | None:
    """The sources of FROM, or None after reporting errors in them."""
    before = report.count
    found: list[Source] = []
    for ref in node.args["sources"]:
        try:
            source = _source(ref, streams)
            if source.alias.lower() in (other.alias.lower() for other in found):
                raise ScriptError(
                    f'two sources are called "{source.alias}"', "each source has its own name", "Give one an alias."
                )
            found.append(source)
        except ScriptError as error:
            report(error, ref)
    if report.count > before:
        return None
    if len(found) < 2:
        alone = ScriptError("one stream in FROM", "a query joins two streams or more", "Name a second stream in FROM.")
        report(alone, node.args["sources"][0])
        return None
    return Scope(found, _merged(node, found))


def _merged(node: CreateQuery, found: Sequence[Source]) -> dict[str, set[int]]:
    """The columns of USING, each with the sources that share it; those of a later USING come first, as in Spark."""
    merged: dict[str, set[int]] = {}
    for position, ref in enumerate(node.args["sources"]):
        using: dict[str, set[int]] = {}
        for name in [name.name.lower() for name in ref.args.get("using") or []]:
            left = merged.get(name) or _having(name, found[:position])[:1]
            if left and found[position].stream.find(name) is not None:
                using[name] = {*left, position}
        merged = {**using, **{name: shared for name, shared in merged.items() if name not in using}}
    return merged


def _having(name: str, found: Sequence[Source]) -> list[int]:
    """The sources with a column of this name."""
    return [index for index, source in enumerate(found) if source.stream.find(name) is not None]


def _source(ref: exp.Expr, streams: Mapping[str, Stream]) -> Source:
    name = ref.this.name
    stream = streams.get(name.lower())
    if stream is None:
        names = [stream.name for stream in streams.values()]
        raise ScriptError(
            f'no stream "{name}"',
            f"the streams are {listing(names)}" if names else "the script declares no stream",
            did_you_mean(name, names, "Declare it with CREATE STREAM."),
        )
    alias = ref.args.get("alias")
    return Source(alias.name if alias else name, stream)


def _conditions(node: CreateQuery, binder: Binder) -> list[tuple[exp.Expr, Expr | None]]:
    """The conjuncts of every ON, USING and WHERE, each with its bound expression."""
    found: list[tuple[exp.Expr, Expr | None]] = []
    for position, ref in enumerate(node.args["sources"]):
        if ref.args.get("on"):
            on = binder.upto(position)
            found += [(part, on.boolean(part)) for part in operands(ref.args["on"], exp.And)]
        for name in ref.args.get("using") or []:
            try:
                found.append((name, _using(name.name, position, binder.scope)))
            except ScriptError as error:
                binder.report(error, name)
                found.append((name, None))
    if node.args.get("condition"):
        found += [(part, binder.boolean(part)) for part in operands(node.args["condition"], exp.And)]
    return found


def _using(name: str, position: int, scope: Scope) -> Expr:
    right = scope.column(position, name)
    before = _having(name, scope.sources[:position])
    if not before:
        streams = list(dict.fromkeys(source.stream.name for source in scope.sources[:position]))
        known = dict.fromkeys(column.name for column in scope.columns() if column.source < position)
        raise ScriptError(
            f'no column "{name}" in {series(streams, "or")}',
            f"USING takes a column of both sides, and the left one has {listing(known)}",
            did_you_mean(name, known, "Use one of these, or ON."),
        )
    left = scope.column(before[0], name)
    aliases = [source.alias for source in scope.sources]
    if len(before) > 1 and not scope.shares(name, before):
        raise ScriptError(
            f'"{name}" is ambiguous in USING',
            f"to the left of {aliases[position]} it may mean {series([f'{aliases[i]}.{name}' for i in before], 'or')}",
            f"Use ON, such as ON {aliases[before[-1]]}.{name} = {aliases[position]}.{name}.",
        )
    try:
        return compared("=", left, right)
    except ScriptError as error:
        sides = [f"{column.type} of {aliases[column.source]}" for column in (left, right)]
        raise ScriptError(f"USING ({name}) meets {' and '.join(sides)}", error.valid, "Use ON with a CAST.") from None


def _sorted_out(
    predicates: Sequence[Expr], count: int
) -> tuple[tuple[Key, ...], tuple[tuple[Expr, ...], ...], tuple[Expr, ...]]:
    """Splits the conjuncts into keys, selections on one source, and residual predicates."""
    keys: dict[Key, None] = {}
    selections: list[set[Expr]] = [set() for _ in range(count)]
    residual: set[Expr] = set()
    for predicate in predicates:
        key = _key(predicate)
        looks_at = sources(predicate)
        if key is not None:
            keys[key] = None
        elif len(looks_at) == 1:
            selections[min(looks_at)].add(canonical(predicate))
        else:
            residual.add(canonical(predicate))
    return (
        tuple(sorted(keys, key=lambda key: (order(key.left), order(key.right)))),
        tuple(tuple(sorted(selection, key=order)) for selection in selections),
        tuple(sorted(residual, key=order)),
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


def _check_joined(predicates: Sequence[Expr], scope: Scope, node: CreateQuery, report: Report) -> None:
    """Refuses sources that no predicate connects with the first, directly or through others."""
    links = [looks_at for predicate in predicates if len(looks_at := sources(predicate)) > 1]
    aliases = [source.alias for source in scope.sources]
    joined: set[int] = set()
    for first in range(len(aliases)):
        if first in joined:
            continue
        group = {first}
        for _ in aliases:
            group.update(source for link in links if link & group for source in link)
        if first > 0:
            loose, others = [aliases[i] for i in sorted(group)], [aliases[i] for i in sorted(joined)]
            error = ScriptError(
                f"nothing but time joins {series(loose, 'and')} with {series(others, 'and')}",
                "a query has a join predicate over its streams",
                f"Add one such as {others[0]}.key = {loose[0]}.key.",
            )
            report(error, node.args["sources"][first])
        joined |= group


def _window(node: CreateQuery, bounds: TimeBounds, binder: Binder, *, complete: bool) -> TimeWindow | RowsWindow | None:
    """The window; a missing bound is not reported where some condition could not be bound."""
    clause = node.args.get("window")
    if clause is None:
        return bounds.window(node.args["sources"]) if complete else None
    try:
        if bounds:
            raise ScriptError(
                "a WINDOW and an interval predicate on the time columns",
                "a query has one or the other",
                "Remove one of them.",
            )
        return window_clause(clause, binder.scope, binder.report)
    except ScriptError as error:
        binder.report(error, clause)
        return None


def _outputs(nodes: Sequence[exp.Expr], scope: Scope, binder: Binder) -> tuple[Output, ...] | None:
    """The SELECT list. Where names would clash, a column is named after its source too: T_Value, H_Value."""
    named: list[tuple[exp.Expr, str | None, Expr]] = []
    complete = True
    for node in nodes:
        if isinstance(node, exp.Star | SourceStar):
            columns = _star(node, scope, binder)
            complete = complete and columns is not None
            named += [(node, None, column) for column in columns or []]
            continue
        bound = binder.output(node.this if isinstance(node, exp.Alias) else node)
        if bound is None:
            complete = False
        else:
            named.append((node, node.alias if isinstance(node, exp.Alias) else None, bound))
    plain = Counter((name or _own_name(expr) or "").lower() for _, name, expr in named)
    outputs: dict[str, Output] = {}
    for position, (node, name, expr) in enumerate(named):
        if name is None:
            own = _own_name(expr)
            twice = own is not None and plain[own.lower()] > 1
            alias = scope.sources[min(sources(expr))].alias if twice else ""
            name = f"{alias}_{own}" if twice else own or f"_c{position}"
        try:
            check_column(name)
        except ScriptError as odd:
            binder.report(odd, node)
        if name.lower() in outputs:
            starred = isinstance(node, exp.Star | SourceStar)
            todo = "List the columns, and rename one with AS." if starred else "Rename one with AS."
            found = f'two result columns are named "{name}"'
            binder.report(ScriptError(found, "result columns have different names", todo), node)
        outputs[name.lower()] = Output(name, expr)
    return tuple(outputs.values()) if complete else None


def _own_name(expr: Expr) -> str | None:
    """The name of a column or of a field of a struct."""
    if isinstance(expr, Column):
        return expr.name
    if isinstance(expr, Call) and expr.op == "field" and isinstance(expr.args[1], Literal):
        return str(expr.args[1].value)
    return None


def _star(node: exp.Expr, scope: Scope, binder: Binder) -> list[Column] | None:
    if isinstance(node, exp.Star):
        return scope.columns()
    try:
        return scope.columns(scope.source(node.this.name))
    except ScriptError as error:
        binder.report(error, node)
        return None
