"""From arriving rows to segments: codes keys, assigns lanes, builds segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Ints, arrow_type
from millstream.engine.expressions import as_array, compile_expr
from millstream.engine.keys import Codes, codes
from millstream.engine.pairs import Conditions, blaming
from millstream.engine.segment import Lot, Segment, build
from millstream.model.functions import Function
from millstream.plan.key_classes import KeyPart
from millstream.plan.nodes import Lane, Pool, Signature

CODE = "\x01code"
"""Hidden column: the code by which a row is routed, where that has been computed already. No declared column can have a
control character in its name.
"""


class Intake:
    """The rows of one pool. A key that cannot be computed is the failure of its `readers`."""

    def __init__(
        self,
        pool: Pool,
        functions: Mapping[str, Function],
        *,
        readers: Sequence[str],
        conditions: Conditions,
        hash_bits: int,
    ) -> None:
        self._pool, self._readers, self._conditions, self._hash_bits = pool, readers, conditions, hash_bits
        self._by = _compiled(pool.by, functions)
        self._routed_by = _compiled(pool.spread.key, functions)

    def segments(
        self, rows: pa.RecordBatch, batch: int, hidden_from: frozenset[Signature], number: Callable[[], int]
    ) -> list[Segment]:
        """Makes segments of rows that are in time for all chains but those they are hidden from, one per lane that has
        any. Rows with a null key match nothing and are left out.
        """
        rows, keys = self._without_nulls(rows, self._by)
        if rows.num_rows and not self._pool.is_routed and self._routed_by:
            # Rows that routing cannot have brought together match nothing either.
            rows, routed_by = self._without_nulls(rows, self._routed_by)
            if CODE not in rows.schema.names:
                coded = codes(routed_by, rows.num_rows, self._hash_bits)
                rows = rows.append_column(CODE, pa.array(coded.view(np.int64)))
            keys = self._keys(rows, self._by)
        if not rows.num_rows:
            return []
        rows, coded = self._coded(rows, keys)
        found = []
        for lane, positions in self._laid_out(rows):
            some, own = (rows, coded) if positions is None else (rows.take(pa.array(positions)), coded[positions])
            lot, time = Lot(lane.reach, hidden_from), self._pool.stream.time
            found.append(build(number(), batch, lot, some, time, own, indexed=self._pool.is_indexed))
        return found

    def _coded(self, rows: pa.RecordBatch, keys: list[pa.Array]) -> tuple[pa.RecordBatch, Codes]:
        """The rows and the codes they are found by. The code they are routed by stays with them if it is another."""
        if not self._pool.is_routed:
            if not self._routed_by and CODE in rows.schema.names:
                rows = rows.drop_columns([CODE])
            return rows, codes(keys, rows.num_rows, self._hash_bits)
        if CODE not in rows.schema.names:
            return rows, codes(keys, rows.num_rows, self._hash_bits)
        coded = np.asarray(rows.column(CODE)).view(np.uint64)
        return rows.drop_columns([CODE]), coded

    def _keys(self, rows: pa.RecordBatch, compiled: _Compiled) -> list[pa.Array]:
        with blaming(self._readers):
            source = [expr(lambda column: rows.column(column.name)) for expr, _ in compiled]
            return [as_array(key, rows.num_rows, kind) for key, (_, kind) in zip(source, compiled, strict=True)]

    def key_of(self, row: pa.RecordBatch) -> list[object]:
        """The key of one row."""
        return [key[0].as_py() for key in self._keys(row, self._by)]

    def _without_nulls(self, rows: pa.RecordBatch, compiled: _Compiled) -> tuple[pa.RecordBatch, list[pa.Array]]:
        keys = self._keys(rows, compiled)
        known = [pc.is_valid(key) for key in keys if key.null_count]
        if known:
            mask = known[0]
            for other in known[1:]:
                mask = pc.and_(mask, other)
            rows, keys = rows.filter(mask), [key.filter(mask) for key in keys]
        return rows, keys

    def _laid_out(self, rows: pa.RecordBatch) -> list[tuple[Lane, Ints | None]]:
        lanes = self._pool.lanes
        if len(lanes) == 1 and not lanes[0].condition:
            return [(lanes[0], None)]
        found: list[tuple[Lane, Ints | None]] = []
        left_over = np.ones(rows.num_rows, dtype=np.bool_)
        for lane in lanes:
            passed = self._conditions.on(rows, lane.condition) & left_over
            left_over &= ~passed
            if passed.any():
                found.append((lane, np.flatnonzero(passed)))
        return found


_Compiled = list[tuple[Callable[..., object], pa.DataType]]


def _compiled(parts: Sequence[KeyPart], functions: Mapping[str, Function]) -> _Compiled:
    return [(compile_expr(part.expr, functions), arrow_type(part.type)) for part in parts]
