"""A pool at work: what arrives is seen by whom it should be, once, is kept, expires, and goes on after a restart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.files import Files
from millstream.engine.pool_run import PoolRun
from millstream.engine.release import SEQUENCE
from millstream.engine.segment import Lot, Segment
from millstream.engine.store import FileStore, MemoryStore, Store
from millstream.engine.watermark import NEVER
from millstream.plan.nodes import Pool

SECOND = 1_000_000
PLAN = compile_script(
    "CREATE STREAM A (id BIGINT, k BIGINT, v INT, Ts TIMESTAMP) WITH (time = 'Ts');"
    "CREATE QUERY near AS SELECT x.id FROM A x, A y WHERE x.k = y.k WINDOW 2 SECONDS;"
    "CREATE QUERY far AS SELECT x.id FROM A x, A y WHERE x.k = y.k AND x.v > 0 AND y.v > 0 WINDOW 9 SECONDS;"
)
(POOL,) = PLAN.pools
NEAR, FAR = 2 * SECOND, 9 * SECOND
Row = tuple[int, int, int]
"""A key, a value and a second."""


def pool_run(
    store: Store | None = None, *, pool: Pool = POOL, is_routing: bool = False, numbers: count[int] | None = None
) -> PoolRun:
    given_numbers = numbers or count(1)
    run = PoolRun(store or MemoryStore(), lambda: next(given_numbers))
    run.use(pool, {}, {}, readers=("near", "far"), last_position=1, is_routing=is_routing, hash_bits=64)
    return run


def rows(some: Sequence[Row], first: int = 0, *, numbered: bool = False) -> pa.RecordBatch:
    columns = {
        "id": pa.array(range(first, first + len(some)), pa.int64()),
        "k": pa.array([key for key, *_ in some], pa.int64()),
        "v": pa.array([value for _, value, _ in some], pa.int32()),
        "Ts": pa.array([second * SECOND for *_, second in some], pa.int64()).view(pa.timestamp("us", "UTC")),
    }
    if numbered:
        columns[SEQUENCE] = pa.array(range(len(some)), pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def ids(segments: Sequence[Segment]) -> list[int]:
    return sorted(one for segment in segments for one in segment.rows.column("id").to_pylist())


def test_what_has_just_arrived_is_seen_from_later_positions_until_all_see_it() -> None:
    run = pool_run()
    run.arrive([(rows([(1, 0, 0)]), frozenset())], 1)
    run.become_state()
    run.arrive([(rows([(1, 0, 1)], 1), frozenset())], 2)
    assert ids(run.fresh) == [1]
    assert ids(run.segments) == [0]
    assert ids(run.seen_from(0, 1)) == [0], "rows at a later position have yet to see them"
    assert ids(run.seen_from(1, 0)) == [0, 1]
    run.become_state()
    assert ids(run.seen_from(0, 1)) == ids(run.seen_from(1, 0)) == ids(run.segments) == [0, 1]
    assert ids(run.fresh) == [1], "they may still have to probe"
    run.arrive([], 3)
    assert not run.fresh
    assert ids(run.seen_from(1, 0)) == [0, 1]


def test_becoming_state_twice_is_becoming_state_once() -> None:
    run = pool_run()
    run.arrive([(rows([(1, 0, 0)]), frozenset())], 1)
    run.become_state()
    run.become_state()
    assert ids(run.segments) == [0]


parts_of = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 20)), max_size=4),
        st.frozensets(st.sampled_from(["one", "other"])),
    ),
    max_size=3,
)


@given(batches=st.lists(parts_of, max_size=4))
def test_rows_are_in_segments_of_their_lane_and_of_whom_they_are_hidden_from(
    batches: list[list[tuple[list[Row], frozenset[str]]]],
) -> None:
    run, wanted, first = pool_run(), dict[int, Lot](), 0
    for number, parts in enumerate(batches, start=1):
        arriving = []
        for some, hidden_from in parts:
            wanted |= {first + n: Lot(FAR if row[1] > 0 else NEAR, hidden_from) for n, row in enumerate(some)}
            arriving.append((rows(some, first), hidden_from))
            first += len(some)
        run.arrive(arriving, number)
        assert all(segment.batch == number and len(segment) for segment in run.fresh)
        run.become_state()
        run.tidy(NEVER, frozenset())
    found = {one: s.lot for s in run.segments for one in s.rows.column("id").to_pylist()}
    assert found == wanted
    saved = run.saved()
    assert (saved.taken, saved.expired) == (len(wanted), 0)


def test_what_no_chain_needs_goes_but_not_what_units_name() -> None:
    run = pool_run()
    run.arrive([(rows([(1, 0, 0), (1, 1, 0)]), frozenset())], 1)
    run.become_state()
    far, near = run.segments
    assert (far.reach, near.reach) == (FAR, NEAR)
    run.tidy(NEAR, frozenset({near.number}))
    assert run.segments == [far, near]
    run.tidy(NEAR, frozenset())
    assert run.segments == [far]
    run.tidy(FAR, frozenset())
    assert not run.segments
    assert run.watermark == FAR
    saved = run.saved()
    assert (saved.taken, saved.expired, saved.watermark) == (2, 2, FAR)


def test_tidying_again_changes_nothing_until_something_has() -> None:
    run = pool_run()
    for number in range(1, 4):
        run.arrive([(rows([(1, 0, number)], number), frozenset())], number)
        run.become_state()
    busy = frozenset({run.segments[0].number})
    run.tidy(0, busy)
    assert len(run.segments) == 2
    known = run.segments
    run.tidy(0, busy)
    assert run.segments is known
    run.tidy(0, frozenset())
    assert len(run.segments) == 1, "nothing names it any more"


@pytest.mark.parametrize("is_routing", [False, True])
def test_segments_stay_short_where_results_are_routed(is_routing: bool) -> None:
    """Large batches over a window; so fewer pairs are looked at that lie on the wrong side of a cut."""
    run = pool_run(is_routing=is_routing)
    for number in range(1, 10):
        run.arrive([(rows([(key, 1, number) for key in range(9_000)]), frozenset())], number)
        run.become_state()
        run.tidy(NEVER, frozenset())
    spans = [one.last - one.first for one in run.segments]
    assert (max(spans) <= FAR // 2) == is_routing


def test_units_name_segments_as_the_store_holds_them(tmp_path: Path) -> None:
    run = pool_run(FileStore(Files.at(tmp_path)))
    run.arrive([(rows([(key, 1, 0) for key in range(20_000)]), frozenset())], 1)
    (made,) = run.fresh
    run.keep_fresh()
    (kept,) = run.fresh
    assert kept is not made, "large ones are mapped"
    run.become_state()
    assert run.segments == [kept]
    run.keep()
    assert len(list(tmp_path.iterdir())) == 2, "written once"


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_a_saved_pool_goes_on_as_it_was(tmp_path: Path, numbered: bool, strict: bool) -> None:
    files, numbers = Files.at(tmp_path), count(1)
    run = pool_run(FileStore(files), numbers=numbers)
    hidden = frozenset({"one"})
    one, other = rows([(1, 0, 5)], numbered=numbered), rows([(2, 1, 5)], 1, numbered=numbered)
    run.arrive([(one, hidden), (other, frozenset())], 1)
    run.become_state()
    run.tidy(SECOND, frozenset())
    saved = run.saved()
    again = pool_run(FileStore(files, "b-"), numbers=numbers)
    again.arrive([(rows([(3, 0, 5)], 2), frozenset())], 1)
    again.restore(saved, strict=strict)
    assert not again.fresh
    assert [(one.name, one.stamps) for one in again.saved().segments] == [
        (one.name, one.stamps) for one in saved.segments
    ], "nothing is written again"
    assert (again.saved().taken, again.saved().expired) == (2, 0)
    assert [one.lot for one in again.segments] == [Lot(NEAR, hidden), Lot(FAR)]
    assert {SEQUENCE in one.rows.schema.names for one in again.segments} == {strict}
    assert again.watermark == SECOND
    again.tidy(60 * SECOND, frozenset())
    assert (again.saved().taken, again.saved().expired) == (2, 2)


def test_a_pool_that_nobody_reads_any_more_leaves_nothing(tmp_path: Path) -> None:
    run = pool_run(FileStore(Files.at(tmp_path)))
    run.arrive([(rows([(1, 0, 0)]), frozenset())], 1)
    run.become_state()
    run.keep()
    assert list(tmp_path.iterdir())
    run.end()
    assert not list(tmp_path.iterdir())
    assert not run.segments
