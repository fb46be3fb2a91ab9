"""AND, OR, IN, CASE, coalesce and nullif: parts that may raise are evaluated only on the rows that need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Bools, arrow_type
from millstream.engine.expressions.comparing import is_in
from millstream.engine.expressions.numbers import plain_cast
from millstream.engine.expressions.operands import FAILURES, Compiled, Operands, row_count, scalar
from millstream.engine.expressions.operations import Way, compared
from millstream.engine.expressions.some_rows import Choice, ColumnLookup, chosen, narrowed, spread
from millstream.engine.expressions.values import as_array, as_mask
from millstream.model import types
from millstream.model.expr import Call, Literal
from millstream.model.functions import widest

_FEW = 4
"""Up to this many constants of an IN are compared one by one, which is faster than a set lookup (bench tricks)."""


def _in(operands: Operands, call: Call) -> Compiled:
    kind = widest([arg.type for arg in call.args])
    if kind is not None and len(call.args) > _FEW + 1:
        wanted = arrow_type(kind)
        scalars = [plain_cast(scalar(arg), wanted) for arg in call.args[1:] if isinstance(arg, Literal)]
        member = is_in(call.args[1:], wanted, scalars)
        if member is not None:
            sought = operands.as_type(call.args[0], kind)
            return lambda columns: member(sought(columns))
    equal = [Call("=", (call.args[0], option), types.BOOLEAN) for option in call.args[1:]]
    if any(map(operands.may_raise, call.args[1:])):
        return _logic(operands, Call("or", tuple(equal), types.BOOLEAN))
    tests = [compared(operands, test) for test in equal]
    return lambda columns: reduce(pc.or_kleene, (test(columns) for test in tests))


def _logic(operands: Operands, call: Call) -> Compiled:
    """Parts that may raise come last and see only the rows that the others have not decided."""
    combine = pc.and_kleene if call.op == "and" else pc.or_kleene
    neutral = pa.scalar(call.op == "and")
    ordered = sorted(call.args, key=operands.may_raise)
    careful = [operands.may_raise(arg) for arg in ordered]
    (first, *rest), rows = [operands.compile(arg) for arg in ordered], row_count(call)

    def compute(columns: ColumnLookup) -> Any:
        found = first(columns)
        for part, care in zip(rest, careful[1:], strict=True):
            if not care:
                found = combine(found, part(columns))
                continue
            count = rows(columns)
            still = as_mask(pc.fill_null(pc.equal(found, neutral), True), count)
            open_rows = np.flatnonzero(still)
            if len(open_rows) == count:
                found = combine(found, part(columns))
            elif len(open_rows):
                value = as_array(part(narrowed(columns, open_rows)), len(open_rows), pa.bool_())
                other = pc.if_else(pa.array(still), spread(value, open_rows, count), neutral)
                found = combine(found, other)
        return found

    return compute


def _case(operands: Operands, call: Call) -> Compiled:
    kind, rows = arrow_type(call.type), row_count(call)
    *branches, otherwise = call.args
    whens = [operands.compile(arg) for arg in branches[::2]]
    thens = [operands.as_type(arg, call.type) for arg in (*branches[1::2], otherwise)]
    pairs = list(zip(whens, thens, strict=False))

    def at_once(columns: ColumnLookup) -> Any:
        result = thens[-1](columns)
        for when, then in reversed(pairs):
            result = pc.if_else(pc.fill_null(when(columns), False), then(columns), result)
        return as_array(result, rows(columns), kind)

    def in_turn(columns: ColumnLookup) -> Any:
        return chosen(columns, rows(columns), _cases(whens, thens), kind)

    return _careful(operands, call, at_once, in_turn)


def _coalesce(operands: Operands, call: Call) -> Compiled:
    kind, rows = arrow_type(call.type), row_count(call)
    args = [operands.as_type(arg, call.type) for arg in call.args]

    def at_once(columns: ColumnLookup) -> Any:
        return as_array(pc.coalesce(*(arg(columns) for arg in args)), rows(columns), kind)

    def in_turn(columns: ColumnLookup) -> Any:
        return chosen(columns, rows(columns), _first_known(args), kind)

    return _careful(operands, call, at_once, in_turn)


def _careful(operands: Operands, call: Call, at_once: Compiled, in_turn: Compiled) -> Compiled:
    """All rows at once, which is faster (bench tricks); if that raises, each branch on the rows that take it."""
    if not operands.may_raise(call):
        return at_once
    if operands.calls_users(call):
        return in_turn

    def compute(columns: ColumnLookup) -> Any:
        try:
            return at_once(columns)
        except FAILURES:
            return in_turn(columns)

    return compute


def _nullif(operands: Operands, call: Call) -> Compiled:
    value, kind = operands.compile(call.args[0]), arrow_type(call.type)
    same = compared(operands, Call("=", call.args, types.BOOLEAN))

    def compute(columns: ColumnLookup) -> Any:
        equal = pc.fill_null(same(columns), False)
        return pc.if_else(equal, pa.scalar(None, kind), value(columns))

    return compute


def _cases(whens: Sequence[Compiled], thens: Sequence[Compiled]) -> Iterator[Choice]:
    """For each branch: which of the remaining rows take it, and its values for them."""
    for when, then in zip(whens, thens, strict=False):
        yield partial(_where, when, then)
    yield partial(_everywhere, thens[-1])


def _first_known(args: Sequence[Compiled]) -> Iterator[Choice]:
    """For each argument: where it is not null, and its values there."""
    for arg in args[:-1]:
        yield partial(_where_known, arg)
    yield partial(_everywhere, args[-1])


def _where(when: Compiled, then: Compiled, columns: ColumnLookup, rows: int) -> tuple[Bools, Compiled]:
    return as_mask(when(columns), rows), then


def _where_known(arg: Compiled, columns: ColumnLookup, rows: int) -> tuple[Bools, Compiled]:
    value = arg(columns)
    mask = as_mask(pc.is_valid(value), rows)
    known = value if isinstance(value, pa.Scalar) else value.filter(pa.array(mask))
    return mask, lambda _: known


def _everywhere(then: Compiled, _columns: ColumnLookup, rows: int) -> tuple[Bools, Compiled]:
    return np.ones(rows, dtype=np.bool_), then


BRANCHES: Mapping[str, Way] = {
    "and": _logic,
    "or": _logic,
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _nullif,
}
