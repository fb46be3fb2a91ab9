"""Equal keys: the equalities that equal codes do not prove, and the columns that are the same because they are keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Bools, Ints, arrow_type
from millstream.engine.expressions import as_array, compile_expr
from millstream.engine.pairs import ColumnRef, Pairs, wide_columns
from millstream.model.expr import Column
from millstream.model.functions import Function
from millstream.model.query import Key
from millstream.plan.nodes import Chain


class Equalities:
    """Compares the keys of matched rows themselves, since codes may collide."""

    def __init__(self, keys: Sequence[Key], functions: Mapping[str, Function], positions: int) -> None:
        self._keys = [
            (compile_expr(key.left, functions), compile_expr(key.right, functions), arrow_type(key.type))
            for key in keys
        ]
        self._wide = wide_columns((expr for key in keys for expr in (key.left, key.right)), positions)

    def kept(self, pairs: Pairs) -> Pairs:
        """The pairs whose keys are equal."""
        kept = self.kept_positions(pairs)
        return pairs if kept is None else pairs.at(kept)

    def kept_positions(self, pairs: Pairs) -> Ints | None:
        """Where the pairs with equal keys are; None where all are."""
        if not self._keys or not len(pairs):
            return None
        kept = np.concatenate([self._equal(some) for some in pairs.cut(self._wide)])
        return None if kept.all() else np.flatnonzero(kept)

    def _equal(self, pairs: Pairs) -> Bools:
        kept = np.ones(len(pairs), dtype=np.bool_)
        for left, right, kind in self._keys:
            one, other = (as_array(side(pairs.column), len(pairs), kind) for side in (left, right))
            equal = pc.equal(one, other)
            if pa.types.is_floating(kind):
                equal = pc.or_(equal, pc.and_(pc.is_nan(one), pc.is_nan(other)))
            kept &= np.asarray(pc.fill_null(equal, False).to_numpy(zero_copy_only=False), dtype=np.bool_)
        return kept


def equal_columns(chain: Chain, at: int) -> dict[ColumnRef, ColumnRef]:
    """When a position probes, the columns whose values are those of a column placed before them, because equal codes
    prove the keys equal.
    """
    walk = chain.walks[at]
    checked = {key for step in walk for key in step.checked}
    placed = {at: 0, **{step.position: number for number, step in enumerate(walk, 1)}}
    found: dict[ColumnRef, ColumnRef] = {}
    proven = [key for key in chain.keys if key not in checked]
    for key in sorted(proven, key=lambda key: max(placed[one.source] for one in _columns(key)) if _columns(key) else 0):
        columns = sorted(_columns(key), key=lambda column: placed[column.source])
        if columns and columns[0].type == columns[1].type == key.type:
            first, second = ((column.source, column.name) for column in columns)
            found[second] = found.get(first, first)
    return found


def _columns(key: Key) -> list[Column]:
    """Both sides of a key where each is a column."""
    sides = [side for side in (key.left, key.right) if isinstance(side, Column)]
    return sides if len(sides) == 2 else []
