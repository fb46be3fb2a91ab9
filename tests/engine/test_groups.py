"""A set of partition groups is a whole number; it comes back from JSON, and codes find their groups."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.groups import Grouping, from_json, group_set, members, to_json

counts = st.integers(0, 12).map(lambda bits: 1 << bits)


@given(counts, st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_the_group_of_a_code_is_its_leading_bits(count: int, codes: list[int]) -> None:
    found = Grouping(count).of(np.array(codes, dtype=np.uint64))
    assert found.tolist() == [code * count >> 64 for code in codes]


@given(counts.flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1)))))
def test_a_set_has_the_groups_it_is_made_of(given_: tuple[int, set[int]]) -> None:
    count, groups = given_
    made = group_set(groups)
    assert members(made) == sorted(groups)
    assert np.flatnonzero(Grouping(count).flags(made)).tolist() == sorted(groups)
    assert len(Grouping(count).flags(made)) == count
    assert from_json(json.loads(json.dumps(to_json(made)))) == made
    assert members(Grouping(count).every & ~made) == [group for group in range(count) if group not in groups]


@given(counts.flatmap(lambda count: st.tuples(st.just(count), st.integers(0, 2**count - 1))))
def test_flags_and_sets_say_the_same(given_: tuple[int, int]) -> None:
    count, groups = given_
    flags = Grouping(count).flags(groups)
    assert flags.tolist() == [bool(groups >> group & 1) for group in range(count)]
    assert Grouping(count).set_of(flags) == groups


@given(counts, st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_codes_in_order_have_groups_in_order(count: int, codes: list[int]) -> None:
    found = Grouping(count).of(np.array(sorted(codes), dtype=np.uint64)).tolist()
    assert found == sorted(found)
    assert all(0 <= group < count for group in found)


def test_one_group_has_all_and_of_many_the_last_is_reached() -> None:
    ends = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert Grouping(1).of(ends).tolist() == [0, 0]
    assert Grouping(4096).of(ends).tolist() == [0, 4095]
    assert (Grouping(1).every, Grouping(4096).every) == (1, 2**4096 - 1)
    assert Grouping(1).flags(1).tolist() == [True]
    assert Grouping(2).flags(2).tolist() == [False, True], "fewer groups than a byte has bits"


def test_no_set_is_not_the_empty_set() -> None:
    assert from_json(to_json(None)) is None
    assert from_json(to_json(0)) == 0
