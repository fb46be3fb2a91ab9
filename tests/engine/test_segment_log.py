"""The state of a pool: nothing needed is lost, counts agree with rows, and what units name stays as it is."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine import segment_log
from millstream.engine.files import Files
from millstream.engine.groups import Grouping
from millstream.engine.keys import codes
from millstream.engine.on_disk import OnDisk
from millstream.engine.segment import Lot, Segment, build
from millstream.engine.segment_log import SegmentLog
from millstream.engine.store import FileStore, MemoryStore, Store

REACHES = (20, 5, -2)


class Side:
    """A log, and beside it every row that was ever appended: (id, time, reach)."""

    def __init__(self, store: Store) -> None:
        numbers = count(1)
        self.next_number = lambda: next(numbers)
        self.log = SegmentLog(store, self.next_number)
        self.rows: list[tuple[int, int, int]] = []
        self.hidden: dict[int, frozenset[str]] = {}
        self.batch = 0
        self.watermark = -(2**62)
        self.shortest = 2**62

    def append(self, times: list[int], reach: int, hidden_from: frozenset[str] = frozenset()) -> None:
        self.batch += 1
        ids = range(len(self.rows), len(self.rows) + len(times))
        self.hidden |= dict.fromkeys(ids, hidden_from)
        self.rows += [(one, time, reach) for one, time in zip(ids, times, strict=True)]
        keys = pa.array([one % 3 for one in ids], pa.int64())
        rows = pa.RecordBatch.from_pydict(
            {
                "id": pa.array(ids, pa.int64()),
                "k": keys,
                "Ts": pa.array(times, pa.int64()).view(pa.timestamp("us", "UTC")),
            }
        )
        lot = Lot(reach, hidden_from)
        codes_, indexed = codes([keys], len(times)), self.log.is_indexed
        self.log.append([build(self.next_number(), self.batch, lot, rows, "Ts", codes_, indexed=indexed)])

    def held(self) -> Counter[int]:
        return Counter(one for segment in self.log.segments for one in segment.rows.column("id").to_pylist())

    def check(self) -> None:
        held = self.held()
        assert set(held.values()) <= {1}, "a row is held once"
        needed = {one for one, time, reach in self.rows if time + min(reach, self.shortest) > self.watermark}
        assert needed <= held.keys(), "what is needed is held"
        assert len(self.rows) - self.log.expired == held.total()
        by_batch = [(segment.batch, segment.number) for segment in self.log.segments]
        assert by_batch == sorted(by_batch), "the oldest first"
        reaches = {one: reach for one, _, reach in self.rows}
        for segment in self.log.segments:
            assert {reaches[one] for one in segment.rows.column("id").to_pylist()} == {segment.reach}
            hidden = {self.hidden[one] for one in segment.rows.column("id").to_pylist()}
            assert hidden == {segment.hidden_from}, "what some may not see is never with what they may"


HIDDEN = (frozenset[str](), frozenset({"A B"}), frozenset({"A B", "A C"}))
lots = st.builds(Lot, st.sampled_from(REACHES[:2]), st.sampled_from(HIDDEN)) | st.just(Lot(REACHES[2]))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 9), min_size=1, max_size=6), lots),
        st.tuples(st.just("tidy"), st.integers(0, 12), st.sets(st.integers(0, 5))),
        st.tuples(st.just("keep")),
        st.tuples(st.just("index"), st.sets(st.integers(0, 5))),
        st.tuples(st.just("scan")),
        st.tuples(st.just("cut"), st.none() | st.integers(0, 25)),
    ),
    max_size=14,
)


@given(steps=steps, trims=st.booleans(), spans=st.sampled_from([1, 4]), in_files=st.booleans())
def test_nothing_that_is_needed_is_lost_and_what_units_name_stays(
    steps: list[tuple[object, ...]], trims: bool, spans: int, in_files: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(segment_log, "_WORTH_TRIMMING", 1 if trims else 4_096)
        side = Side(FileStore(Files.at(folder)) if in_files else MemoryStore())
        clock = 0
        for what, *rest in steps:
            if what == "append":
                times, lot = rest
                side.append([clock + time for time in times], *lot)
                clock += 3
            elif what == "tidy":
                passed, places = rest
                busy_ones = [one for number, one in enumerate(side.log.segments) if number in places]
                side.watermark = max(side.watermark, clock - passed)
                side.log.tidy(side.watermark, {one.number for one in busy_ones}, spans)
                now = {id(one) for one in side.log.segments}
                assert all(id(one) in now for one in busy_ones), "the very same objects"
            elif what == "cut":
                side.log.farthest = rest[0]
                side.shortest = min(side.shortest, 2**62 if rest[0] is None else rest[0])
            elif what == "scan":
                side.log.is_indexed = False
            elif what == "index":
                side.log.is_indexed = True
                probed = [one for number, one in enumerate(side.log.segments) if number in rest[0]]
                assert all(len(one.indexed) == len(one) for one in probed)
            else:
                side.log.keep()
                if in_files:
                    assert set(Files.at(folder).names()) == {
                        f"{one.number}.{kind}" for one in side.log.segments for kind in ("arrow", "index.arrow")
                    }
            side.check()


def test_what_is_scanned_is_appended_and_sorted_when_an_index_asks_for_it() -> None:
    side = Side(MemoryStore())
    side.log.is_indexed = False
    for start in range(0, 30, 3):
        side.append([start, start + 1], 20)
    side.log.tidy(0, set(), 1)
    assert len(side.log.segments) < 4, "their number stays bounded"
    assert not any(one.is_indexed for one in side.log.segments)
    side.log.is_indexed = True
    first, *others = before = side.log.segments
    assert first.indexed.is_indexed
    side.log.tidy(1, {one.number for one in before}, 1)
    assert side.log.segments == before, "units name them"
    side.log.tidy(1, {one.number for one in others}, 1)
    assert [one.is_indexed for one in side.log.segments] == [True, *(False for _ in others)], "only what was probed"
    assert first.number not in {one.number for one in side.log.segments}
    side.check()


@pytest.mark.parametrize("reach", [5, 0, -5])
def test_a_row_goes_when_the_watermark_has_reached_its_time_plus_its_reach(reach: int) -> None:
    side = Side(MemoryStore())
    side.append([7, 3], reach)
    side.log.tidy(6 + reach, set(), 1)
    assert len(side.log.segments) == 1
    side.log.tidy(7 + reach, set(), 1)
    assert not side.log.segments


def test_where_memory_is_short_rows_go_earlier() -> None:
    side = Side(MemoryStore())
    side.append([0], 20)
    side.append([9], 5)
    side.log.farthest = 8
    side.log.tidy(8, set(), 1)
    assert side.held() == Counter({1: 1}), "of the first row eight of its twenty are over"
    side.log.tidy(14, set(), 1)
    assert not side.held(), "a shorter reach stays as it is"


def test_what_has_expired_goes_and_small_neighbours_become_one() -> None:
    side = Side(MemoryStore())
    for start in range(0, 30, 3):
        side.append([start, start + 1], 20)
    before = side.log.segments
    side.log.tidy(25, set(), 1)
    assert side.held().keys() >= {one for one, time, _ in side.rows if time > 5}
    assert not side.held().keys() & {one for one, time, _ in side.rows if time <= 3}
    assert len(side.log.segments) < 4
    assert side.log.segments[-1].number > before[-1].number, "a merge makes a new one"
    assert [len(one) for one in before] == [2] * 10, "and changes none"
    side.log.tidy(60, set(), 1)
    assert not side.log.segments
    assert side.log.expired == 20


def test_expired_rows_of_a_long_segment_leave_before_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_log, "_WORTH_TRIMMING", 1)
    side = Side(MemoryStore())
    side.append(list(range(20)), 20)
    side.log.tidy(24, set(), 1)
    assert len(side.held()) == 20, "too few to be worth it"
    side.log.tidy(30, {1}, 1)
    assert len(side.held()) == 20, "a unit names it"
    side.log.tidy(30, set(), 1)
    assert side.held().keys() == set(range(11, 20))


@pytest.mark.parametrize("reach", [20, 0, -20])
def test_a_segment_of_which_little_has_expired_is_not_copied(reach: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that only meets earlier tuples has a reach below zero."""
    monkeypatch.setattr(segment_log, "_WORTH_TRIMMING", 1)
    side = Side(MemoryStore())
    side.append(list(range(100, 120)), reach)
    (one,) = side.log.segments
    for time in (60, 95, 99, 101):
        side.log.tidy(time + reach, set(), 1)
        assert side.log.segments == [one]
    side.log.tidy(115 + reach, set(), 1)
    assert side.held().keys() == {16, 17, 18, 19}


@pytest.mark.parametrize("in_files", [False, True])
def test_a_saved_side_goes_on_as_it_was(in_files: bool, tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    store: Store = FileStore(files, "a-") if in_files else MemoryStore()
    side = Side(store)
    for start in (0, 100, 200):
        side.append([start, start + 1], 500)
    side.append([201], 5)
    side.append([202], 5, frozenset({"A C", "A B"}))
    side.log.keep()
    entries = side.log.saved()
    assert entries[-1].hidden_from == ("A B", "A C"), "in one order, whatever the set's"
    if in_files:
        assert all(len(entry.stamps) == 2 for entry in entries)
        store = FileStore(files, "b-")
    loaded = [store.load(entry) for entry in entries]
    again = SegmentLog(store, side.next_number)
    again.restore(loaded)
    assert [told(one) for one in again.segments] == [told(one) for one in side.log.segments]
    again.keep()
    assert [(one.name, one.stamps) for one in again.saved()] == [(one.name, one.stamps) for one in entries], (
        "what the store has is not written again"
    )
    again.tidy(10_000, set(), 1)
    again.keep()
    assert not again.saved()
    if in_files:
        assert not files.names(), "what has gone is deleted, under the name it was written"


def told(one: Segment) -> tuple[object, ...]:
    return one.number, one.batch, one.lot, one.first, one.last, one.rows.to_pylist(), one.keys.tolist()


def test_the_store_never_sees_what_came_and_went_between(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    side = Side(FileStore(files))
    side.append([0], 5)
    side.append([1], 5)
    side.log.tidy(0, set(), 1)
    side.log.keep()
    (one,) = side.log.segments
    assert files.names() == [f"{one.number}.arrow", f"{one.number}.index.arrow"]
    assert side.log.kept(one) is one, "kept once"


def test_rows_that_are_hidden_from_some_are_merged_with_their_like_only() -> None:
    side = Side(MemoryStore())
    for start in range(8):
        side.append([start], 500, frozenset({"A B"}) if start % 2 else frozenset())
    side.log.tidy(0, set(), 1)
    assert {one.hidden_from: len(one) for one in side.log.segments} == {frozenset({"A B"}): 4, frozenset(): 4}
    assert len(side.log.segments) == 2


def test_what_has_come_up_to_a_batch_is_not_merged_with_what_comes_later() -> None:
    """A chain that begins between the two sees them differently."""
    side = Side(MemoryStore())
    for start in range(3):
        side.append([start], 500)
    side.log.part_at(3)
    for start in range(3, 6):
        side.append([start], 500)
    side.log.tidy(0, set(), 1)
    assert [(one.batch, len(one)) for one in side.log.segments] == [(3, 3), (6, 3)]
    side.log.tidy(502, set(), 1)
    side.append([6], 500)
    side.log.tidy(502, set(), 1)
    assert [(one.batch, len(one)) for one in side.log.segments] == [(7, 4)], "the older ones have gone"


def test_what_is_there_for_units_only_goes_with_the_last_of_them(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    side = Side(FileStore(files))
    side.append([0], 5)
    side.append([90], 5)
    side.log.keep()
    retired, other = side.log.segments
    side.log.restore([other], retired=[retired])
    assert [one.number for one in side.log.pieces] == [other.number], "nothing that comes later meets it"
    side.log.tidy(50, {retired.number}, 1)
    side.log.keep()
    assert [(entry.number, entry.retired) for entry in side.log.saved()] == [(2, False), (1, True)]
    assert side.log.expired == 0
    side.log.tidy(50, set(), 1)
    side.log.keep()
    assert [(entry.number, entry.retired) for entry in side.log.saved()] == [(2, False)]
    assert side.log.expired == 1
    assert files.names() == ["2.arrow", "2.index.arrow"]


@pytest.mark.parametrize("owes", [False, True])
def test_only_what_is_owed_of_expired_segments_is_asked_for_and_nothing_is_trimmed(
    owes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_log, "_WORTH_TRIMMING", 1)
    side = Side(MemoryStore())
    side.append([0, 1], 5)
    side.append([2, 90], 5)
    asked = []

    def owed(segment: Segment) -> list[OnDisk]:
        asked.append(segment.number)
        entry = side.log.entry(segment)
        return (
            [OnDisk(entry, 1, Grouping(1), side.log._store.load, lambda _: np.ones(1, dtype=np.int64))] if owes else []
        )

    side.log.tidy(50, set(), 1, owed)
    assert asked == [1]
    assert side.held().keys() == {2, 3}, "a row that has expired beside one that has not"
    assert side.log.expired == (0 if owes else 2)
    side.log.drop_from_disk(lambda _: False)
    assert not side.log.on_disk
    assert side.log.expired == 2
