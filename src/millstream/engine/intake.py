"""From arriving rows to segments: codes keys, assigns lanes, builds segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Ints, arrow_type
from millstream.engine.expressions import as_array, compile_expr
from millstream.engine.keys import codes, is_exact
from millstream.engine.pairs import ColumnRef, Conditions, Pairs, blaming
from millstream.engine.segment import Segment, build
from millstream.model.expr import Column
from millstream.model.functions import Function
from millstream.plan.nodes import LEFT, Chain, Lane

CODE = "\x01code"
"""Hidden column: a row's key code, where routing has computed it already. No declared column can have a control
character in its name.
"""


def equal_columns(chain: Chain, probing: str) -> dict[ColumnRef, ColumnRef]:
    """The state's columns whose values are those of a column of the probing side, because they are the join key."""
    found: dict[ColumnRef, ColumnRef] = {}
    for key in chain.keys:
        left, right = key.left, key.right
        if isinstance(left, Column) and isinstance(right, Column) and left.type == right.type == key.type:
            refs = ((left.source, left.name), (right.source, right.name))
            found.update([refs[::-1] if probing == LEFT else refs])
    return found if is_exact([arrow_type(key.type) for key in chain.keys]) else {}


class Intake:
    """One side of a chain."""

    def __init__(
        self, chain: Chain, side: str, functions: Mapping[str, Function], conditions: Conditions, hash_bits: int
    ) -> None:
        self._side = side
        self._everyone = [member.name for member in chain.members]
        self._time = (chain.streams[0] if side == LEFT else chain.streams[1]).time
        self._conditions = conditions
        self._hash_bits = hash_bits
        parts = [(key.left if side == LEFT else key.right, arrow_type(key.type)) for key in chain.keys]
        self._keys = [(compile_expr(expr, functions), kind) for expr, kind in parts]
        self.exact = is_exact([kind for _, kind in parts])

    def pair_keys(self, pairs: Pairs) -> list[pa.Array]:
        """This side's keys of matched pairs, in the types both sides are compared as."""
        return [as_array(compiled(pairs.column), len(pairs), kind) for compiled, kind in self._keys]

    def keys(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """This side's keys of rows, null where a part of the key is."""
        with blaming(self._everyone):
            source = [compiled(lambda column: rows.column(column.name)) for compiled, _ in self._keys]
            return [as_array(key, rows.num_rows, kind) for key, (_, kind) in zip(source, self._keys, strict=True)]

    def segments(
        self, rows: pa.RecordBatch, batch: int, lanes: tuple[Lane, ...], number: Callable[[], int]
    ) -> list[Segment]:
        """Makes segments of rows that are not late, one per lane that has any. Rows with a null key match nothing and
        are left out.
        """
        keys = self.keys(rows)
        known = [pc.is_valid(key) for key in keys if key.null_count]
        if known:
            mask = known[0]
            for other in known[1:]:
                mask = pc.and_(mask, other)
            rows, keys = rows.filter(mask), [key.filter(mask) for key in keys]
        if not rows.num_rows:
            return []
        if CODE in rows.schema.names:
            coded = np.asarray(rows.column(CODE)).view(np.uint64)
            rows = rows.drop_columns([CODE])
        else:
            coded = codes(keys, rows.num_rows, self._hash_bits)
        found = []
        for lane, positions in self._laid_out(rows, lanes):
            some, own = (rows, coded) if positions is None else (rows.take(pa.array(positions)), coded[positions])
            found.append(build(number(), self._side, batch, lane.reach, some, self._time, own))
        return found

    def _laid_out(self, rows: pa.RecordBatch, lanes: tuple[Lane, ...]) -> list[tuple[Lane, Ints | None]]:
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
