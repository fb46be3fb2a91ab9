"""Which rows go to which slot.

A row's key becomes a 64-bit code; the leading bits of the code are its partition group, and a table says which slot
serves a group. A stream that several chains join by different keys is read once and sent once per key: each of these
ways is a route. Plain columns are hashed by Spark; keys that are expressions are computed by the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.column import Column

from millstream.engine.intake import CODE, Intake
from millstream.engine.keys import GROUP_BITS, codes
from millstream.engine.pairs import Conditions
from millstream.errors import QueryFailed
from millstream.model.expr import Column as ColumnExpr
from millstream.model.expr import Expr
from millstream.model.functions import Function
from millstream.model.stream import Stream
from millstream.pipeline.sources import BAD, STREAM, payload
from millstream.plan.nodes import LEFT, RIGHT, Chain, Plan

ROUTE, SLOT = "route", "slot"
GROUPS = 1 << GROUP_BITS
Signature = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """A stream by one key. `hashed` names the columns and types Spark hashes, or None where the engine computes."""

    stream: int
    hashed: tuple[tuple[str, str], ...] | None
    chain: Chain
    side: str


@dataclass(frozen=True, slots=True)
class Routing:
    """The routes of a plan, and for each chain and side the route its rows come by."""

    streams: tuple[Stream, ...]
    routes: tuple[Route, ...]
    ways: Mapping[tuple[Signature, str], int]

    @classmethod
    def of(cls, plan: Plan) -> Routing:
        streams = plan.script.streams
        numbers = {stream.name: number for number, stream in enumerate(streams)}
        routes: list[Route] = []
        known: dict[object, int] = {}
        ways = {}
        for chain in plan.chains:
            plain = all(_is_plain(key.left) and _is_plain(key.right) for key in chain.keys)
            for side, stream in zip((LEFT, RIGHT), chain.streams, strict=True):
                exprs = [(key.left if side == LEFT else key.right, str(key.type)) for key in chain.keys]
                hashed = tuple((expr.name, kind) for expr, kind in exprs if isinstance(expr, ColumnExpr))
                # Without a key all rows of a chain must meet, so the chain itself is the key.
                same: object = (stream.name, hashed) if plain and hashed else (chain.signature, side)
                if same not in known:
                    known[same] = len(routes)
                    routes.append(Route(numbers[stream.name], hashed if plain else None, chain, side))
                ways[chain.signature, side] = known[same]
        return cls(streams, tuple(routes), ways)


class Router:
    """Gives every row of a batch its slot. What it asks of Spark is said once, since saying it costs every batch."""

    def __init__(self, routing: Routing, table: Sequence[int], functions: Mapping[str, Function]) -> None:
        self._routes, self._functions = routing.routes, functions
        kept = [sf.col(BAD), *(sf.col(payload(number)) for number in range(len(routing.streams)))]
        used = {route.stream for route in routing.routes}
        slots = sf.array(*map(sf.lit, table))
        self._filter = sf.col(STREAM).isin(*used) if len(used) < len(routing.streams) else None
        self._is_computed = any(route.hashed is None for route in routing.routes)
        self._ways: list[Column] = []
        route, code = sf.col(ROUTE), sf.col(CODE)
        if not self._is_computed and len(used) < len(routing.routes):
            self._ways = [*kept, sf.inline(_several_ways(routing.routes)).alias(ROUTE, CODE)]
        elif not self._is_computed:
            route = _cases([(route.stream, sf.lit(number)) for number, route in enumerate(routing.routes)])
            code = _cases([(route.stream, _code(route)) for route in routing.routes])
        slot = slots[sf.shiftrightunsigned(code, 64 - GROUP_BITS).cast("int")]
        self._columns = [*kept, route.alias(ROUTE), code.alias(CODE), slot.alias(SLOT)]

    def routed(self, rows: DataFrame) -> DataFrame:
        """The rows of a batch, each with the slot that will work on it."""
        if self._is_computed:
            rows = _computed(rows, self._routes, self._functions)
        elif self._ways:
            rows = rows.select(*self._ways)
        elif self._filter is not None:
            rows = rows.filter(self._filter)
        return rows.select(*self._columns)


def _several_ways(routes: Sequence[Route]) -> Column:
    """For each row an array of the routes it goes by, with its code on each."""
    by_stream: dict[int, list[Column]] = {}
    for number, route in enumerate(routes):
        way = sf.struct(sf.lit(number).alias("r"), _code(route).alias("c"))
        by_stream.setdefault(route.stream, []).append(way)
    return _cases([(stream, sf.array(*some)) for stream, some in by_stream.items()])


def _cases(by_stream: Sequence[tuple[int, Column]]) -> Column:
    """A value that depends on the stream; null for streams without one."""
    (stream, first), *others = by_stream
    value = sf.when(sf.col(STREAM) == stream, first)
    for stream, other in others:
        value = value.when(sf.col(STREAM) == stream, other)
    return value


def _is_plain(expr: Expr) -> bool:
    return isinstance(expr, ColumnExpr)


def _code(route: Route) -> Column:
    if not route.hashed:
        return sf.xxhash64(sf.lit(" ".join(route.chain.signature)))
    integers = len(route.hashed) == 1 and route.hashed[0][1] in ("TINYINT", "SMALLINT", "INT", "BIGINT")
    struct = sf.col(payload(route.stream))
    return sf.xxhash64(*(struct.getField(name).cast("BIGINT" if integers else kind) for name, kind in route.hashed))


def _computed(rows: DataFrame, routes: Sequence[Route], functions: Mapping[str, Function]) -> DataFrame:
    """Keys that are expressions: the engine computes the codes, before the shuffle."""
    kept = [column for column in rows.columns if column != STREAM]

    def coded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        intakes = [Intake(r.chain, r.side, functions, Conditions(functions, lambda _: ()), 64) for r in routes]
        for batch in batches:
            streams = np.asarray(batch.column(STREAM))
            for number, (route, intake) in enumerate(zip(routes, intakes, strict=True)):
                own = batch.filter(pa.array(streams == route.stream))
                if own.num_rows:
                    numbers = pa.array(np.full(own.num_rows, number, dtype=np.int32))
                    code = pa.array(_codes_of(own.column(payload(route.stream)), intake).view(np.int64))
                    columns = [own.column(STREAM), *(own.column(name) for name in kept), numbers, code]
                    yield pa.RecordBatch.from_arrays(columns, names=[STREAM, *kept, ROUTE, CODE])

    schema = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.select(STREAM, *kept).schema)
    return rows.select(STREAM, *kept).mapInArrow(coded, f"{schema}, {ROUTE} INT, {CODE} BIGINT")


def _codes_of(structs: pa.StructArray, intake: Intake) -> np.ndarray:
    rows = pa.RecordBatch.from_arrays(structs.flatten(), names=[field.name for field in structs.type])
    try:
        keys = intake.keys(rows)
    except QueryFailed:
        return np.zeros(rows.num_rows, dtype=np.uint64)  # the slot meets the same failure, and reports it
    known = np.ones(rows.num_rows, dtype=np.bool_)
    for key in keys:
        known &= np.asarray(key.is_valid())
    found = np.zeros(rows.num_rows, dtype=np.uint64)
    found[known] = codes([key.filter(pa.array(known)) for key in keys], int(known.sum()))
    return found
