"""Evaluation on some rows: what is taken, put back and chosen lies where it belongs, and nothing else is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.expressions.some_rows import ColumnLookup, chosen, narrowed, spread, where_known
from millstream.model.expr import Column
from millstream.model.types import BIGINT

A = Column(0, "a", BIGINT)


class Counted:
    """A column of numbers, and how often it was asked for."""

    def __init__(self, values: list[Any]) -> None:
        self.values, self.asked = pa.array(values, pa.int64()), 0

    def __call__(self, _: Column) -> pa.Array:
        self.asked += 1
        return self.values


def test_narrowed_columns_are_taken_once() -> None:
    columns = Counted([10, 11, None, 13])
    some = narrowed(columns, np.array([3, 2]))
    assert some(A).to_pylist() == some(A).to_pylist() == [13, None]
    assert columns.asked == 1


@given(rows=st.sets(st.integers(0, 9)), count=st.integers(10, 12))
def test_spread_puts_values_back(rows: set[int], count: int) -> None:
    order = np.array(sorted(rows), dtype=np.int64)
    found = spread(pa.array([f"row {row}" for row in sorted(rows)], pa.string()), order, count)
    assert found.to_pylist() == [f"row {row}" if row in rows else None for row in range(count)]


@given(known=st.lists(st.booleans(), max_size=8))
def test_where_known_looks_at_no_other_row(known: list[bool]) -> None:
    columns = Counted(list(range(len(known))))
    seen: list[int] = []

    def value(some: ColumnLookup) -> pa.Array:
        seen.extend(some(A).to_pylist())
        return some(A)

    first = pa.array([1 if one else None for one in known], pa.int64())
    found = where_known(first, columns, len(known), value, pa.int64())
    assert found.to_pylist() == [row if one else None for row, one in enumerate(known)]
    assert seen == [row for row, one in enumerate(known) if one]


def test_where_a_constant_is_null_nothing_is_looked_at() -> None:
    found = where_known(pa.scalar(None, pa.int64()), Counted([1, 2]), 2, lambda _: 1 / 0, pa.string())
    assert found.equals(pa.nulls(2, pa.string()))


@given(classes=st.lists(st.integers(0, 3), max_size=12))
def test_each_row_has_the_value_of_the_first_choice_that_takes_it(classes: list[int]) -> None:
    """Choices 0 to 2 take their own class, the last one all that are left; each sees only what it is asked for."""
    columns = Counted(list(range(len(classes))))

    def choice(number: int) -> Callable[[ColumnLookup, int], Any]:
        def take(some: ColumnLookup, count: int) -> Any:
            rows = some(A).to_pylist()
            assert len(rows) == count
            assert all(classes[row] >= number for row in rows), "taken by an earlier choice"
            mask = np.array([number == 3 or classes[row] == number for row in rows], dtype=np.bool_)
            if number == 2:
                return mask, lambda _: pa.scalar("constant")
            return mask, lambda own: pa.array([f"{number}: {row}" for row in own(A).to_pylist()], pa.string())

        return take

    def choices() -> Iterator[Any]:
        yield from map(choice, range(4))

    found = chosen(columns, len(classes), choices(), pa.string()).to_pylist()
    assert found == ["constant" if one == 2 else f"{one}: {row}" for row, one in enumerate(classes)]
