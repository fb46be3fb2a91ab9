"""What a shard measures, against plain counts: keys, selections, steps and pairs within an interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.compile import compile_script
from millstream.engine.gauges import KeySketch, Sampler, StepTimes, candidates, condition_name
from millstream.engine.keys import Codes, codes
from millstream.engine.pairs import Conditions
from millstream.engine.segment import Lot, Segment, build
from millstream.model.expr import Call, Column, Expr, Literal
from millstream.model.functions import Function
from millstream.model.interval import Interval
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING
from millstream.plan.nodes import LEFT, RIGHT, Condition
from millstream.plan.statistics import in_pool

SAMPLE, AT_ONCE, PERIOD, EXACT = 256, 32, 16, 511
"""What the module promises: rows and selections tried at once, batches until keys are forgotten, keys told exactly."""


def codes_of(keys: range | list[int]) -> Codes:
    return codes([pa.array(keys, pa.int64())], len(keys))


@given(st.lists(st.lists(st.integers(0, 400), max_size=60), max_size=8))
def test_few_keys_are_counted_exactly(batches: list[list[int]]) -> None:
    sketch = KeySketch()
    for keys in batches:
        sketch.add(codes_of(keys))
        sketch.next_batch()
    assert sketch.count == len({key for keys in batches for key in keys})


def test_up_to_the_keys_it_keeps_the_count_is_exact() -> None:
    sketch = KeySketch()
    sketch.add(codes_of(range(EXACT)), distinct=True)
    assert sketch.count == EXACT


@pytest.mark.parametrize("keys", [600, 1_000, 10_000, 300_000])
@pytest.mark.parametrize("distinct", [False, True])
def test_many_keys_are_estimated_within_a_fifth(keys: int, distinct: bool) -> None:
    """The standard error of 512 least values is about 4.4 %, so a fifth is more than four of them."""
    for trial in range(5):
        sketch, rng = KeySketch(), np.random.default_rng(trial)
        every = rng.choice(2**60, keys, replace=False)
        for part in np.array_split(rng.permutation(every), 7):
            some = part if distinct else rng.choice(part, 4 * len(part))
            if not distinct:
                some = np.concatenate((some, part))
            sketch.add(codes([pa.array(some, pa.int64())], len(some)), distinct=distinct)
            sketch.next_batch()
        assert sketch.count == pytest.approx(keys, rel=0.2)


@pytest.mark.parametrize("slot", [0, 5, 1023])
def test_keys_of_one_slot_are_estimated_too(slot: int) -> None:
    """All codes of a slot begin with the same bits: those must not count as few keys or many."""
    every = codes_of(range(20_000_000 // 4))
    own = every[every >> np.uint64(54) == np.uint64(slot)]
    sketch = KeySketch()
    sketch.add(own, distinct=True)
    assert len(own) > 2_000
    assert sketch.count == pytest.approx(len(own), rel=0.2)


@pytest.mark.parametrize("began", range(0, PERIOD, 5))
def test_keys_that_no_longer_come_are_forgotten(began: int) -> None:
    sketch = KeySketch()
    for _ in range(began):
        sketch.next_batch()
    sketch.add(codes_of(range(5_000)), distinct=True)
    for batch in range(2 * PERIOD):
        sketch.add(codes_of(range(10_000, 10_040)))
        sketch.next_batch()
        if batch + 1 < PERIOD:
            assert sketch.count > 4_000, "they came lately"
    assert sketch.count == 40


def test_no_key_is_none() -> None:
    sketch = KeySketch()
    sketch.add(codes_of([]))
    assert sketch.count == 0


steps = st.lists(st.tuples(st.sampled_from(["insert", "scan", "emit"]), st.integers(0, 99), st.integers(0, 9)))


@given(steps, steps)
def test_times_of_steps_are_plain_sums_and_begin_again(
    one: list[tuple[str, int, int]], other: list[tuple[str, int, int]]
) -> None:
    times, added = StepTimes(), StepTimes()
    for step in one:
        times.add(*step)
    for step in other:
        added.add(*step)
    times.add_all(added)
    found = times.taken()
    for name in ("insert", "scan", "emit"):
        own = [step for step in (*one, *other) if step[0] == name]
        assert found.spent.get(name, 0) == sum(spent for _, spent, _ in own)
        assert found.times.get(name, 0) == sum(count for _, _, count in own)
    times.add("scan", 7, 1)
    assert times == StepTimes({"scan": 7}, {"scan": 1}), "it began again"
    assert found.spent.get("scan", 0) == sum(spent for name, spent, _ in (*one, *other) if name == "scan"), (
        "what was taken stays as it was"
    )


STREAMS = """
CREATE STREAM A (k INT, v DOUBLE, s STRING, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM B (k INT, v DOUBLE, s STRING, Ts TIMESTAMP) WITH (time = 'Ts');
"""
SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.float64()), ("s", pa.string())])
Test = Callable[[Mapping[str, Any]], bool]
SELECTIONS: dict[str, Test] = {
    "A.v > 0.5": lambda row: row["v"] is not None and row["v"] > 0.5,
    "A.k = 1 AND A.v <= 1": lambda row: row["k"] == 1 and row["v"] is not None and row["v"] <= 1,
    "A.s IS NULL": lambda row: row["s"] is None,
    "A.k IN (0, 2) OR A.s = 'x'": lambda row: row["k"] in (0, 2) or row["s"] == "x",
    "A.v > 99": lambda row: row["v"] is not None and row["v"] > 99,
}


def selection(text: str, functions: Mapping[str, Function] | None = None) -> Condition:
    """A selection on A as its pool has it."""
    script = f"{STREAMS} CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k AND ({text}) WINDOW 1 SECOND;"
    (member,) = compile_script(script, functions=functions).members
    return frozenset(map(in_pool, member.conditions[LEFT]))


known = cache(selection)
row = st.fixed_dictionaries(
    {
        "k": st.integers(0, 3),
        "v": st.sampled_from([None, 0.0, 0.5, 1.0, 2.0]),
        "s": st.sampled_from([None, "x", "y"]),
    }
)
Batch = list[dict[str, Any]]


@given(st.lists(st.one_of(st.lists(row, max_size=6), st.lists(row, min_size=6, max_size=6).map(lambda r: r * 50))))
@settings(max_examples=50)
def test_a_sampler_counts_what_a_loop_counts(batches: list[Batch]) -> None:
    asked = {known(text): passes for text, passes in SELECTIONS.items()}
    assert len(asked) == len(SELECTIONS)
    sampler, times = Sampler(Conditions({}, {}), [*asked, *asked, frozenset()], {}), StepTimes()
    for batch in batches:
        sampler.look(pa.RecordBatch.from_pylist(batch, SCHEMA), times)
    seen = [one for batch in batches for one in batch[:SAMPLE]]
    wanted = {condition: (len(seen), sum(map(passes, seen))) for condition, passes in asked.items()}
    assert sampler.counts == (wanted if seen else {})
    assert times.times.get("filter", 0) == len(seen) * sum(map(len, asked))


def test_of_many_selections_some_are_tried_at_a_time_all_in_turn() -> None:
    count = 3 * AT_ONCE - 7
    asked = [selection(f"A.v > {number}") for number in range(count)]
    sampler, times = Sampler(Conditions({}, {}), asked, {}), StepTimes()
    batch = [{"k": 1, "v": float(number) + 0.5, "s": None} for number in range(10)]
    rows = pa.RecordBatch.from_pylist(batch, SCHEMA)
    tried = []
    for _ in range(3):
        before = {condition: sampler.counts.get(condition, (0, 0))[0] for condition in asked}
        sampler.look(rows, times)
        tried.append(sum(sampler.counts.get(condition, (0, 0))[0] > before[condition] for condition in asked))
    assert tried == [AT_ONCE] * 3
    assert len(sampler.counts) == count, "none waits for ever"
    for number, condition in enumerate(asked):
        of, passed = sampler.counts[condition]
        assert passed * 10 == of * sum(one["v"] > number for one in batch)


def test_a_users_function_is_not_called_for_a_sample() -> None:
    called: list[int] = []

    def slow(column: object) -> object:
        called.append(1)
        return column

    own = Function("slow", (DOUBLE,), lambda _: DOUBLE, call=slow)
    functions = {"slow": own}
    with_it = [selection("slow(A.v) > 1", functions), selection("A.k = 1 AND abs(slow(A.v) + 1) > 1", functions)]
    plain = selection("A.k = 1")
    conditions = Conditions(functions, {})
    sampler = Sampler(conditions, [*with_it, plain], functions)
    rows = pa.RecordBatch.from_pylist([{"k": 1, "v": 1.0, "s": None}] * 3, SCHEMA)
    for _ in range(5):
        sampler.look(rows, StepTimes())
    assert sampler.counts == {plain: (15, 15)}
    assert called == []
    conditions.on(rows, with_it[0])
    assert called, "it would have been, had the selection been tried"


KINDS = (INT, BIGINT, DOUBLE, STRING)
exprs: st.SearchStrategy[Expr] = st.recursive(
    st.one_of(
        st.builds(Column, st.just(0), st.sampled_from(["a", "b", 'a"', "a, b"]), st.sampled_from(KINDS)),
        st.builds(Literal, st.one_of(st.integers(0, 2), st.sampled_from(["a", '"', "]", "1"])), st.sampled_from(KINDS)),
    ),
    lambda inner: st.builds(
        Call,
        st.sampled_from(["=", "<", "and", "f"]),
        st.lists(inner, min_size=1, max_size=3).map(tuple),
        st.sampled_from([BOOLEAN, INT]),
    ),
    max_leaves=5,
)
selections_drawn = st.lists(st.frozensets(exprs, max_size=3), min_size=2, max_size=12)


@given(selections_drawn)
def test_only_equal_selections_have_the_same_name(found: list[Condition]) -> None:
    by_name: dict[str, Condition] = {}
    for condition in found:
        assert by_name.setdefault(condition_name(condition), condition) == condition
        assert condition_name(frozenset(list(condition)[::-1])) == condition_name(condition), "in whatever order"
    assert len(by_name) == len(set(found))


@dataclass(frozen=True)
class Rows:
    """How many rows there are, evenly spread from one time to another."""

    count: int
    first: int
    width: int

    def times(self, rng: np.random.Generator) -> list[int]:
        """Random times, among them the first and the last."""
        inner = rng.integers(self.first, self.first + self.width + 1, self.count - 2).tolist()
        return sorted([self.first, *inner, self.first + self.width])

    def segment(self, rng: np.random.Generator) -> Segment:
        times = pa.array(self.times(rng), pa.int64()).view(pa.timestamp("us", "UTC"))
        keys = pa.array(range(self.count), pa.int64())
        rows = pa.RecordBatch.from_arrays([keys, times], names=["k", "Ts"])
        return build(1, 1, Lot(1), rows, "Ts", codes([keys], self.count))


some_rows = st.builds(Rows, st.integers(200, 300), st.integers(-2_000, 2_000), st.integers(0, 3_000))


@given(
    probe=some_rows,
    states=st.lists(some_rows, min_size=1, max_size=3),
    lo=st.integers(-4_000, 4_000),
    width=st.integers(1, 4_000),
    at=st.sampled_from([LEFT, RIGHT]),
    seed=st.integers(0, 99),
)
def test_pairs_within_an_interval_are_about_those_a_loop_counts(
    probe: Rows, states: list[Rows], lo: int, width: int, at: int, seed: int
) -> None:
    rng, interval = np.random.default_rng(seed), Interval(lo, lo + width)
    one, others = probe.segment(rng), [state.segment(rng) for state in states]
    counted, possible = 0, 0
    for other in others:
        left, right = (one, other) if at == LEFT else (other, one)
        apart = np.subtract.outer(np.sort(right.times), np.sort(left.times))
        counted += int(np.count_nonzero((apart >= interval.lo) & (apart < interval.hi)))
        possible += apart.size
    # A mean of 200 random times is off by some hundredths of their spread; so is the share of pairs.
    assert candidates(one, at, others, interval) == pytest.approx(counted, abs=0.15 * possible)


@given(first=st.integers(0, 30), wide=st.integers(0, 30), other=st.integers(0, 30), lo=st.integers(-70, 70))
def test_of_one_row_at_every_time_the_share_is_off_by_less_than_a_diagonal(
    first: int, wide: int, other: int, lo: int
) -> None:
    """With a row at every microsecond a loop counts what the model means, but for the pairs at the interval's ends."""
    interval = Interval(lo, lo + 20)
    left, right = evenly(0, wide), evenly(first, other)
    apart = np.subtract.outer(right.times, left.times)
    counted = int(np.count_nonzero((apart >= interval.lo) & (apart < interval.hi)))
    diagonal = min(len(left), len(right))
    found = candidates(left, LEFT, (right,), interval)
    assert abs(found - counted) <= diagonal
    assert candidates(right, RIGHT, (left,), interval) == pytest.approx(found), "whichever of them probes"


def evenly(first: int, width: int) -> Segment:
    times = pa.array(range(first, first + width + 1), pa.int64()).view(pa.timestamp("us", "UTC"))
    rows = pa.RecordBatch.from_arrays([times], names=["Ts"])
    return build(1, 1, Lot(1), rows, "Ts", codes([], width + 1), indexed=False)


@given(first=some_rows, second=some_rows, cuts=st.lists(st.integers(-9_000, 9_000), min_size=2, unique=True))
def test_neighbouring_intervals_share_the_pairs_among_them(first: Rows, second: Rows, cuts: list[int]) -> None:
    """Slices next to each other must not count a pair twice or lose one."""
    rng, ends = np.random.default_rng(1), sorted(cuts)
    one, other = first.segment(rng), second.segment(rng)
    parts = [candidates(one, LEFT, (other,), Interval(lo, hi)) for lo, hi in pairwise(ends)]
    whole = candidates(one, LEFT, (other,), Interval(ends[0], ends[-1]))
    assert sum(parts) == pytest.approx(whole, rel=1e-6, abs=1e-6 * len(one) * len(other))
    every = candidates(one, LEFT, (other,), Interval(-(10**6), 10**6))
    assert every == len(one) * len(other)
