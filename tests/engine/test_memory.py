"""A shard's memory: bytes and results decide what leaves it and what comes back, and nothing owed is forgotten."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from limited import COUNT, Batch, Limited, everything, group_of, plan_of, row
from millstream.engine import memory
from millstream.engine.files import Files
from millstream.engine.groups import members
from millstream.engine.memory import MemoryLimit

PLENTY = 1 << 40
KEYS = {group: next(key for key in count() if group_of(key) == group) for group in range(COUNT)}


@pytest.fixture
def limited(tmp_path: Path) -> Limited:
    """Twenty rows a stream in each group, which have met."""
    found = Limited(plan_of("wide"), Files.at(tmp_path))
    found.run(even(0))
    return found


def even(first: int, rows: int = 20) -> Batch:
    """As many rows of every group."""
    return {
        name: [row(first + COUNT * n + group, KEYS[group], 0) for n in range(rows) for group in range(COUNT)]
        for name in "AB"
    }


def size_of_group(limited: Limited) -> int:
    return int(limited.memory.group_bytes().max())


@pytest.mark.parametrize(("of_held", "share", "least"), [(0.95, 0.3, 0.3), (0.4, 0.3, 0.6), (0.99, 0.05, 0.05)])
def test_what_is_over_the_limit_is_spilled_and_at_least_the_share(
    limited: Limited, of_held: float, share: float, least: float
) -> None:
    held, group = limited.memory.nbytes, size_of_group(limited)
    limit = MemoryLimit(nbytes=int(1.5 * of_held * held), share=share)
    limited.memory.relieve(limit, limited.batch)
    left = held - limited.memory.nbytes
    assert limited.memory.nbytes <= limit.state
    assert least * held - group <= left <= least * held + 2 * group, "and not much more"
    assert limited.memory.nbytes_on_disk >= 0.8 * left


@pytest.mark.parametrize("extra", [0, 1])
def test_below_the_limit_only_what_the_driver_asks_for_is_spilled(limited: Limited, extra: int) -> None:
    group = size_of_group(limited)
    limited.memory.relieve(MemoryLimit(nbytes=PLENTY, extra=extra * 3 * group), limited.batch)
    assert len(members(limited.memory.spilled.groups)) == 3 * extra
    assert limited.memory.nbytes_on_disk >= 0.8 * 3 * extra * group


@pytest.mark.parametrize("productive_first", [False, True])
def test_the_least_productive_leave_unless_it_is_to_be_the_other_way_round(
    limited: Limited, productive_first: bool
) -> None:
    limited.memory.statistics.results[:] = range(COUNT)
    limit = MemoryLimit(nbytes=PLENTY, extra=size_of_group(limited), productive_first=productive_first)
    limited.memory.relieve(limit, limited.batch)
    assert members(limited.memory.spilled.groups) == [COUNT - 1 if productive_first else 0]


def test_groups_without_rows_are_not_spilled(tmp_path: Path) -> None:
    limited = Limited(plan_of("wide"), Files.at(tmp_path))
    limited.spill()
    assert not limited.memory.spilled.by_marks, "nothing is there"
    limited.run({"A": [row(0, KEYS[3], 0)]})
    limited.spill()
    assert members(limited.memory.spilled.groups) == [3]
    assert (limited.memory.nbytes, len(limited.shard.pools()[0].on_disk)) == (0, 1)


@pytest.mark.parametrize("room", [0.0, 0.2, 0.6, 1.0])
def test_groups_come_back_while_there_is_room(limited: Limited, room: float) -> None:
    held = limited.memory.nbytes
    limited.spill()
    limited.memory.statistics.results[:] = range(COUNT)
    limit = MemoryLimit(nbytes=held * 3 // 2, room=room)
    assert not list(limited.memory.bring_back(limit, limited.batch)), "nothing was owed"
    assert limited.memory.nbytes <= room * held + size_of_group(limited) / 4
    back = COUNT - len(members(limited.memory.spilled.groups))
    assert back >= room * COUNT - 2
    assert members(limited.memory.spilled.groups) == list(range(COUNT - back)), "the most productive first"


def test_without_a_limit_all_come_back(limited: Limited) -> None:
    limited.spill()
    assert limited.memory.nbytes == 0
    list(limited.memory.bring_back(None, limited.batch))
    assert not limited.memory.spilled.by_marks
    assert limited.memory.nbytes_on_disk == 0
    assert limited.memory.nbytes > 0


def owing(limited: Limited) -> None:
    """All groups owe results: their rows from before the spill have not met later ones."""
    limited.spill()
    found = limited.run(even(10_000, 1), MemoryLimit(nbytes=PLENTY, room=0.0))
    assert found == {("wide", 10_000 + group, 10_000 + group): 1 for group in range(COUNT)}
    assert members(limited.memory.spilled.owing) == list(range(COUNT))


def keys_in_order(limited: Limited, limit: MemoryLimit | None, seconds: float | None) -> Iterator[int]:
    """The groups whose results come, one after the other."""
    last = None
    for _, joined in limited.memory.clean_up_within(limit, limited.batch, seconds):
        for number in joined.rows.column("a").to_pylist():
            group = (number if number < 10_000 else number - 10_000) % COUNT
            if group != last:
                yield group
                last = group


def test_what_is_owed_comes_from_the_most_productive_first(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_LEAST", 1)
    owing(limited)
    limited.memory.statistics.results[:] = [1000 * group for group in range(COUNT)]
    found = list(keys_in_order(limited, MemoryLimit(nbytes=1), None))
    assert found == list(reversed(range(COUNT))), "one at a time: more do not fit"
    assert not limited.memory.spilled.owing
    assert limited.memory.spilled.by_marks == {(2,): limited.memory.grouping.every}, "they stay on disk"
    assert limited.memory.nbytes == 0


def test_as_many_as_fit_are_cleaned_up_at_a_time(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_LEAST", 1)
    owing(limited)
    whole = int((limited.memory.group_bytes() + limited.memory.group_bytes_on_disk()).max())
    found = limited.memory.clean_up_within(MemoryLimit(nbytes=8 * 4 * whole), limited.batch, None)
    next(found)
    owed = len(members(limited.memory.spilled.owing))
    for _ in found:
        now = len(members(limited.memory.spilled.owing))
        assert owed - now in {0, 3, 4, owed}, "sizes are estimates"
        owed = now


def test_clean_up_stops_when_its_time_is_over(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_LEAST", 1)
    owing(limited)
    clock = count()
    monkeypatch.setattr(memory.time, "perf_counter", lambda: float(next(clock)))
    assert not list(limited.memory.clean_up_within(None, limited.batch, 0.0))
    assert members(limited.memory.spilled.owing) == list(range(COUNT))
    found = list(keys_in_order(limited, MemoryLimit(nbytes=1), 2.5))
    assert len(found) == 2, "it looks at the clock between two of them"
    assert len(members(limited.memory.spilled.owing)) == COUNT - 2


def test_without_a_limit_what_is_cleaned_up_stays_in_memory(limited: Limited) -> None:
    owing(limited)
    list(limited.memory.clean_up_within(None, limited.batch, None))
    assert not limited.memory.spilled.by_marks
    assert limited.memory.nbytes_on_disk == 0


def test_every_group_is_credited_with_what_it_gave(tmp_path: Path) -> None:
    batches = [
        {name: [row(n, KEYS[n % 5], n % 2) for n in range(size)] for size, name in ((9, "A"), (7, "B"), (4, "C"))}
        for _ in range(2)
    ]
    for queries in (("wide",), ("wide", "narrow"), ("three",), ("path",), ("self",)):
        limited = Limited(plan_of(*queries), Files.at(tmp_path / "-".join(queries)))
        for batch in batches:
            before = limited.memory.statistics.results.copy() * 0.9
            found = limited.run(batch, MemoryLimit(nbytes=PLENTY))
            gave = Counter[int]()
            for (_, a, _), times in found.items():
                gave[a % 5] += times
            wanted = before + [sum(gave[n] for n in range(5) if group_of(KEYS[n]) == g) for g in range(COUNT)]
            assert np.allclose(limited.memory.statistics.results, wanted), queries
        limited.run({})
        assert np.allclose(limited.memory.statistics.results, wanted * 0.9), "it fades"


steps = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 3), st.integers(0, 4)), max_size=6),
        st.integers(0, 2**COUNT - 1),
        st.sampled_from(["spill", "spill", "clean up", "nothing"]),
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=40)
@given(steps=steps, strict=st.booleans(), queries=st.sampled_from([("wide", "self"), ("three",), ("path",)]))
def test_nothing_that_is_owed_comes_before_the_earliest(
    steps: list[tuple[list[tuple[str, int, int]], int, str]], strict: bool, queries: tuple[str, ...]
) -> None:
    numbers, clock = count(), 0
    with tempfile.TemporaryDirectory() as place:
        limited = Limited(plan_of(*queries), Files.at(place), strict=strict)
        for given_rows, groups, what in steps:
            batch: dict[str, list[dict[str, object]]] = {name: [] for name in "ABC"}
            for name, key, age in given_rows:
                batch[name].append(row(next(numbers), key, clock + age))
            limited.watermark = clock
            limited.run(batch, MemoryLimit(nbytes=PLENTY, room=0.0))
            clock += 1
            if what == "spill":
                limited.shard.spill(groups)
            elif what == "clean up":
                check_earliest(limited, groups)
        check_earliest(limited, 2**COUNT - 1)
        assert not limited.memory.spilled.owing
        assert limited.memory.earliest_owed() is None


def check_earliest(limited: Limited, groups: int) -> None:
    earliest = limited.memory.earliest_owed()
    for _, joined in limited.memory.clean_up(groups, limited.batch, keep=False):
        event("owed")
        assert earliest is not None
        times = [source.times.take(rows) for _, source, rows in joined.pairs.placed()]
        assert np.max(times, axis=0).min() >= earliest


def test_results_do_not_depend_on_any_of_this(tmp_path: Path) -> None:
    """A limit that lets a part of the groups stay: they leave, come back and are cleaned up in turn."""
    plan = plan_of("wide", "narrow", "self")
    limited = Limited(plan, Files.at(tmp_path))
    batches = [
        {
            name: [row(100 * number + n, KEYS[(n * n + number) % COUNT], 3 * number + n % 3) for n in range(20)]
            for name in "AB"
        }
        for number in range(8)
    ]
    found: Counter[tuple[str, int, int]] = Counter()
    on_disk = set()
    for number, batch in enumerate(batches):
        limited.watermark = 3 * max(number - 1, 0)
        found += limited.run(batch, MemoryLimit(nbytes=6_000), finish=number == len(batches) - 1)
        on_disk.add(limited.memory.nbytes_on_disk > 0)
        assert limited.memory.nbytes <= 6_000 or number == len(batches) - 1
    assert on_disk >= {True}
    assert found == everything(plan, batches)


def test_in_strict_order_what_is_owed_is_unfinished_until_it_is_found(tmp_path: Path) -> None:
    limited = Limited(plan_of("wide"), Files.at(tmp_path), strict=True)
    limited.run({name: [row(n, key, 5) for n, key in KEYS.items()] for name in "AB"})
    limited.spill()
    assert not limited.shard.unfinished(), "nothing is owed yet"
    limited.run({"A": [row(99, KEYS[3], 7)]}, MemoryLimit(nbytes=1, room=0.0))
    (chain,) = limited.plan.chains
    assert limited.shard.unfinished() == {chain.signature: 7 * 1_000_000}
    list(limited.shard.clean_up(limited.memory.grouping.every, keep=False))
    assert not limited.shard.unfinished()
