"""Results in order, as the routing step of shared-join releases them.

A row's place is (the later of its two times, the batch its probing tuple came in, the age of the match). It is let out
to a query once nothing that is still to come for that query, from waiting units or from tuples not yet here, can
have an earlier place. So a tuple's wider matches hold back later tuples' rows, and the order of a query's rows does
not depend on policy, budget, or on which other queries share the chain.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import Ints
from millstream.engine.pairs import Pairs
from millstream.engine.units import Unit

Place = tuple[int, int, int]
SEQUENCE = "__sequence"
"""Hidden column: the arrival number of a row within its stream, which settles ties."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The earliest place a row still to come can have, for rows just made and for rows held before.

    They differ where a policy's routing keeps what it once held until its tuple has scanned the query's whole window.
    """

    fresh: Place
    held: Place


@dataclass(slots=True)
class _Part:
    """Rows of one unit in the order of their places; `turn` is the call to `release` they first waited for."""

    places: tuple[Ints, ...]
    rows: pa.RecordBatch
    turn: int

    def place(self, row: int) -> tuple[int, ...]:
        return tuple(int(values[row]) for values in self.places)

    def before(self, bound: tuple[int, ...]) -> int:
        """How many rows have a place before the bound."""
        start, stop = 0, self.rows.num_rows
        for values, limit in zip(self.places, bound, strict=False):
            here = values[start:stop]
            start, stop = start + int(np.searchsorted(here, limit)), start + int(np.searchsorted(here, limit, "right"))
        return start

    def cut(self, start: int, stop: int) -> _Part:
        return _Part(
            tuple(values[start:stop] for values in self.places), self.rows.slice(start, stop - start), self.turn
        )


class Held:
    """Rows of one query that wait for their turn: sorted parts, the one with the earliest row on top.

    A call to `release` touches only the parts it lets something out of, however much is held.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[tuple[int, ...], int, _Part]] = []
        self._count = self._rows = 0
        self._turn = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, pairs: Pairs, unit: Unit, rows: pa.RecordBatch) -> None:
        left, right = pairs.left.times.take(pairs.left_rows), pairs.right.times.take(pairs.right_rows)
        arrived = np.full(len(pairs), unit.probe.batch)
        ties = (
            np.asarray(pairs.left.gather(SEQUENCE, pairs.left_rows)),
            np.asarray(pairs.right.gather(SEQUENCE, pairs.right_rows)),
        )
        self._add((np.maximum(left, right), arrived, np.abs(right - left), *ties), rows, self._turn)

    def _add(self, places: tuple[Ints, ...], rows: pa.RecordBatch, turn: int) -> None:
        if rows.num_rows:
            order = _sorted(places)
            self._rows += rows.num_rows
            self._push(_Part(tuple(values[order] for values in places), rows.take(pa.array(order)), turn))

    def _push(self, part: _Part) -> None:
        self._count += 1
        heapq.heappush(self._parts, (part.place(0), self._count, part))

    def saved(self) -> pa.RecordBatch:
        """The waiting rows with their places; the first column tells the rows just made from those held before."""
        parts = [part for _, _, part in self._parts]
        fresh = [np.full(part.rows.num_rows, part.turn == self._turn) for part in parts]
        places = [np.concatenate(values) for values in zip(*(part.places for part in parts), strict=True)]
        rows = pa.Table.from_batches([part.rows for part in parts]).combine_chunks().to_batches()[0]
        columns = [pa.array(np.concatenate(fresh)), *map(pa.array, places), *rows.columns]
        names = [f"__place{number}" for number in range(len(places) + 1)]
        return pa.RecordBatch.from_arrays(columns, names=[*names, *rows.schema.names])

    @classmethod
    def restored(cls, saved: pa.RecordBatch) -> Held:
        count = sum(name.startswith("__place") for name in saved.schema.names)
        rows = pa.RecordBatch.from_arrays(saved.columns[count:], names=saved.schema.names[count:])
        fresh = np.asarray(saved.column(0).to_numpy(zero_copy_only=False), dtype=np.bool_)
        held = cls()
        held._turn = 1
        for turn, chosen in ((0, ~fresh), (1, fresh)):
            places = tuple(np.asarray(column)[chosen] for column in saved.columns[1:count])
            held._add(places, rows.filter(pa.array(chosen)), turn)
        return held

    def release(self, bounds: Bounds | None, sink: Callable[[pa.RecordBatch], None]) -> None:
        """Lets out, in order, the rows before the first that must wait; all of them where there is no bound."""
        blocked: tuple[int, ...] = (2**62,)
        touched: list[_Part] = []
        while self._parts and self._parts[0][0] < blocked:
            part = heapq.heappop(self._parts)[2]
            touched.append(part)
            if bounds is not None:
                free = part.before(bounds.fresh if part.turn == self._turn else bounds.held)
                if free < part.rows.num_rows:
                    blocked = min(blocked, part.place(free))
        self._turn += 1
        out: list[_Part] = []
        for part in touched:
            free = part.before(blocked)
            if free:
                out.append(part.cut(0, free))
            if free < part.rows.num_rows:
                self._push(part.cut(free, part.rows.num_rows))
        if out:
            self._rows -= sum(part.rows.num_rows for part in out)
            self._let_out(out, sink)

    def _let_out(self, parts: list[_Part], sink: Callable[[pa.RecordBatch], None]) -> None:
        table = pa.Table.from_batches([part.rows for part in parts])
        if not all(one.place(-1) < other.place(0) for one, other in pairwise(parts)):
            places = tuple(np.concatenate(values) for values in zip(*(part.places for part in parts), strict=True))
            table = table.take(pa.array(_sorted(places)))
        for batch in table.combine_chunks().to_batches():
            sink(batch)


def _sorted(places: tuple[Ints, ...]) -> Ints:
    """The order of places; what is the same in all of them, as the time mostly is, costs no sorting."""
    telling = [values for values in places if values[0] != values[-1] or (values != values[0]).any()]
    return np.lexsort(telling[::-1]) if telling else np.arange(len(places[0]))
