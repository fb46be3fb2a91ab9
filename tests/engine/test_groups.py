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


def test_no_set_is_not_the_empty_set() -> None:
    assert from_json(to_json(None)) is None
    assert from_json(to_json(0)) == 0
