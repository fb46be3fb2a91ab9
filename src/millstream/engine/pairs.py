"""Pairs of matched rows, and a query's predicates and columns over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.engine import widths
from millstream.engine.arrow import Bools, Ints, arrow_type
from millstream.engine.expressions import as_array, compile_condition, compile_expr, compile_filter
from millstream.engine.gathered_rows import GatheredRows
from millstream.engine.segment import Segment
from millstream.errors import MillstreamError, QueryFailed
from millstream.model.expr import Column, Expr, moved, walk
from millstream.model.functions import Function
from millstream.plan.nodes import LEFT, RIGHT, Condition, Member

ColumnRef = tuple[int, str]
"""A column by its source, 0 or 1, and its name."""
Wide = tuple[tuple[str, ...], tuple[str, ...]]
"""Columns of the left and of the right side whose width is not fixed by their types."""


def wide_columns(exprs: Iterable[Expr]) -> Wide:
    """The variable-width columns that expressions use."""
    used = {part for expr in exprs for part in walk(expr) if isinstance(part, Column)}
    refs = sorted({(one.source, one.name) for one in used if widths.is_bulky(arrow_type(one.type))})
    left, right = (tuple(name for source, name in refs if source == side) for side in (0, 1))
    return left, right


@dataclass(slots=True)
class Pairs:
    """Matched rows of a left and a right segment, one of which may be gathered rows.

    `equal` names, for a column, the column of the other side that holds the same values: that of the probing rows,
    which are fewer and in the cache.
    """

    left: Segment | GatheredRows
    right: Segment | GatheredRows
    left_rows: Ints
    right_rows: Ints
    equal: Mapping[ColumnRef, ColumnRef]
    _gathered: dict[ColumnRef, pa.Array] = field(default_factory=dict)
    _whole: tuple[Pairs, int] | None = None
    """The pairs of which these are a range, and where the range begins."""

    def __len__(self) -> int:
        return len(self.left_rows)

    def column(self, column: Column) -> pa.Array:
        ref = (column.source, column.name)
        return self._column(self.equal.get(ref, ref))

    def _column(self, ref: ColumnRef) -> pa.Array:
        """A column of the pairs, gathered once. A range of pairs takes a part of the whole column where others will
        need the rest.
        """
        known = self._gathered.get(ref)
        if known is not None:
            return known
        source, name = ref
        if self._whole is not None:
            whole, start = self._whole
            if ref in whole._gathered or 2 * len(self) >= len(whole):
                return whole._column(ref).slice(start, len(self))
        segment, rows = (self.left, self.left_rows) if source == 0 else (self.right, self.right_rows)
        known = self._gathered[ref] = segment.gather(name, rows)
        return known

    def cut(self, wide: Wide) -> Iterator[Pairs]:
        """The same pairs in parts small enough that these columns can be gathered."""
        if not (wide[0] or wide[1]) or len(self) * self._widest(wide) <= widths.CHUNK_BYTES:
            yield self
            return
        sizes = self.left.widths(wide[0]).take(self.left_rows) + self.right.widths(wide[1]).take(self.right_rows)
        for start, stop in widths.stretches(sizes, widths.CHUNK_BYTES):
            yield self.part(start, stop)

    def _widest(self, wide: Wide) -> int:
        return self.left.widest(wide[0]) + self.right.widest(wide[1])

    def part(self, start: int, stop: int) -> Pairs:
        """A range of pairs, on its own."""
        return Pairs(self.left, self.right, self.left_rows[start:stop], self.right_rows[start:stop], self.equal)

    def differences(self) -> Ints:
        apart = self.right.times.take(self.right_rows, mode="clip")
        apart -= self.left.times.take(self.left_rows, mode="clip")
        return apart

    def at(self, positions: Ints) -> Pairs:
        left_rows, right_rows = (rows.take(positions, mode="clip") for rows in (self.left_rows, self.right_rows))
        return Pairs(self.left, self.right, left_rows, right_rows, self.equal)

    def stretch(self, start: int, stop: int) -> Pairs:
        """A view of a range of pairs."""
        if start == 0 and stop == len(self.left_rows):
            return self
        left_rows, right_rows = self.left_rows[start:stop], self.right_rows[start:stop]
        return Pairs(self.left, self.right, left_rows, right_rows, self.equal, _whole=(self, start))


class MemberRun:
    """A running query: its compiled predicates and columns. `since` is the first batch whose rows it may see."""

    def __init__(self, member: Member, functions: Mapping[str, Function], since: int) -> None:
        self.name = member.name
        self.interval = member.interval
        self.since = since
        self.conditions = {LEFT: member.left, RIGHT: member.right}
        self._residual = compile_filter(member.residual, functions) if member.residual else None
        turned: Callable[[int], int] = (lambda source: 1 - source) if member.flipped else (lambda source: source)
        outputs = [(output.name, moved(output.expr, turned)) for output in member.query.outputs]
        self.schema = pa.schema([pa.field(name, arrow_type(expr.type)) for name, expr in outputs])
        self._columns = [_column(expr, functions) for _, expr in outputs]
        self.wide = wide_columns([*(expr for _, expr in outputs), *member.residual])
        self.takes_all = not (member.left or member.right or member.residual)
        # A str, because Python caches its hash.
        parts = (outputs, sorted(map(repr, member.left)), sorted(map(repr, member.right)), member.residual)
        self.group = repr(parts)

    def rows(self, pairs: Pairs) -> pa.RecordBatch:
        """The SELECT list over pairs."""
        with blaming([self.name]):
            columns = [column(pairs) for column in self._columns]
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def residual(self, pairs: Pairs) -> Ints | None:
        """The positions of the pairs that pass the residual predicate; None where there is none."""
        if self._residual is None or not len(pairs):
            return None
        with blaming([self.name]):
            return self._residual(pairs.column, len(pairs))


def _column(expr: Expr, functions: Mapping[str, Function]) -> Callable[[Pairs], pa.Array]:
    """A column of the SELECT list, in its type."""
    if isinstance(expr, Column):
        return lambda pairs: pairs.column(expr)
    compiled, kind = compile_expr(expr, functions), arrow_type(expr.type)
    return lambda pairs: as_array(compiled(pairs.column), len(pairs), kind)


class Conditions:
    """Selections, compiled once and evaluated for all queries at once: when rows arrive, to find their lanes, and when
    a segment is first joined, also after a merge. A failing selection is the failure of the queries that have it.
    """

    def __init__(self, functions: Mapping[str, Function], members: Iterable[MemberRun]) -> None:
        self._functions = functions
        self._owners: dict[Condition, list[str]] = {}
        for member in members:
            for condition in set(member.conditions.values()):
                self._owners.setdefault(condition, []).append(member.name)
        self._compiled: dict[Condition, Callable[[Callable[[Column], pa.Array], int], Bools]] = {}

    def passed(self, segment: Segment | GatheredRows, condition: Condition) -> Bools:
        return segment.passes(condition, lambda one: self.on(one.rows, condition))

    def on(self, rows: pa.RecordBatch, condition: Condition) -> Bools:
        """Which of these rows pass."""
        if condition not in self._compiled:
            ordered = sorted(condition, key=repr)
            self._compiled[condition] = compile_condition(ordered, self._functions)
        compiled = self._compiled[condition]

        def passed(start: int, stop: int) -> Bools:
            return compiled(lambda column: rows.column(column.name).slice(start, stop - start), stop - start)

        with blaming(self._owners.get(condition, ())):
            found = widths.in_halves(passed, 0, rows.num_rows)
        return found[0] if len(found) == 1 else np.concatenate(found)


@contextmanager
def building(queries: Iterable[str]) -> Iterator[None]:
    """Makes an error while compiling an expression the failure of these queries, so that the others go on."""
    try:
        yield
    except QueryFailed:
        raise
    except Exception as error:
        raise QueryFailed(queries, f"cannot be run: {error or type(error).__name__}") from error


@contextmanager
def blaming(queries: Iterable[str]) -> Iterator[None]:
    """Makes an error on an expression's rows (a user's function may raise anything) the failure of these queries."""
    try:
        yield
    except MillstreamError:
        raise
    except Exception as error:
        raise QueryFailed(queries, f"{type(error).__name__}: {error}") from error
