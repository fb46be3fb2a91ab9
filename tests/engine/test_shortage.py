"""Why a limit cannot be kept is told: rows that every slot has, rows held back, a key that fills its group."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from limited import COUNT, Limited, group_of, plan_of, row
from millstream.engine.files import Files
from millstream.engine.memory import MemoryLimit
from millstream.engine.shortage import shortage

PLENTY = MemoryLimit(nbytes=1 << 40)
KEYS = [next(key for key in count() if group_of(key) == group) for group in range(COUNT)]


@pytest.fixture
def limited(tmp_path: Path) -> Limited:
    """A row a stream in each group, and a hundred more of one key."""
    found = Limited(plan_of("wide"), Files.at(tmp_path))
    hot = [row(100 + n, KEYS[3], 0) for n in range(100)]
    found.run({name: [*(row(n, key, 0) for n, key in enumerate(KEYS)), *hot] for name in "AB"})
    return found


def test_nothing_is_told_where_all_fits(limited: Limited) -> None:
    assert shortage(limited.memory, PLENTY, 0) == ""


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_key_that_fills_its_group_is_named(limited: Limited, on_disk: bool) -> None:
    of_group = int(limited.memory.group_bytes()[3])
    if on_disk:
        limited.spill()
    told = shortage(limited.memory, MemoryLimit(nbytes=of_group), 0)
    assert "partition group 3 alone takes" in told
    assert f"100 % of its rows of A by k have the key {KEYS[3]}" in told


def test_a_group_of_many_keys_is_told_without_one(tmp_path: Path) -> None:
    limited = Limited(plan_of("wide"), Files.at(tmp_path))
    keys = [key for key in range(100 * COUNT) if group_of(key) == 5]
    limited.run({"A": [row(n, key, 0) for n, key in enumerate(keys)]})
    told = shortage(limited.memory, MemoryLimit(nbytes=100), 0)
    assert "partition group 5 alone takes" in told
    assert "have the key" not in told


def test_what_spilling_does_not_reach_is_told(limited: Limited) -> None:
    told = shortage(limited.memory, MemoryLimit(nbytes=1 << 20), 2_000_000)
    assert told.startswith("state takes 2")
    assert "of 1.05 MB, with 2 MB of rows held back for order" in told
