"""Access paths change while rows are there: what was appended is sorted when it is first looked up by index, what was
sorted is scanned as it is, in memory and on disk.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from accesses import scanning
from limited import Batch, Found, Limited, counted, everything, group_of, plan_of, row
from millstream.engine.files import Files
from millstream.engine.memory import MemoryLimit
from millstream.engine.segment import Segment
from millstream.plan import Plan

KEYS = 5
QUERIES = ("wide", "narrow", "self")
SCANNED, INDEXED = scanning(plan_of(*QUERIES), "AB"), scanning(plan_of(*QUERIES), "")
WAYS = pytest.mark.parametrize(
    ("before", "after"), [(SCANNED, INDEXED), (INDEXED, SCANNED)], ids=["scan to index", "index to scan"]
)


STAYS = MemoryLimit(nbytes=1 << 40, room=0.0)
"""Groups on disk stay there."""


def batch(number: int, names: str = "AB", count: int = 8) -> Batch:
    """Rows of several keys that are not in order of time."""
    return {
        name: [row(1_000 * number + 100 * at + n, n % KEYS, 2 * number + (n * 3 + at) % 4) for n in range(count)]
        for at, name in enumerate("AB")
        if name in names
    }


def held(slot: Limited, stream: str) -> list[Segment]:
    return [one for pool in slot.shard.pools() if pool.pool.stream.name == stream for one in pool.segments]


def on_disk(slot: Limited) -> list[Segment]:
    return [one.open() for pool in slot.shard.pools() for one in pool.on_disk]


def test_what_was_appended_is_sorted_only_when_it_is_looked_up(tmp_path: Path) -> None:
    slot = Limited(SCANNED, Files.at(tmp_path))
    batches = [batch(0, count=40)]  # one segment, so that none is merged in the meantime
    found = slot.run(batches[0])
    old = {name: held(slot, name) for name in "AB"}
    assert not any(one.is_indexed for name in "AB" for one in old[name])
    slot.change(INDEXED)
    assert [*map(id, held(slot, "A"))] == [*map(id, old["A"])], "a change of plans moves no row"
    assert not any(one.is_resorted for name in "AB" for one in old[name]), "and sorts none"
    batches.append(batch(1, "B"))
    found += slot.run(batches[-1])
    assert all(one.is_resorted for one in old["A"]), "rows of B have looked up those of A"
    assert not any(one.is_resorted for one in old["B"]), "nobody has looked up those of B"
    batches += [batch(2), batch(3)]
    for one in batches[2:]:
        found += slot.run(one)
    assert all(one.is_indexed for name in "AB" for one in held(slot, name)), "sorted once, kept sorted"
    assert found == everything(INDEXED, batches)


def test_what_was_sorted_and_merged_is_scanned_as_it_is(tmp_path: Path) -> None:
    slot = Limited(INDEXED, Files.at(tmp_path))
    batches = [batch(number) for number in range(6)]
    found = Found()
    for one in batches:
        found += slot.run(one)
    old = {name: held(slot, name) for name in "AB"}
    assert any(len(one) > len(batches[0]["A"]) for one in old["A"]), "some have been merged"
    slot.change(SCANNED)
    assert [*map(id, held(slot, "A"))] == [*map(id, old["A"])], "a change of plans moves no row"
    for number in range(6, 12):
        batches.append(batch(number))
        found += slot.run(batches[-1])
    newest = [held(slot, name)[-1] for name in "AB"]
    assert not any(one.is_indexed for one in newest)
    assert all(one.times.tolist() == sorted(one.times.tolist()) for one in newest)
    assert found == everything(SCANNED, batches)


@WAYS
@pytest.mark.parametrize("restarts", [False, True], ids=["in place", "restarted"])
@pytest.mark.parametrize("keys", [[0], [0, 3], range(KEYS)], ids=["one group", "some groups", "all groups"])
def test_segments_on_disk_are_found_by_either_path(
    tmp_path: Path, before: Plan, after: Plan, *, restarts: bool, keys: list[int]
) -> None:
    """Some groups are spilled before the change and after it; there and back again."""
    slot = Limited(before, Files.at(tmp_path))
    batches: list[Batch] = []
    found = Found()
    for turn, plan in enumerate([before, after, before, after]):
        slot.change(plan)
        for number in range(3):
            batches.append(batch(3 * turn + number))
            found += slot.run(batches[-1], STAYS)
        slot.spill(sorted({group_of(key) for key in keys}))
        assert on_disk(slot)
        slot.saved = slot.shard.saved(slot.kept)
        if restarts:
            slot.restart()
    assert found != everything(after, batches), "results are owed"
    found += slot.run({}, finish=True)
    assert found == everything(after, batches)


@WAYS
def test_a_clean_up_leaves_segments_on_disk_as_the_plan_needs_them(tmp_path: Path, before: Plan, after: Plan) -> None:
    slot = Limited(before, Files.at(tmp_path))
    batches = [batch(number) for number in range(6)]
    found = Found()
    for one in batches[:3]:
        found += slot.run(one, STAYS)
    slot.spill()
    kept = {one.number for one in on_disk(slot)}
    slot.change(after)
    assert {one.number for one in on_disk(slot)} == kept
    for one in batches[3:]:
        found += slot.run(one, STAYS)
        slot.spill()
    found += counted(slot.shard.clean_up(slot.memory.grouping.every, keep=False))
    assert found == everything(after, batches)
    several = [one for one in on_disk(slot) if len({*one.row_keys().tolist()}) > 1]
    assert several
    assert all(one.is_indexed == (after is INDEXED) for one in several)
