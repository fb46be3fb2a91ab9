"""A pool by partition groups: whatever is divided, spilled, brought back and handed over, each row is there once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.arrow import arrow_schema
from millstream.engine.files import Files
from millstream.engine.groups import Grouping, Groups, group_set, members
from millstream.engine.intake import CODE
from millstream.engine.keys import codes
from millstream.engine.on_disk import OnDisk, Piece
from millstream.engine.pool_groups import Parts
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.pool_run import PoolRun
from millstream.engine.store import FileStore, Store, files_of
from millstream.pipeline.slot_store import SlotStore
from millstream.plan.nodes import Pool

SECOND = 1_000_000
GROUPING = Grouping(4)
STREAM = "CREATE STREAM {0} (id BIGINT, k BIGINT, j BIGINT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts');"
PLAN = compile_script(
    "".join(map(STREAM.format, "ABC"))
    + "CREATE QUERY q AS SELECT x.id FROM A x, B y, C z WHERE x.k = y.k AND y.j = z.j WINDOW 9 SECONDS;"
)
POOLS = {
    "by its key": next(pool for pool in PLAN.pools if pool.is_routed),
    "by another code": next(pool for pool in PLAN.pools if not pool.is_routed and not pool.spread.everywhere),
    "everywhere": next(pool for pool in PLAN.pools if pool.spread.everywhere),
}
GROUPED = ("by its key", "by another code")


def group_of(key: int) -> int:
    """The group of a row by the value that routes it."""
    return int(GROUPING.of(codes([pa.array([key], pa.int64())], 1))[0])


KEYS = {group: next(key for key in count() if group_of(key) == group) for group in range(GROUPING.count)}


@dataclass(frozen=True)
class Row:
    number: int
    group: int
    time: int


def ids(pieces: Iterable[Piece | None]) -> list[int]:
    return sorted(one for piece in pieces if piece for one in piece.open().rows.column("id").to_pylist())


class Grouped:
    """A pool, and beside it its rows by their numbers."""

    def __init__(self, store: Store, pool: Pool, numbers: count[int] | None = None) -> None:
        self.store, self.pool, self.owing = store, pool, 0
        self.numbers = numbers or count(1)
        self.run = PoolRun(store, lambda: next(self.numbers), GROUPING, lambda: self.owing)
        self.run.use(pool, {}, {}, readers=("q",), last_position=1, is_routing=False, hash_bits=64)
        self.rows: dict[int, Row] = {}
        self.batch = self.clock = 0
        self.watermark = -(2**62)
        self.reach = pool.lanes[0].reach // SECOND

    def arrive(self, groups: Iterable[int]) -> None:
        self.batch += 1
        new = [Row(100 * self.batch + n, group, self.clock + n % 3) for n, group in enumerate(groups)]
        rows = [
            {"id": row.number, "k": KEYS[row.group], "j": row.number % 2, "s": "x" * row.group, "Ts": row.time * SECOND}
            for row in new
        ]
        made = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(self.pool.stream))
        self.run.arrive([(made, frozenset())], self.batch)
        self.run.become_state()
        self.rows |= {row.number: row for row in new}

    def of(self, groups: Groups) -> list[int]:
        """Its rows of some groups."""
        return sorted(row.number for row in self.rows.values() if groups >> row.group & 1)

    def groups_in(self, piece: Piece) -> Groups:
        return group_set(self.rows[number].group for number in ids([piece]))

    def check(self) -> None:
        pieces = self.run.pieces
        assert ids(pieces) == sorted(self.rows), "each row is there once"
        numbers = [one.number for one in pieces]
        assert len(set(numbers)) == len(numbers)
        for one in pieces:
            opened = one.open()
            assert len(one) == len(opened)
            assert one.first <= opened.first <= opened.last <= one.last, "a part on disk has the times of the whole"
            assert int(opened.times.min()) == opened.first
            assert int(opened.times.max()) == opened.last
            if isinstance(one, OnDisk) and self.run.groups.is_grouped:
                assert one.groups == self.groups_in(one), "what it has is known without opening it"
        saved = self.run.saved()
        assert saved.taken - saved.expired == sum(entry.rows for entry in saved.segments) == len(self.rows)
        batches = [one.batch for one in self.run.segments]
        assert batches == sorted(batches), "the oldest first"
        self.check_sizes()

    def check_sizes(self) -> None:
        for sizes, some in (
            (self.run.groups.nbytes(), self.run.segments),
            (self.run.groups.nbytes_on_disk(), self.run.on_disk),
        ):
            there = group_set(np.flatnonzero(sizes).tolist())
            if not self.run.groups.is_grouped:
                assert not there, "they are of no group more than of another"
                continue
            wanted = 0
            for one in some:
                wanted |= self.groups_in(one)
            assert there == wanted
            assert sizes.sum() <= sum(one.nbytes for one in some)

    def part(self, groups: Groups) -> None:
        before = {one.number: one for one in self.run.pieces}
        rows = {number: ids([one]) for number, one in before.items()}
        parts = self.run.part(groups)
        assert parts.keys() == before.keys()
        inside = set(self.of(groups))
        for number, both in parts.items():
            assert ids([both[0]]) == [one for one in rows[number] if one in inside]
            assert ids([both[1]]) == [one for one in rows[number] if one not in inside]
            if None in both:
                assert before[number] in both, "what is not divided stays as it is"
            else:
                assert both[1] is not None
                assert both[1].number == number
                assert both[0] is not None
                assert both[0].number not in before, "one part is new"
            assert len({isinstance(one, OnDisk) for one in (before[number], *both) if one is not None}) == 1
        self.check_parted(parts)

    def check_parted(self, parts: Parts) -> None:
        assert {one.number for both in parts.values() for one in both if one} == {one.number for one in self.run.pieces}

    def spill(self, groups: Groups) -> None:
        self.run.spill(groups)
        assert not set(ids(self.run.segments)) & set(self.of(groups))

    def bring_back(self, groups: Groups) -> None:
        self.run.bring_back(groups)
        assert not set(ids(self.run.on_disk)) & set(self.of(groups))

    def give_up(self, groups: Groups) -> None:
        """What is given up comes back from the files in another process, and only that."""
        wanted = self.of(groups) if self.run.groups.is_grouped else sorted(self.rows)
        on_disk = ids(one for one in self.run.on_disk if one.groups & groups)
        given_up = self.run.give_up(groups)
        assert given_up.taken == sum(entry.rows for entry in given_up.segments) == len(wanted)
        assert not given_up.expired
        other = self.restored(given_up)
        assert ids(other.pieces) == wanted
        assert ids(other.on_disk) == on_disk
        if self.run.groups.is_grouped:
            self.rows = {number: row for number, row in self.rows.items() if number not in wanted}

    def restored(self, saved: PoolManifest) -> PoolRun:
        other = Grouped(SlotStore(self.files), self.pool, count(1_000)).run
        other.restore(PoolManifest.from_json(saved.to_json()), strict=False)
        return other

    @property
    def files(self) -> Files:
        assert isinstance(self.store, FileStore)
        return self.store._files

    def restart(self) -> None:
        """The rows of each piece, in memory and on disk, are the same after a restart."""
        saved = self.run.saved()
        other = self.restored(saved)
        for some, again in ((self.run.segments, other.segments), (self.run.on_disk, other.on_disk)):
            assert {one.number: ids([one]) for one in again} == {one.number: ids([one]) for one in some}
        assert named(other.saved()) == named(saved)

    def tidy(self, passed: int, owing: Groups) -> None:
        self.owing = owing
        self.watermark = max(self.watermark, self.clock - passed)
        on_disk = {one.number for one in self.run.on_disk}
        self.run.tidy(self.watermark * SECOND, frozenset())
        held = set(ids(self.run.pieces))
        needed = {row.number for row in self.rows.values() if row.time + self.reach > self.watermark}
        assert needed <= held <= self.rows.keys()
        owed = set(self.of(owing) if self.run.groups.is_grouped or not owing else self.rows)
        assert owed <= held, "what is owed is kept"
        for one in self.run.segments:
            assert one.last + one.reach > self.watermark * SECOND, "what has expired leaves memory"
        for spilled in self.run.on_disk:
            if spilled.last + spilled.reach <= self.watermark * SECOND:
                assert spilled.groups & owing, "what is not owed is dropped"
            if spilled.number not in on_disk and self.run.groups.is_grouped:
                assert not self.groups_in(spilled) & ~owing
        self.rows = {number: row for number, row in self.rows.items() if number in held}
        self.owing = 0


def named(saved: PoolManifest) -> list[SegmentEntry]:
    """The segments of a saved pool, whatever they take in memory: a loaded one has not computed all of its index."""
    return [replace(entry, nbytes=0) for entry in saved.segments]


some_groups = st.integers(0, GROUPING.every)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.lists(st.integers(0, GROUPING.count - 1), min_size=1, max_size=6)),
        st.tuples(st.just("arrive"), st.lists(st.integers(0, GROUPING.count - 1), min_size=1, max_size=6)),
        st.tuples(st.sampled_from(["part", "spill", "spill", "bring back", "give up"]), some_groups),
        st.tuples(st.just("tidy"), st.integers(0, 12), some_groups),
        st.just(("restart",)),
    ),
    max_size=12,
)


@pytest.mark.parametrize("routed", sorted(POOLS))
@settings(max_examples=60)
@given(steps=steps, deletes=st.booleans())
def test_each_row_is_there_once_whatever_is_done_with_its_group(
    routed: str, steps: list[tuple[object, ...]], deletes: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = Files.at(folder)
        pool = Grouped(FileStore(files) if deletes else SlotStore(files), POOLS[routed])
        for what, *rest in steps:
            if what == "arrive":
                pool.clock += 3
                pool.arrive(rest[0])
            elif what == "tidy":
                pool.tidy(*rest)
            elif what == "restart":
                pool.restart()
            elif routed in GROUPED:
                pool.part(rest[0])
                if what == "spill":
                    pool.spill(rest[0])
                elif what == "bring back":
                    pool.bring_back(rest[0])
                elif what == "give up" and not deletes:
                    pool.give_up(rest[0])
            elif what == "give up" and not deletes:
                pool.give_up(rest[0])
            pool.check()
            if deletes:
                named = {file for entry in pool.run.saved().segments for file in files_of(entry.name)}
                assert set(files.names()) == named, "a file is there for as long as a part of it"


@pytest.fixture(params=GROUPED)
def grouped(request: pytest.FixtureRequest, tmp_path: Path) -> Grouped:
    """Three rows of the first group, two of the second, one of the third; in two batches."""
    found = Grouped(SlotStore(Files.at(tmp_path)), POOLS[request.param])
    found.arrive([0, 1, 0])
    found.arrive([2, 0, 1])
    return found


def test_rows_are_in_the_group_of_the_code_that_routes_them(grouped: Grouped) -> None:
    for one in grouped.run.segments:
        assert (CODE in one.rows.schema.names) == (not grouped.pool.is_routed)
        numbers = one.rows.column("id").to_pylist()
        assert grouped.run.groups.groups_of(one).tolist() == [grouped.rows[number].group for number in numbers]
    assert np.flatnonzero(grouped.run.groups.present(grouped.run.segments)).tolist() == [0, 1, 2]
    assert np.flatnonzero(grouped.run.arrived_groups()).tolist() == [0, 1, 2]


def test_nothing_is_written_or_copied_to_divide_and_to_spill(grouped: Grouped, tmp_path: Path) -> None:
    grouped.run.keep()
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    grouped.part(0b011)
    grouped.spill(0b011)
    grouped.part(0b001)
    grouped.bring_back(0b001)
    grouped.check()
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert grouped.run.nbytes < sum(one.nbytes for one in grouped.run.pieces)


def test_bytes_leave_memory_and_come_back(grouped: Grouped) -> None:
    before = grouped.run.nbytes
    sizes = grouped.run.groups.nbytes()
    grouped.part(0b001)
    grouped.spill(0b001)
    assert grouped.run.nbytes < before
    assert not grouped.run.groups.nbytes()[0]
    on_disk = grouped.run.groups.nbytes_on_disk()
    assert np.flatnonzero(on_disk).tolist() == [0]
    assert on_disk[0] >= sizes[0] // 2
    again = grouped.restored(grouped.run.saved())
    assert again.groups.nbytes_on_disk().tolist() == pytest.approx(on_disk.tolist(), abs=len(grouped.rows))
    assert [one.group_rows.tolist() for one in again.on_disk] == [
        one.group_rows.tolist() for one in grouped.run.on_disk
    ], "counted anew, as they were"


def test_expired_rows_that_are_owed_go_to_disk_and_others_are_dropped(grouped: Grouped) -> None:
    grouped.clock = 100
    grouped.tidy(0, 0b010)
    assert [grouped.rows[number].group for number in ids(grouped.run.on_disk)] == [1, 1]
    assert not grouped.run.segments
    saved = grouped.run.saved()
    assert (saved.taken, saved.expired) == (6, 4)
    grouped.arrive([3])
    grouped.tidy(0, 0)
    assert not grouped.run.on_disk, "once it is not owed any more"
    assert (grouped.run.saved().taken, grouped.run.saved().expired) == (7, 6)


def test_what_is_everywhere_is_named_for_another_slot_and_stays(tmp_path: Path) -> None:
    pool = Grouped(SlotStore(Files.at(tmp_path)), POOLS["everywhere"])
    pool.arrive([0, 1, 2])
    assert pool.run.part(0b1) == {}
    pool.run.keep()
    pool.give_up(0b1)
    pool.check()
    assert pool.run.arrived_groups().all(), "such a row is of all groups"
    pool.clock = 100
    pool.tidy(0, 0b1)
    assert ids(pool.run.on_disk) == sorted(pool.rows), "as long as any group owes"
    (one,) = pool.run.on_disk
    assert members(one.groups) == [0, 1, 2, 3]
    pool.restart()
