"""Join keys as 64-bit codes.

One integer column is scrambled without loss (splitmix64 is a bijection), so equal codes mean equal keys. Anything else
is hashed, and equality of the true keys is checked on the matched pairs. Codes are uniform, so their leading bits
are the partition group, and rows sorted by code are sorted by group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.uint64]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_ROUNDS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST = np.uint64(31)
_BASE = np.uint64(0x100000001B3)


def is_exact(columns: Sequence[pa.DataType]) -> bool:
    """Whether equal codes of these columns mean equal keys."""
    return len(columns) == 0 or (len(columns) == 1 and pa.types.is_integer(columns[0]))


def codes(columns: Sequence[pa.Array], rows: int, hash_bits: int = 64) -> Codes:
    """The codes of key columns without nulls. `hash_bits` below 64 forces collisions, for tests."""
    if not columns:
        return np.zeros(rows, dtype=np.uint64)
    if is_exact([column.type for column in columns]):
        return scramble(np.asarray(columns[0]).astype(np.int64, copy=False).view(np.uint64))
    combined = np.zeros(rows, dtype=np.uint64)
    for column in columns:
        combined = scramble(combined * _ODD + _hashed(column))
    return combined if hash_bits == 64 else scramble(combined >> np.uint64(64 - hash_bits))


def scramble(values: Codes) -> Codes:
    """splitmix64's finisher: a bijection that spreads its values well."""
    mixed: Codes = values + _ODD
    for bits, factor in _ROUNDS:
        mixed ^= mixed >> bits
        mixed *= factor
    mixed ^= mixed >> _LAST
    return mixed


def _hashed(column: pa.Array) -> Codes:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _hashed_text(pc.cast(column, pa.large_binary()))
    if pa.types.is_floating(kind):
        plain = np.asarray(pc.cast(column, pa.float64())) + 0.0  # turns -0.0 into 0.0
        return np.where(np.isnan(plain), np.nan, plain).view(np.uint64)
    if pa.types.is_boolean(kind):
        return np.asarray(pc.cast(column, pa.uint8())).astype(np.uint64)
    if pa.types.is_decimal(kind):
        return _hashed_text(pc.cast(pc.cast(column, pa.string()), pa.large_binary()))
    if pa.types.is_date32(kind):
        return np.asarray(column.view(pa.int32())).astype(np.int64).view(np.uint64)
    if pa.types.is_temporal(kind):
        return np.asarray(column.view(pa.int64())).view(np.uint64)
    return np.asarray(pc.cast(column, pa.int64())).view(np.uint64)


def _hashed_text(column: pa.LargeBinaryArray) -> Codes:
    """A polynomial hash over the bytes, of all strings at once."""
    count = len(column)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int64)[column.offset : column.offset + count + 1]
    data = column.buffers()[2]
    if data is None or offsets[-1] == offsets[0]:
        return np.zeros(count, dtype=np.uint64)
    text = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets)
    starts = offsets[:-1] - offsets[0]
    longest = int(lengths.max())
    powers = np.cumprod(np.concatenate(([np.uint64(1)], np.full(longest, _BASE))), dtype=np.uint64)
    positions = np.arange(len(text)) - np.repeat(starts, lengths)
    terms = (text.astype(np.uint64) + np.uint64(1)) * powers[positions]
    totals = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)))
    sums: Codes = totals[starts + lengths] - totals[starts]
    return sums
