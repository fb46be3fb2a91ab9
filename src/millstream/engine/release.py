"""Results in order, as the routing step of shared-join releases them.

A row's place is (the later of its two times, the batch its probing tuple came in, the age of the match). It is let out
to a query once nothing that is still to come for that query, from waiting units or from tuples not yet here, can
have an earlier place. So a tuple's wider matches hold back later tuples' rows, and the order of a query's rows does
not depend on policy, budget, or on which other queries share the chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

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
class Held:
    """Rows of one query that wait for their turn."""

    places: list[tuple[Ints, ...]] = field(default_factory=list)
    rows: list[pa.RecordBatch] = field(default_factory=list)
    already_held: int = 0
    _looked: int = 0
    _least_held: tuple[int, ...] = ()

    def __len__(self) -> int:
        return sum(rows.num_rows for rows in self.rows)

    def add(self, pairs: Pairs, unit: Unit, rows: pa.RecordBatch) -> None:
        if not len(pairs):
            return
        left, right = pairs.left.times.take(pairs.left_rows), pairs.right.times.take(pairs.right_rows)
        arrived = np.full(len(pairs), unit.probe.batch)
        ties = (
            np.asarray(pairs.left.gather(SEQUENCE, pairs.left_rows)),
            np.asarray(pairs.right.gather(SEQUENCE, pairs.right_rows)),
        )
        self.places.append((np.maximum(left, right), arrived, np.abs(right - left), *ties))
        self.rows.append(rows)

    def release(self, bounds: Bounds | None, sink: Callable[[pa.RecordBatch], None]) -> None:
        """Lets out, in order, the rows whose place is before the bound; all of them where there is none."""
        if not self.rows or (bounds is not None and self._first_is_blocked(bounds)):
            return
        places = tuple(np.concatenate(parts) for parts in zip(*self.places, strict=True))
        order = np.lexsort(places[::-1])
        free = len(order)
        if bounds is not None:
            fresh = np.arange(len(order)) >= self.already_held
            blocked = ~np.where(fresh, _before(places, bounds.fresh), _before(places, bounds.held))[order]
            free = int(np.argmax(blocked)) if blocked.any() else len(order)
        table = pa.Table.from_batches(self.rows)
        if free:
            for batch in table.take(pa.array(order[:free])).combine_chunks().to_batches():
                sink(batch)
        rest = order[free:]
        self.already_held = len(rest)
        self.places = [tuple(part[rest] for part in places)] if len(rest) else []
        self.rows = table.take(pa.array(rest)).combine_chunks().to_batches() if len(rest) else []
        self._looked = len(self.places)
        self._least_held = tuple(int(part[rest[0]]) for part in places) if len(rest) else ()

    def _first_is_blocked(self, bounds: Bounds) -> bool:
        """Whether the row with the least place must wait, and with it all others: most calls end here."""
        fresh = [(_least(part), bounds.fresh) for part in self.places[self._looked :]]
        held = [(self._least_held, bounds.held)] if self._least_held else []
        least, bound = min(held + fresh)
        if least[:3] < bound:
            return False
        if fresh:
            self._looked, self._least_held = len(self.places), least
            self.already_held = sum(len(part[0]) for part in self.places)
        return True


def _least(places: tuple[Ints, ...]) -> tuple[int, ...]:
    first = np.lexsort(places[::-1])[0]
    return tuple(int(values[first]) for values in places)


def _before(places: tuple[Ints, ...], bound: Place) -> np.ndarray:
    time, batch, age = places[:3]
    earlier_batch = (batch < bound[1]) | ((batch == bound[1]) & (age < bound[2]))
    before: np.ndarray = (time < bound[0]) | ((time == bound[0]) & earlier_batch)
    return before
