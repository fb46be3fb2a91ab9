"""Codes of join keys: equal keys have equal codes, whatever they are made of."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.groups import Grouping
from millstream.engine.keys import codes, is_exact, scramble

MASK = 2**64 - 1


def splitmix64(value: int) -> int:
    """Its finisher in Python's integers."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_whole_numbers_are_scrambled_one_to_one(values: list[int]) -> None:
    found = codes([pa.array(values, pa.int64())], len(values)).tolist()
    assert found == [splitmix64(value & MASK) for value in values]
    assert len(set(found)) == len(set(values))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_a_number_has_one_code_in_every_width(kind: pa.DataType) -> None:
    found = codes([pa.array([0, -1, 100], kind)], 3)
    assert found.tolist() == codes([pa.array([0, -1, 100], pa.int64())], 3).tolist()
    assert is_exact([kind])


def polynomial(text: bytes) -> int:
    return sum((byte + 1) * pow(0x100000001B3, place, 2**64) for place, byte in enumerate(text)) & MASK


@given(st.lists(st.binary(max_size=6), max_size=12), st.integers(0, 3))
def test_texts_are_hashed_all_at_once_as_one_by_one(texts: list[bytes], skip: int) -> None:
    """Of slices too."""
    column = pa.array(texts, pa.binary()).slice(skip)
    assert codes([column], len(column)).tolist() == [splitmix64(polynomial(text)) for text in texts[skip:]]


@given(st.lists(st.text(max_size=5), max_size=20))
def test_equal_texts_have_equal_codes_whatever_stands_around_them(texts: list[str]) -> None:
    together = codes([pa.array(texts, pa.string())], len(texts))
    alone = [int(codes([pa.array([text], pa.string())], 1)[0]) for text in texts]
    assert together.tolist() == alone
    assert len(set(alone)) == len(set(texts))


EQUAL: list[tuple[pa.DataType, list[Any]]] = [
    (pa.float64(), [0.0, -0.0]),
    (pa.float64(), [float("nan"), -float("nan")]),
    (pa.float32(), [1.5, 1.5]),
    (pa.bool_(), [True, True]),
    (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("1.5")]),
    (pa.date32(), [19_000, 19_000]),
    (pa.timestamp("us", "UTC"), [5, 5]),
]


@pytest.mark.parametrize(("kind", "values"), EQUAL)
def test_equal_keys_have_equal_codes_and_others_have_others(kind: pa.DataType, values: list[Any]) -> None:
    assert not is_exact([kind])
    other = {pa.bool_(): False, pa.decimal128(10, 2): Decimal("1.51")}.get(kind, 7)
    one, same, different = codes([pa.array([*values, other], kind)], 3).tolist()
    assert one == same
    assert one != different


def test_the_order_of_key_columns_counts() -> None:
    left, right = pa.array([1, 2]), pa.array([2, 1])
    first, second = codes([left, right], 2).tolist()
    assert first != second
    assert codes([right, left], 2).tolist() == [second, first]
    assert not is_exact([pa.int64(), pa.int64()])


def test_a_join_without_keys_has_one_code() -> None:
    assert codes([], 3).tolist() == [0, 0, 0]
    assert is_exact([])


def test_few_bits_make_keys_collide() -> None:
    texts = pa.array([f"key {n}" for n in range(100)])
    assert len(set(codes([texts], 100, hash_bits=3).tolist())) <= 8
    assert len(set(codes([texts], 100).tolist())) == 100


def test_codes_of_neighbours_spread_over_all_groups() -> None:
    counts = np.bincount(Grouping(1024).of(scramble(np.arange(1_024_000, dtype=np.uint64))), minlength=1024)
    assert counts.min() > 800
    assert counts.max() < 1_200
