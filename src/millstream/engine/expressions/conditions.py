"""Predicates over Arrow columns: which rows pass, as a mask or as positions; unknown (null) does not pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Bools, Ints
from millstream.engine.expressions.compiler import compile_expr
from millstream.engine.expressions.operands import Compiled
from millstream.engine.expressions.raising import may_raise
from millstream.engine.expressions.some_rows import ColumnLookup, narrowed
from millstream.engine.expressions.values import as_mask
from millstream.model.expr import Expr
from millstream.model.functions import Function


def compile_condition(
    predicates: Sequence[Expr], functions: Mapping[str, Function]
) -> Callable[[ColumnLookup, int], Bools]:
    """All predicates at once: which rows pass."""
    if len(predicates) > 1 and any(may_raise(predicate, functions) for predicate in predicates):
        passing = compile_filter(predicates, functions)

        def passes_in_turn(columns: ColumnLookup, rows: int) -> Bools:
            kept = np.zeros(rows, dtype=np.bool_)
            kept[passing(columns, rows)] = True
            return kept

        return passes_in_turn
    compiled = [compile_expr(predicate, functions) for predicate in predicates]

    def passes(columns: ColumnLookup, rows: int) -> Bools:
        kept = np.ones(rows, dtype=np.bool_)
        for one in compiled:
            kept &= as_mask(one(columns), rows)
        return kept

    return passes


def compile_filter(
    predicates: Sequence[Expr], functions: Mapping[str, Function]
) -> Callable[[ColumnLookup, int], Ints]:
    """The same as positions of the rows that pass, which is faster where few do (bench tricks).

    Predicates that may raise come last and see only the rows that pass the others.
    """
    ordered = sorted(predicates, key=lambda predicate: may_raise(predicate, functions))
    careful = sum(may_raise(predicate, functions) for predicate in ordered)
    compiled = [compile_expr(predicate, functions) for predicate in ordered]
    first = compiled[: len(compiled) - careful] or compiled[:1]
    last = compiled[len(first) :]

    def passing(columns: ColumnLookup, rows: int) -> Ints:
        found = _passing(first, columns, rows)
        for one in last:
            if len(found):
                some = columns if len(found) == rows else narrowed(columns, found)
                found = found[as_mask(one(some), len(found))]
        return found

    return passing


def _passing(compiled: Sequence[Compiled], columns: ColumnLookup, rows: int) -> Ints:
    kept: pa.Array | None = None
    for one in compiled:
        value = one(columns)
        if not isinstance(value, pa.Scalar):
            kept = value if kept is None else pc.and_kleene(kept, value)
        elif not value.as_py():
            return np.empty(0, dtype=np.int64)
    if kept is None:
        return np.arange(rows)
    return np.asarray(pc.indices_nonzero(kept)).view(np.int64)
