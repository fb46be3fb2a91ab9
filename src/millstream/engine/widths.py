"""The bytes of variable-width rows, and how work is split into parts that Arrow's columns can hold.

A column of texts, lists or maps counts its bytes or elements in 32 bits: it holds less than 2 GiB, and not every Arrow
function notices an overflow. So code that concatenates or repeats rows counts their bytes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import Ints

CHUNK_BYTES = 1 << 26
"""The most bytes of variable-width columns that are gathered, held or written at a time."""
LARGEST = 1 << 30
"""The most bytes of variable-width columns in one segment or one batch."""
CAPACITY = 2**31 - 2
"""The most bytes a column can hold."""
_OVERFLOWS = ("offset overflow", "overflowed binary array capacity")
T = TypeVar("T")


@cache
def is_bulky(kind: pa.DataType) -> bool:
    """Whether values of this type vary in width."""
    return pa.types.is_nested(kind) or not (pa.types.is_null(kind) or _has_bits(kind))


def _has_bits(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind))


def widths(column: pa.Array) -> Ints:
    """The bytes of each row, roughly; an element of a list counts as at least one."""
    kind = column.type
    if pa.types.is_struct(kind):
        fields = [widths(column.field(number)) for number in range(kind.num_fields)]
        return sum(fields, np.zeros(len(column), dtype=np.int64))
    if not is_bulky(kind):
        return np.full(len(column), 1 if pa.types.is_null(kind) else -(-kind.bit_width // 8))
    if not len(column):
        return np.zeros(0, dtype=np.int64)
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    if pa.types.is_nested(kind):
        first, last = int(offsets[0]), int(offsets[-1])
        inner = np.concatenate(([0], widths(column.values.slice(first, last - first)).cumsum()))
        offsets = inner.take(offsets - first)
    return np.diff(offsets)


def bytes_of(column: pa.Array) -> int:
    """The bytes of a variable-width column; zero where the width is fixed."""
    return int(column.nbytes) if is_bulky(column.type) else 0


def stretches(sizes: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of neighbours whose sum is at most `most`, or of a single one that is larger: start and stop of each."""
    ends = sizes.cumsum()
    start, done = 0, 0
    while start < len(sizes):
        stop = max(start + 1, int(ends.searchsorted(done + most, "right")))
        yield start, stop
        start, done = stop, int(ends[stop - 1])


def together(batches: Sequence[pa.RecordBatch], most: int | None = None) -> list[pa.RecordBatch]:
    """The same rows in as few batches as columns can hold, mostly one."""
    if len(batches) < 2:
        return list(batches)
    sizes = np.array([batch.nbytes for batch in batches])
    parts = stretches(sizes, LARGEST if most is None else most)
    return [batches[start] if stop - start == 1 else pa.concat_batches(batches[start:stop]) for start, stop in parts]


def interleaved(owners: Ints, pick: Callable[[int, Ints], Any], join: Callable[[list[Any]], Any]) -> Any:
    """Rows of several owners in the given order; `pick` takes rows of one owner by position."""
    order = np.argsort(owners, kind="stable")
    ends = np.bincount(owners).cumsum().tolist()
    spans = [(owner, order[start:stop]) for owner, (start, stop) in enumerate(pairwise([0, *ends])) if start < stop]
    picked = [pick(owner, places) for owner, places in spans]
    if len(picked) == 1:
        return picked[0]
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return join(picked).take(pa.array(back))


def overflowed(error: BaseException | None) -> bool:
    """Whether an error means that a column would overflow, so that half of the rows may fit."""
    if isinstance(error, pa.ArrowInvalid):
        return any(some in str(error) for some in _OVERFLOWS)
    return isinstance(error, pa.ArrowCapacityError)


def checked(made: Any) -> Any:
    """A computed column as one array; raises where Arrow returned several or did not notice an overflow."""
    text = isinstance(made, pa.Array) and is_bulky(made.type) and not pa.types.is_nested(made.type)
    data = made.buffers()[2] if text else None
    if isinstance(made, pa.ChunkedArray) or (data is not None and data.size > CAPACITY):
        raise pa.ArrowCapacityError(f"a column of {made.nbytes:,} bytes")
    return made


def repeated(value: pa.Scalar, rows: int) -> pa.Array:
    """A constant as a column."""
    if is_bulky(value.type) and pa.repeat(value, 1).nbytes * rows > CAPACITY:
        raise pa.ArrowCapacityError(f"a constant {rows:,} times")
    return pa.repeat(value, rows)


def in_halves(work: Callable[[int, int], T], start: int, stop: int) -> list[T]:
    """The results of `work` for this range of rows; in halves where the result does not fit a column."""
    try:
        return [work(start, stop)]
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        if stop - start < 2 or not overflowed(error):
            raise
    middle = (start + stop) // 2
    return in_halves(work, start, middle) + in_halves(work, middle, stop)
