"""Results in order: rows come out by their places, whatever the parts, the bounds and the restarts in between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine import widths
from millstream.engine.keys import codes
from millstream.engine.pairs import Pairs
from millstream.engine.release import SEQUENCE, Bounds, OrderedBuffer, OrderedRun, sequenced
from millstream.engine.segment import Lot, Segment, build

Place = tuple[int, ...]
FAR = 2**61
times = st.one_of(st.integers(0, 5), st.integers(0, 5), st.sampled_from([-FAR, FAR]))
"""Most places fit into one number together; with times far apart they do not."""
bounds_of = st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 2))


def part(places: list[Place]) -> OrderedRun:
    columns = tuple(np.array(values, dtype=np.int64) for values in zip(*places, strict=True))
    return OrderedRun.sorted(columns, pa.RecordBatch.from_pydict({"row": [repr(place) for place in places]}))


@dataclass(slots=True)
class Waiting:
    """A row of the plain oracle."""

    place: Place
    fresh: bool


def released(waiting: list[Waiting], bounds: Bounds | None) -> list[Place]:
    """Row by row: those before the first that must wait."""
    must_wait = [
        one.place for one in waiting if bounds and not one.place < (bounds.fresh if one.fresh else bounds.held)
    ]
    first = min(must_wait, default=(2**62,))
    out = sorted((one for one in waiting if one.place < first), key=lambda one: one.place)
    for one in out:
        waiting.remove(one)
    for one in waiting:
        one.fresh = False
    return [one.place for one in out]


STEPS = ["add", "add", "add", "release", "release", "release", "save", "all"]


@given(data=st.data(), chunk=st.sampled_from([40, 90, 1 << 26]))
def test_rows_come_out_in_the_order_of_their_places(data: st.DataObject, chunk: int) -> None:
    held, waiting, tie = OrderedBuffer(), list[Waiting](), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(widths, "CHUNK_BYTES", chunk)
        for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=4, max_size=12)):
            if step == "add":
                made = data.draw(
                    st.lists(st.tuples(times, st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6)
                )
                ties = data.draw(st.permutations(range(tie, tie + len(made))))
                places = [(*place, own, -own) for place, own in zip(made, ties, strict=True)]
                tie += len(made)
                held.add(part(places))
                waiting += [Waiting(place, fresh=True) for place in places]
            elif step == "save":
                if len(held):
                    saved, held = held.saved(), OrderedBuffer()
                    held.take_back(saved)
            else:
                fresh = data.draw(bounds_of)
                bounds = None if step == "all" else Bounds(fresh, min(fresh, data.draw(bounds_of)))
                out = list(held.release(bounds))
                found = [row for some, _ in out for row in some.column("row").to_pylist()]
                wanted = released(waiting, bounds)
                assert found == [repr(place) for place in wanted]
                assert [batch for _, batches in out for batch in batches.tolist()] == [place[1] for place in wanted]
            assert len(held) == len(waiting)


def test_what_was_held_before_waits_for_a_bound_of_its_own() -> None:
    held = OrderedBuffer()
    held.add(part([(3, 0, 0, 0, 0)]))
    assert not list(held.release(Bounds((3, 0, 0), (0, 0, 0))))
    held.add(part([(2, 0, 0, 0, 0), (4, 0, 0, 0, 0)]))
    ((rows, _),) = held.release(Bounds((5, 0, 0), (3, 0, 0)))
    assert rows.column("row").to_pylist() == ["(2, 0, 0, 0, 0)"], "a row just made waits behind one held before"
    assert len(held) == 2


def test_large_results_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widths, "CHUNK_BYTES", 100)
    held = OrderedBuffer()
    for start in (0, 1):
        held.add(part([(time, 0, 0, 0, 0) for time in range(start, 40, 2)]))
    sizes = [rows.num_rows for rows, _ in held.release(None)]
    assert sum(sizes) == 40
    assert max(sizes) < 10


def test_how_many_rows_lie_before_a_bound() -> None:
    places = [(1, 1, 0), (1, 2, 0), (1, 2, 5), (3, 0, 0)]
    one = part(places)
    for bound in [(0, 0, 0), (1, 2), (1, 2, 0), (1, 2, 1), (1, 2, 9), (2,), (3, 0, 0), (9,)]:
        assert one.before(bound) == sum(place < bound for place in places)
    assert one.cut(0, 4) is one
    assert (one.cut(1, 3).first, one.cut(1, 3).last) == ((1, 2, 0), (1, 2, 5))


def segment(times: list[int], numbers: list[int] | None) -> Segment:
    rows = pa.RecordBatch.from_pydict(
        {"id": pa.array(times), "Ts": pa.array(times, pa.int64()).view(pa.timestamp("us", "UTC"))}
    )
    if numbers is not None:
        rows = rows.append_column(SEQUENCE, pa.array(numbers, pa.int64()))
    return build(1, 1, Lot(9), rows, "Ts", codes([], len(times)))


def test_the_place_of_a_row_is_its_later_time_its_batch_and_the_age_of_the_match() -> None:
    left, right = segment([5, 8], [70, 71]), segment([6], [80])
    pairs = Pairs((left, right), (np.array([1, 0]), np.array([0, 0])), {})
    one = OrderedRun.of(pairs, 4, pa.RecordBatch.from_pydict({"n": [1, 0]}))
    assert [values.tolist() for values in one.keys] == [[6, 8], [4, 4], [1, 2], [70, 71], [80, 80]]
    assert one.rows.column("n").to_pylist() == [0, 1]


def test_of_several_rows_the_latest_says_when_and_the_earliest_how_old() -> None:
    some = [segment([5, 8], [70, 71]), segment([6], [80]), segment([2, 7], [90, 91])]
    pairs = Pairs(tuple(some), (np.array([1, 0, 1]), np.array([0, 0, 0]), np.array([0, 1, 1])), {})
    one = OrderedRun.of(pairs, 4, pa.RecordBatch.from_pydict({"n": [2, 0, 1]}))
    assert one.rows.column("n").to_pylist() == [0, 1, 2]
    assert [values.tolist() for values in one.keys] == [
        [7, 8, 8],
        [4, 4, 4],
        [2, 2, 6],
        [70, 71, 71],
        [80, 80, 80],
        [91, 91, 90],
    ], "with the arrival numbers of all its rows"


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_a_saved_segment_serves_under_either_order(numbered: bool, strict: bool) -> None:
    before = segment([5, 8, 9], [7, 8, 9] if numbered else None)
    after = sequenced(before, strict=strict)
    assert (after is before) == (strict == numbered)
    assert after.rows.column("id").equals(before.rows.column("id"))
    assert after.times.tolist() == [5, 8, 9]
    names = ["id", "Ts", SEQUENCE] if strict else ["id", "Ts"]
    assert after.rows.schema.names == names
    if strict:
        assert after.gather(SEQUENCE, np.arange(3)).to_pylist() == ([7, 8, 9] if numbered else [0, 0, 0])
