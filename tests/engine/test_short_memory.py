"""Bad cases of a memory limit: too small for a group, one key with nearly all rows, a full disk, files far away."""

from __future__ import annotations

import errno
from collections import Counter
from pathlib import Path

import pytest
from pyarrow import fs

from limited import COUNT, Batch, Found, Limited, everything, group_of, plan_of, row
from millstream.engine.files import Files
from millstream.engine.memory import MemoryLimit

ALL = ("wide", "narrow", "self", "three", "path")
BATCHES: list[Batch] = [
    {name: [row(100 * n + m, (m * m + n) % 7, 2 * n + m % 3) for m in range(size)] for name, size in sizes.items()}
    for n, sizes in enumerate([{"A": 9, "B": 4}, {"A": 2, "B": 9, "C": 5}, {"C": 6}, {}, {"A": 5, "B": 5, "C": 5}])
]


def run_all(limited: Limited, limit: MemoryLimit, batches: list[Batch], *, restarts: bool = False) -> Found:
    found: Found = Counter()
    for number, batch in enumerate(batches):
        if restarts:
            limited.restart()
        limited.watermark = max(2 * number - 2, 0)
        is_last = number == len(batches) - 1
        found += limited.run(batch, limit, finish=is_last)
        if not is_last:
            assert limited.memory.group_bytes().sum() <= limit.nbytes
    return found


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_limit_smaller_than_one_group_keeps_nothing_in_memory(tmp_path: Path, strict: bool, restarts: bool) -> None:
    """Every batch ends with all groups on disk."""
    plan = plan_of(*ALL)
    limited = Limited(plan, Files.at(tmp_path), strict=strict)
    limit = MemoryLimit(nbytes=1)
    assert run_all(limited, limit, BATCHES, restarts=restarts) == everything(plan, BATCHES)
    grouped = [pool for pool in limited.shard.pools() if pool.groups.is_grouped]
    assert len(grouped) < len(limited.shard.pools()), "rows that are everywhere stay in memory"
    assert not limited.shard.deferred


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_one_key_with_nearly_all_rows_goes_to_disk_like_any_other(tmp_path: Path, share: float) -> None:
    plan = plan_of("wide")
    others = [key for key in range(1, 40) if group_of(key) != group_of(0)]
    batches: list[Batch] = [
        {name: [row(1000 * n + m, 0 if m % 20 else others[m % len(others)], n) for m in range(100)] for name in "AB"}
        for n in range(4)
    ]
    limited = Limited(plan, Files.at(tmp_path))
    found: Found = Counter()
    for number, batch in enumerate(batches):
        found += limited.run(batch, MemoryLimit(nbytes=3_000, share=share), finish=number == 3)
        if number < 3:
            assert limited.memory.nbytes <= 3_000
            assert limited.memory.spilled.groups >> group_of(0) & 1
    assert found == everything(plan, batches)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("same_process", [False, True])
@pytest.mark.parametrize("failing", [1, 2, 5])
def test_a_full_disk_fails_the_batch_and_loses_nothing(
    tmp_path: Path, strict: bool, same_process: bool, failing: int
) -> None:
    """What a batch writes goes to a device that is always full. The next attempt has other names."""
    plan, limit = plan_of(*ALL), MemoryLimit(nbytes=800)
    limited = Limited(plan, Files.at(tmp_path), strict=strict)
    found: Found = Counter()
    for number, batch in enumerate(BATCHES, start=1):
        limited.watermark = max(2 * number - 4, 0)
        finish = number == len(BATCHES)
        if number == failing:
            for name in range(200):
                (tmp_path / f"{number}full-{name}.arrow").symlink_to("/dev/full")
            before = limited.saved.to_json()
            with pytest.raises(OSError, match="No space left") as error:
                limited.run(batch, limit, finish=finish, attempt="full")
            assert error.value.errno == errno.ENOSPC
            assert limited.saved.to_json() == before
            limited.restart(store=not same_process)
        found += limited.run(batch, limit, finish=finish)
    assert found == everything(plan, BATCHES)


def far_away(place: Path) -> Files:
    """A file system of which Arrow does not know that it is local."""
    files = Files(fs.SubTreeFileSystem(str(place), fs.LocalFileSystem()), "state")
    assert not files.is_local
    return files


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_segments_that_cannot_be_mapped_are_read(tmp_path: Path, strict: bool, restarts: bool) -> None:
    plan = plan_of(*ALL)
    limited = Limited(plan, far_away(tmp_path), strict=strict)
    limit = MemoryLimit(nbytes=800)
    assert run_all(limited, limit, BATCHES, restarts=restarts) == everything(plan, BATCHES)


def test_what_is_read_leaves_memory_when_it_is_spilled(tmp_path: Path) -> None:
    limited = Limited(plan_of("wide"), far_away(tmp_path))
    limited.run({name: [row(n, n, 0) for n in range(500)] for name in "AB"})
    limited.restart()
    held = limited.memory.nbytes
    assert held > 10_000
    limited.spill()
    assert limited.memory.nbytes == 0
    assert limited.memory.nbytes_on_disk > held / 2
    assert not limited.store._opened_as, "nor does the store hold it"
    found = list(limited.shard.clean_up(limited.memory.grouping.every, keep=True))
    assert not found
    assert limited.memory.nbytes > held / 2
    assert len({group_of(n) for n in range(500)}) == COUNT
