"""The generator of state-adapt: join ratios, partitions that are groups, and a load that changes sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from millstream.engine.groups import Grouping
from millstream.lab.workloads.join_ratio import STREAMS, JoinRatio, engine_codes, even, keys_of_groups, thirds

SMALL = JoinRatio(ratios=thirds((4, 2, 1), 30), tuples=6_000, tuple_range=3_000, batches=4, seconds=60, groups=32)


def drawn(streams: JoinRatio, name: str) -> np.ndarray:
    return np.concatenate([np.asarray(table.column("K")) for table in streams.stream(name)])


def test_it_is_the_same_again_and_another_with_another_seed() -> None:
    again, other = replace(SMALL), replace(SMALL, seed=2)
    assert [batch["A"] for batch in SMALL.rows()] == [batch["A"] for batch in again.rows()]
    assert (drawn(SMALL, "A") != drawn(other, "A")).any()
    assert (drawn(SMALL, "A") != drawn(SMALL, "B")).any()


def test_partitions_are_groups() -> None:
    grouping = Grouping(SMALL.groups)
    for partition, keys in enumerate(SMALL.keys):
        assert set(grouping.of(engine_codes(keys)).tolist()) == {partition}
    assert len(np.unique(np.concatenate(SMALL.keys))) == sum(map(len, SMALL.keys))


def test_a_key_comes_as_often_in_a_range_as_its_ratio_says() -> None:
    keys, counts = np.unique(drawn(SMALL, "A"), return_counts=True)
    times = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    for ratio in (4, 2, 1):
        own = [times.get(key, 0) for at, some in enumerate(SMALL.keys) if SMALL.ratios[at] == ratio for key in some]
        assert np.mean(own) == pytest.approx(2 * ratio, rel=0.1)


def test_results_are_the_combinations_of_equal_keys() -> None:
    tiny = replace(SMALL, tuples=400, tuple_range=200)
    sides = [drawn(tiny, name).tolist() for name in STREAMS]
    assert tiny.results() == sum(a == b == c for a in sides[0] for b in sides[1] if a == b for c in sides[2])


def test_rows_come_in_batches_in_the_order_of_time() -> None:
    batches = [batch["C"] for batch in SMALL.rows()]
    assert [batch.num_rows for batch in batches] == [1_500] * 4
    for number, batch in enumerate(batches):
        times = np.asarray(batch.column("Ts")).astype(np.int64)
        assert (np.diff(times) >= 0).all()
        assert number * 60_000_000 <= times[0]
        assert times[-1] < (number + 1) * 60_000_000


def test_the_load_changes_sides() -> None:
    streams = replace(SMALL, ratios=even(2, 30), turns=(1, 3), favoured=frozenset(range(15)))
    shares = []
    for batch in streams.rows():
        groups = Grouping(streams.groups).of(engine_codes(np.asarray(batch["A"].column("K"))))
        shares.append(float((groups < 15).mean()))
    assert shares == pytest.approx([10 / 11, 1 / 11, 1 / 11, 10 / 11], abs=0.05)


def test_keys_of_groups_are_distinct_and_as_many_as_asked_for() -> None:
    found = keys_of_groups([3, 0, 5], 8, engine_codes)
    assert [len(some) for some in found] == [3, 0, 5]
    assert len({key for some in found for key in some.tolist()}) == 8
