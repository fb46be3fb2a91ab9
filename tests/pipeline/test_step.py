"""The batch step: groups are spread evenly, a report with an error is never committed, and times are kept as needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.chain_manifest import ChainManifest, DeferredUnit
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import ShardManifest
from millstream.errors import BatchFailed, QueryFailed, ScriptError
from millstream.model.functions import function
from millstream.pipeline import manifest as manifests
from millstream.pipeline import step
from millstream.pipeline.slot import SlotReport
from two_streams import BATCHES, PAIR, STREAMS, expected, same

SCRIPT = f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS;"


def report(slot: int, **told: Any) -> SlotReport:
    return SlotReport(slot=slot, **{"task": slot, "token": "t", **told})


@given(st.integers(0, 8).flatmap(lambda bits: st.tuples(st.just(1 << bits), st.integers(1, 1 << bits))))
def test_groups_are_spread_as_evenly_as_it_goes(numbers: tuple[int, int]) -> None:
    groups, slots = numbers
    spread = step._spread(slots, groups)
    assert len(spread) == groups
    assert set(spread) == set(range(slots)), "every slot has some"
    assert list(spread) == sorted(spread), "a slot's groups lie together"
    counts = Counter(spread).values()
    assert max(counts) - min(counts) <= 1


@given(st.sets(st.integers(0, 60)))
def test_ranges_hold_just_the_numbers_they_are_made_of(numbers: set[int]) -> None:
    ranges = step._ranges(sorted(numbers, key=lambda number: number % 7))
    assert [number for some in ranges for number in some] == sorted(numbers)
    assert all(one.stop < other.start for one, other in pairwise(ranges)), "and there are no more than it takes"


def test_a_report_with_an_error_is_never_committed() -> None:
    step._raise_failures([report(0), report(1)])
    with pytest.raises(QueryFailed, match="query 'a' and 'b': ValueError: no"):
        step._raise_failures(
            [
                report(0, error="odd"),
                report(1, error="ValueError: no", failed=("b",)),
                report(2, error="x", failed=("a",)),
            ]
        )
    with pytest.raises(BatchFailed, match="odd"):
        step._raise_failures([report(0), report(1, error="odd")])


def test_the_greatest_time_of_a_stream_never_goes_back() -> None:
    reports = [report(0, greatest={"A": 5, "B": -3}), report(1, greatest={"A": 7})]
    assert step._greatest({"A": 6, "C": 1}, [one.greatest for one in reports]) == {"A": 7, "B": -3, "C": 1}
    assert step._greatest({"A": 9}, [one.greatest for one in reports])["A"] == 9


def test_rows_are_counted_over_all_slots() -> None:
    assert step._counts([report(0, rows_in={"A": 5}), report(1, rows_in={"A": 1, "B": 2})]) == {"A": 6, "B": 2}


def test_it_is_kept_when_a_batch_came_as_long_as_units_of_it_wait() -> None:
    segments = tuple(
        SegmentEntry(number=n, name=f"s{n}", batch=n, reach=1, rows=1, nbytes=8, first=0, last=0) for n in (1, 2, 3)
    )
    pools = {"A": PoolManifest(segments=segments[:1]), "B": PoolManifest(segments=segments[1:])}
    waits = ChainManifest(ledger=(DeferredUnit(probe=2, at=1, lookup=((1, 3), (3,)), lo=0, hi=1),))
    reports = [
        report(0, state=ShardManifest(pools=pools, chains={"c": waits, "d": ChainManifest()})),
        report(1, state=ShardManifest(pools=pools, chains={"c": ChainManifest()})),
    ]
    assert step._arrived({1: 10, 2: 20, 3: 30}, 4, 40, reports) == {2: 20, 4: 40}


def test_a_batch_that_fails_changes_nothing_and_is_made_anew(mill: Callable[..., Any], tmp_path: Path) -> None:
    """What its slots wrote is swept away with the next start."""
    mark = str(tmp_path / "mark")

    @function("BOOLEAN", "DOUBLE")
    def moody(value: np.ndarray) -> np.ndarray:
        from pathlib import Path

        if np.any(value > 20) and not Path(mark).exists():
            Path(mark).touch()
            raise ValueError("not today")
        return value == value

    rows = [{name: [{**row, "v": row["v"] + 20} for row in batch[name]] for name in "AB"} for batch in BATCHES[1:2]]
    script = SCRIPT.replace(" WINDOW", " AND moody(A.v) WINDOW")
    options: dict[str, Any] = {"functions": {"moody": moody}, "settings": {"on_error": "stop", "slots": "2"}}
    first = mill(script, **options)
    first.put(BATCHES[0])
    first.pipeline.drain()
    before = manifests.latest(first.pipeline.directory.files.below("manifest"))
    second = mill(script, **options)
    second.put(rows[0])
    with pytest.raises((QueryFailed, BatchFailed)):
        second.pipeline.drain()
    assert manifests.latest(second.pipeline.directory.files.below("manifest")) == before
    third = mill(script, **options)
    third.pipeline.drain()
    same(third.results("q"), expected(9, [BATCHES[0], rows[0]]))


def test_a_function_that_cannot_travel_is_refused(mill: Callable[..., Any]) -> None:
    held = np.frompyfunc(lambda value: value, 1, 1)

    @function("DOUBLE", "DOUBLE")
    def stuck(value: np.ndarray) -> np.ndarray:
        return held(value)

    with pytest.raises(ScriptError, match="function stuck cannot be sent to Spark's workers"):
        mill(SCRIPT.replace("A.v AS", "stuck(A.v) AS"), functions={"stuck": stuck}).pipeline.drain()
