"""Pairs of matched rows, and a query's predicates and columns over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.engine import widths
from millstream.engine.arrow import Bools, Ints, arrow_type
from millstream.engine.blame import cause_of
from millstream.engine.expressions import as_array, compile_condition, compile_expr, compile_filter
from millstream.engine.gathered_rows import GatheredRows
from millstream.engine.segment import Segment
from millstream.errors import InternalError, MillstreamError, QueryFailed
from millstream.model.expr import Column, Expr, moved, walk
from millstream.model.functions import Function
from millstream.plan.nodes import Condition, Member
from millstream.plan.statistics import in_pool

ColumnRef = tuple[int, str]
"""A column by its position in the chain and its name."""
Wide = tuple[tuple[str, ...], ...]
"""At each position, the columns whose width is not fixed by their types."""
Source = Segment | GatheredRows


def wide_columns(exprs: Iterable[Expr], positions: int) -> Wide:
    """The variable-width columns that expressions use."""
    used = {part for expr in exprs for part in walk(expr) if isinstance(part, Column)}
    refs = sorted({(one.source, one.name) for one in used if widths.is_bulky(arrow_type(one.type))})
    return tuple(tuple(name for source, name in refs if source == position) for position in range(positions))


@dataclass(slots=True)
class Pairs:
    """Matched rows, one of each position: where they are, and their row numbers there. A position that a walk has not
    come to yet has None.

    `equal` names, for a column, the column of another position that holds the same values: that of the probing rows,
    which are fewer and in the cache.
    """

    sources: tuple[Source | None, ...]
    rows: tuple[Ints | None, ...]
    equal: Mapping[ColumnRef, ColumnRef]
    _gathered: dict[ColumnRef, pa.Array] = field(default_factory=dict)
    _whole: tuple[Pairs, int] | None = None
    """The pairs of which these are a range, and where the range begins."""

    def __len__(self) -> int:
        first = self.rows[0]
        return len(first) if first is not None else next(len(rows) for rows in self.rows if rows is not None)

    def placed(self) -> Iterator[tuple[int, Source, Ints]]:
        """The positions that have rows."""
        for position, (source, rows) in enumerate(zip(self.sources, self.rows, strict=True)):
            if source is not None and rows is not None:
                yield position, source, rows

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
        position, name = ref
        if self._whole is not None:
            whole, start = self._whole
            if ref in whole._gathered or 2 * len(self) >= len(whole):
                return whole._column(ref).slice(start, len(self))
        source, rows = self.sources[position], self.rows[position]
        if source is None or rows is None:
            raise InternalError(f"a column of position {position} is asked for before its rows are found")
        known = self._gathered[ref] = source.gather(name, rows)
        return known

    def cut(self, wide: Wide) -> Iterator[Pairs]:
        """The same pairs in parts small enough that these columns can be gathered."""
        if not any(wide) or len(self) * sum(s.widest(wide[p]) for p, s, _ in self.placed()) <= widths.CHUNK_BYTES:
            yield self
            return
        sizes = np.zeros(len(self), dtype=np.int64)
        for position, source, rows in self.placed():
            sizes += source.widths(wide[position]).take(rows)
        for start, stop in widths.stretches(sizes, widths.CHUNK_BYTES):
            yield self.part(start, stop)

    def part(self, start: int, stop: int) -> Pairs:
        """A range of pairs, on its own."""
        return Pairs(self.sources, self._sliced(start, stop), self.equal)

    def _sliced(self, start: int, stop: int) -> tuple[Ints | None, ...]:
        return tuple([None if rows is None else rows[start:stop] for rows in self.rows])

    def times(self) -> list[Ints]:
        """The times of the rows at each position."""
        return [source.times.take(rows, mode="clip") for _, source, rows in self.placed()]

    def on_axis(self) -> Ints:
        """Where the pairs lie on the chain's axis: T_right - T_left of two rows, the span of more."""
        times = self.times()
        if len(times) == 2:
            apart = times[1]
            apart -= times[0]
            return apart
        greatest, least = times[0].copy(), times[0]
        for some in times[1:]:
            greatest, least = np.maximum(greatest, some), np.minimum(least, some)
        return greatest - least

    def at(self, positions: Ints) -> Pairs:
        rows = tuple([None if some is None else some.take(positions, mode="clip") for some in self.rows])
        return Pairs(self.sources, rows, self.equal)

    def stretch(self, start: int, stop: int) -> Pairs:
        """A view of a range of pairs."""
        if start == 0 and stop == len(self):
            return self
        return Pairs(self.sources, self._sliced(start, stop), self.equal, _whole=(self, start))


class MemberRun:
    """A running query: its compiled predicates and columns. `since` is the first batch whose rows it may see."""

    def __init__(self, member: Member, functions: Mapping[str, Function], since: int) -> None:
        self.name = member.name
        self.interval = member.interval
        self.since = since
        self.conditions = tuple(frozenset(map(in_pool, condition)) for condition in member.conditions)
        self.bounds = () if member.has_plain_window else member.bounds
        self._residual = compile_filter(member.residual, functions) if member.residual else None
        positions = {source: position for position, source in enumerate(member.order)}
        outputs = [(output.name, moved(output.expr, positions.__getitem__)) for output in member.query.outputs]
        self.schema = pa.schema([pa.field(name, arrow_type(expr.type)) for name, expr in outputs])
        self._columns = [_column(expr, functions) for _, expr in outputs]
        self.wide = wide_columns([*(expr for _, expr in outputs), *member.residual], len(positions))
        self.takes_all = not (any(member.conditions) or member.residual or self.bounds)
        # A str, because Python caches its hash.
        parts = (outputs, [sorted(map(repr, some)) for some in self.conditions], member.residual, self.bounds)
        self.group = repr(parts)

    def in_window(self, pairs: Pairs) -> Bools | None:
        """Which pairs are within all bounds; None where their place on the axis says so already."""
        kept: Bools | None = None
        times = pairs.times() if self.bounds else []
        for bound in self.bounds:
            apart = times[bound.right] - times[bound.left]
            passed = (apart >= bound.interval.lo) & (apart < bound.interval.hi)
            kept = passed if kept is None else kept & passed
        return kept

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
    a segment is first joined, also after a merge. A failing selection is the failure of its owners, the queries that
    have it.
    """

    def __init__(self, functions: Mapping[str, Function], owners: Mapping[Condition, Sequence[str]]) -> None:
        self._functions, self._owners = functions, owners
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
        raise QueryFailed(queries, cause_of(error)) from error
