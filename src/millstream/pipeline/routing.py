"""Which rows go to which slot.

A row's key becomes a 64-bit code: Spark's xxhash64 of the key's values, integers of any width as BIGINT. It depends on
the key alone, so a change of queries does not change codes. The leading bits of the code are its partition group, and a
table says which slot serves a group. A stream that several pools spread by different keys is read once and sent once
per key: a route is one stream by one key. Rows of a stream without the key that spreads a chain's other streams go to
every slot. Where a key is an expression the engine computes its values first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.column import Column

from millstream.engine.arrow import arrow_type
from millstream.engine.expressions import as_array, compile_expr
from millstream.engine.pairs import blaming, building
from millstream.errors import QueryFailed, ScriptError, Where
from millstream.model.expr import Column as ColumnExpr
from millstream.model.functions import Function
from millstream.pipeline.layout import BAD, STREAM, Layout
from millstream.pipeline.shedding import Filter, Routes
from millstream.plan.key_classes import KeyPart
from millstream.plan.nodes import Plan, PoolName, Spread

ROUTE, CODE, SLOT, UNKEYED = "route", "code", "slot", "unkeyed"


@dataclass(frozen=True, slots=True)
class Route:
    """A stream, spread over the slots in one way."""

    stream: int
    spread: Spread

    @property
    def key(self) -> tuple[KeyPart, ...]:
        return self.spread.key

    @property
    def is_keyed(self) -> bool:
        """Whether a row's key says where it goes."""
        return bool(self.key) and not self.spread.everywhere

    @property
    def coding(self) -> str:
        """How codes are computed from keys; recorded in the manifest, since state is found by code."""
        if self.spread.everywhere:
            return "everywhere"
        return f"xxhash64({', '.join(str(part.type) for part in self.key) or 'chain'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The routes of a plan, and for each pool the route of its rows.

    `counting` has one route of every stream: rows are counted, and late rows reported, on that route only.
    """

    layout: Layout
    routes: tuple[Route, ...]
    ways: Mapping[PoolName, int]
    counting: frozenset[int]

    @classmethod
    def of(cls, plan: Plan) -> Routing:
        layout = Layout.of(plan.script.streams)
        numbers = {stream.name: number for number, stream in enumerate(layout.streams)}
        routes: dict[Route, int] = {}
        ways = {}
        for pool in plan.pools:
            route = Route(numbers[pool.stream.name], pool.spread)
            ways[pool.name] = routes.setdefault(route, len(routes))
        first: dict[int, int] = {}
        for route, number in sorted(routes.items(), key=lambda one: not one[0].is_keyed):
            first.setdefault(route.stream, number)
        return cls(layout=layout, routes=tuple(routes), ways=ways, counting=frozenset(first.values()))

    def codings(self) -> dict[PoolName, str]:
        return {pool: self.routes[number].coding for pool, number in self.ways.items()}

    def counts(self, route: int, slot: int) -> bool:
        """Whether a slot counts the rows of a route: those that go to every slot are counted in the first."""
        return route in self.counting and (slot == 0 or not self.routes[route].spread.everywhere)


def check_codings(before: Mapping[PoolName, str], after: Mapping[PoolName, str], place: str) -> None:
    """Refuses routes that would code new rows differently from the state they join."""
    for pool, coding in after.items():
        known = before.get(pool, coding)
        if known != coding:
            raise ScriptError(
                f"keys in the state are coded as {known}",
                f"this Millstream codes them as {coding}, and would not find them",
                "Run the version that wrote the state, or start in a new directory.",
                Where(file=place),
            )


def check_groups(before: int, after: int, place: str) -> None:
    """Refuses another number of partition groups than the state is divided into."""
    if before != after:
        raise ScriptError(
            f"groups = {after}, and the state here is divided into {before} groups",
            "the number of groups stays the same for a directory's life",
            f"SET groups = {before}, or start in a new directory.",
            Where(file=place),
        )


class Router:
    """Assigns every row of a batch to its slot, by a table of the slot of each partition group. The Spark expressions
    are built once, since building them would cost every batch.
    """

    def __init__(self, routing: Routing, table: Sequence[int], functions: Mapping[str, Function]) -> None:
        routes, layout = routing.routes, routing.layout
        self._computing = _Computing(routing, functions)
        used = {route.stream for route in routes}
        names = [BAD, *([UNKEYED] if self._computing.parts else []), *(name for name, _ in layout.columns)]
        kept = [sf.col(name) for name in names]
        self._filter = sf.col(STREAM).isin(*used) if len(used) < len(layout.streams) else None
        self._ways: list[Column] = []
        route, code = sf.col(ROUTE), sf.col(CODE)
        if len(used) < len(routes) or any(one.spread.everywhere for one in routes):
            self._ways = [*kept, sf.inline(self._several_ways(routing, table)).alias(ROUTE, CODE)]
        else:
            route = _cases([(route.stream, sf.lit(number)) for number, route in enumerate(routes)])
            code = _cases([(route.stream, self._code(layout, route)) for route in routes])
        # One literal: an array of a thousand would be put together again in every batch.
        slots = sf.lit(np.array(table, dtype=np.int32))
        slot = slots[_group(code, len(table))]
        self._columns = [*kept, route.alias(ROUTE), code.alias(CODE), slot.alias(SLOT)]
        self._layout = layout
        self._routes = Routes(
            {number: routes[number].stream for number in routing.counting},
            [number for number, one in enumerate(routes) if not one.is_keyed],
        )

    def routed(self, rows: DataFrame, shed: Filter | None = None) -> DataFrame:
        """The rows of a batch that are kept, each with its slot."""
        if self._filter is not None:
            rows = rows.filter(self._filter)
        if shed is not None:
            rows = shed.of_rows(rows, self._layout)
        if self._computing.parts:
            rows = rows.mapInArrow(self._computing.added, self._computing.schema)
        if self._ways:
            rows = rows.select(*self._ways)
        rows = rows.select(*self._columns)
        return rows if shed is None else shed.of_keys(rows, self._layout, CODE, ROUTE, self._routes)

    def _several_ways(self, routing: Routing, table: Sequence[int]) -> Column:
        """For each row an array of its routes, with its code on each. A row that goes everywhere has a code of each
        slot.
        """
        by_stream: dict[int, list[Column]] = {}
        for number, route in enumerate(routing.routes):
            if route.spread.everywhere:
                codes = sf.lit(_codes_of_slots(table))
            else:
                codes = sf.array(self._code(routing.layout, route))
            ways = sf.transform(codes, partial(_way, number))
            by_stream.setdefault(route.stream, []).append(ways)
        return _cases([(stream, sf.concat(*some)) for stream, some in by_stream.items()])

    def _code(self, layout: Layout, route: Route) -> Column:
        """xxhash64 of one BIGINT is a bijection: each of its steps on eight bytes (a product with an odd number, a
        rotation, a xor with shifted bits) is invertible. So for one integer key equal codes mean equal keys, and the
        engine does not compare them again.
        """
        if not route.key:
            return sf.xxhash64(sf.lit(route.spread.chain))
        values = []
        for part in route.key:
            if isinstance(part.expr, ColumnExpr):
                values.append(sf.col(layout.place(route.stream, part.expr.name)).cast(str(part.type)))
            else:
                values.append(sf.col(self._computing.column(route.stream, part)))
        return sf.xxhash64(*values)


def _way(number: int, code: Column) -> Column:
    return sf.struct(sf.lit(number).alias("r"), code.alias("c"))


def _group(code: Column, groups: int) -> Column:
    """The partition group of a code."""
    bits = groups.bit_length() - 1
    return sf.shiftrightunsigned(code, 64 - bits).cast("int") if bits else sf.lit(0)  # Spark shifts by 64 as by 0


def _codes_of_slots(table: Sequence[int]) -> npt.NDArray[np.int64]:
    """A code of each slot, as Spark's BIGINT."""
    _, groups = np.unique(table, return_index=True)
    bits = len(table).bit_length() - 1
    codes = groups.astype(np.uint64) << np.uint64(64 - bits) if bits else np.zeros(1, dtype=np.uint64)
    return codes.view(np.int64)


def _cases(by_stream: Sequence[tuple[int, Column]]) -> Column:
    """A column whose value depends on the stream; null for streams without one."""
    (stream, first), *others = by_stream
    value = sf.when(sf.col(STREAM) == stream, first)
    for stream, other in others:
        value = value.when(sf.col(STREAM) == stream, other)
    return value


class _Computing:
    """Adds the values of key expressions, each as a column of its own, before rows are coded.

    Where an expression raises, its values are null and the column `unkeyed` says which part and why: the slot that gets
    the rows reports this as the failure of the queries that have this key.
    """

    def __init__(self, routing: Routing, functions: Mapping[str, Function]) -> None:
        self._layout, self._functions = routing.layout, functions
        found = [(route.stream, part) for route in routing.routes for part in route.key if part.is_computed]
        self.parts = tuple(dict.fromkeys(found))

    def column(self, stream: int, part: KeyPart) -> str:
        return f"key{self.parts.index((stream, part))}"

    @property
    def schema(self) -> str:
        """All columns of the output rows."""
        keys = [(self.column(*one), str(one[1].type)) for one in self.parts]
        columns = [(STREAM, "INT"), (BAD, "STRING"), *self._layout.columns, *keys, (UNKEYED, "STRING")]
        return ", ".join(f"{name} {kind}" for name, kind in columns)

    def added(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            streams = np.asarray(batch.column(STREAM))
            columns, failed = [], np.full(batch.num_rows, None, dtype=object)
            for stream, part in self.parts:
                mine = streams == stream
                rows = self._layout.rows(batch.filter(pa.array(mine)), stream)
                try:
                    values = self._values(part, rows)
                except QueryFailed as failure:
                    values = pa.nulls(rows.num_rows, arrow_type(part.type))
                    failed[mine] = _with(failed[mine], part, failure.cause)
                columns.append(_scattered(values, mine))
            names = [*batch.schema.names, *(self.column(*one) for one in self.parts), UNKEYED]
            unkeyed = pa.array(failed, pa.string())
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns, unkeyed], names=names)

    def _values(self, part: KeyPart, rows: pa.RecordBatch) -> pa.Array:
        """Only the slot knows which queries have the key, so no query is blamed here."""
        with building(()):
            compiled = compile_expr(part.expr, self._functions)
        with blaming(()):
            return as_array(compiled(lambda column: rows.column(column.name)), rows.num_rows, arrow_type(part.type))


def _with(before: np.ndarray, part: KeyPart, cause: str) -> str:
    known = json.loads(before[0]) if len(before) and before[0] else {}
    return json.dumps({**known, part.name: cause})


def _scattered(values: pa.Array, mine: np.ndarray) -> pa.Array:
    """Values of some rows among all, null for the others."""
    if mine.all():
        return values
    return values.take(pa.array(np.cumsum(mine) - 1, mask=~mine))


def unkeyed(batch: pa.RecordBatch, route: Route) -> str:
    """Why a key of this route could not be computed for some row; empty where it could for all."""
    if UNKEYED not in batch.schema.names or batch.column(UNKEYED).null_count == batch.num_rows:
        return ""
    computed = {part.name for part in route.key if part.is_computed}
    for told in batch.column(UNKEYED).drop_null().unique().to_pylist():
        for name, cause in json.loads(told).items():
            if name in computed:
                return str(cause)
    return ""
