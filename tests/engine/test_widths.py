"""Rows whose width is their own: counted in bytes, cut and put together so that columns can hold them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine import widths


@pytest.mark.parametrize("start", [0, 2])
def test_the_bytes_of_rows_are_counted_through_all_levels(start: int) -> None:
    nested = pa.array([["a", "bcd"], None, [], ["ef", None], [""]])
    cases = {
        "text": (pa.array(["ab", None, "", "ä", "x" * 9]), [2, 0, 0, 2, 9]),
        "binary": (pa.array([b"ab", None, b"", b"1", b"x" * 9]), [2, 0, 0, 1, 9]),
        "list": (nested, [4, 0, 0, 2, 0]),
        "numbers": (pa.array([[1, 2], None, [], [3, None], [4]], pa.list_(pa.int64())), [16, 0, 0, 16, 8]),
        "flags": (pa.array([[True] * 3, None, [], [None], [False]]), [3, 0, 0, 1, 1]),
        "nulls": (pa.array([[None] * 3, None, [], [None], [None]], pa.list_(pa.null())), [3, 0, 0, 1, 1]),
        "map": (
            pa.array([[("a", 1)], None, [], [("bc", None)], []], pa.map_(pa.string(), pa.int32())),
            [5, 0, 0, 6, 0],
        ),
        "struct": (pa.StructArray.from_arrays([nested, pa.array(range(5), pa.int8())], ["n", "x"]), [5, 1, 1, 3, 1]),
    }
    for name, (column, wanted) in cases.items():
        assert widths.is_bulky(column.type), name
        assert widths.widths(column.slice(start)).tolist() == wanted[start:], name
    assert not any(map(widths.is_bulky, (pa.int8(), pa.bool_(), pa.decimal128(9, 2), pa.timestamp("us"), pa.null())))


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 40))
def test_stretches_are_as_long_as_they_can_be(sizes: list[int], most: int) -> None:
    found = list(widths.stretches(np.array(sizes, dtype=np.int64), most))
    assert [0, *(stop for _, stop in found)] == [*(start for start, _ in found), len(sizes)]
    for start, stop in found:
        assert sum(sizes[start:stop]) <= most or stop - start == 1
    for (start, _), (_, stop) in pairwise(found):
        first = next(end for begin, end in found if begin == start)
        assert sum(sizes[start : first + 1]) > most, "the next one would have fitted"
        assert stop > first


@given(st.lists(st.integers(0, 9), max_size=12), st.none() | st.integers(1, 400))
def test_batches_are_put_together_as_far_as_they_go(counts: list[int], most: int | None) -> None:
    batches = [
        pa.RecordBatch.from_pydict({"n": pa.array([number] * count, pa.int64())}) for number, count in enumerate(counts)
    ]
    found = widths.together(batches, most)
    assert [n for batch in found for n in batch["n"].to_pylist()] == [
        n for n, count in enumerate(counts) for _ in range(count)
    ]
    assert len(found) == (min(1, len(counts)) if most is None else len(found))
    for batch in found if most is not None else ():
        assert batch.nbytes <= most or any(batch is one for one in batches)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_rows_of_several_owners_come_in_the_order_they_are_named(owners: list[int]) -> None:
    """Each owner is asked once, for its own places."""
    asked: list[int] = []

    def pick(owner: int, places: np.ndarray) -> pa.Array:
        asked.append(owner)
        assert all(owners[place] == owner for place in places)
        return pa.array([f"{owner}: {place}" for place in places])

    found = widths.interleaved(np.array(owners), pick, pa.concat_arrays)
    assert found.to_pylist() == [f"{owner}: {place}" for place, owner in enumerate(owners)]
    assert sorted(asked) == sorted(set(owners))


def test_a_functions_texts_may_outgrow_a_column() -> None:
    with pytest.raises(pa.ArrowCapacityError):
        widths.checked(pa.chunked_array([["a"], ["b"]]))


def test_a_column_that_outgrows_its_offsets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = pa.array(["abc", "defg"])
    assert widths.checked(text) is text
    monkeypatch.setattr(widths, "CAPACITY", 6)
    for make in (lambda: widths.checked(text), lambda: widths.repeated(pa.scalar("abc"), 3)):
        with pytest.raises(pa.ArrowCapacityError) as failure:
            make()
        assert widths.overflowed(failure.value)
    assert widths.checked(pa.array([1] * 100)).to_pylist() == [1] * 100, "numbers have no offsets"
    assert widths.repeated(pa.scalar(7), 100).to_pylist() == [7] * 100


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (pa.ArrowInvalid("offset overflow while concatenating arrays"), True),
        (pa.ArrowInvalid("Negative buffer resize; overflowed binary array capacity"), True),
        (pa.ArrowInvalid("integer overflow"), False),
        (ValueError("offset overflow"), False),
        (None, False),
    ],
)
def test_which_failures_half_of_the_rows_may_not_have(error: BaseException | None, told: bool) -> None:
    assert widths.overflowed(error) == told


@given(st.integers(0, 40), st.integers(1, 10))
def test_work_is_done_in_halves_where_it_is_too_much(stop: int, fits: int) -> None:
    def work(start: int, end: int) -> list[int]:
        if end - start > fits:
            raise pa.ArrowCapacityError("too much")
        return list(range(start, end))

    found = widths.in_halves(work, 0, stop)
    assert [n for part in found for n in part] == list(range(stop))
    assert all(len(part) >= (fits + 1) // 2 for part in found) or stop <= fits


def failing(error: Exception) -> Callable[[int, int], int]:
    def work(_start: int, _stop: int) -> int:
        raise error

    return work


def test_halves_of_what_never_fits_or_fails_otherwise_are_not_tried_for_ever() -> None:
    with pytest.raises(pa.ArrowCapacityError):
        widths.in_halves(failing(pa.ArrowCapacityError("a single row")), 0, 5)
    with pytest.raises(pa.ArrowInvalid, match="something else"):
        widths.in_halves(failing(pa.ArrowInvalid("something else")), 0, 5)


def test_only_columns_of_variable_width_take_bytes_of_their_own() -> None:
    assert widths.bytes_of(pa.array([1, 2])) == 0
    assert widths.bytes_of(pa.array(["abc", "d"])) >= 4
