"""What a shard measures while it works, for the planner: the time of every step, pairs and keys, and how many rows
pass each selection. It is taken out batch by batch and goes to the driver, which smooths it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.engine.keys import Codes
from millstream.engine.on_disk import Piece
from millstream.engine.pairs import Conditions
from millstream.model.expr import Call, Expr, structure, walk
from millstream.model.functions import Function
from millstream.model.interval import Interval
from millstream.plan.nodes import LEFT, Condition, PoolName, Signature

STEPS = ("insert", "append", "expire", "filter", "search", "scan", "route", "emit")
_KEPT = 512
_PERIOD = 16
_SAMPLE = 256
_AT_ONCE = 32
_GROUP_BITS = np.uint64(20)
"""More than the leading bits that say which slot has a key: those are the same for all keys of a slot."""
_SPACE = 2.0**64


@dataclass(slots=True)
class StepTimes:
    """Nanoseconds of each step, and how often it was done: rows, pairs or comparisons."""

    spent: dict[str, int] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)

    def add(self, step: str, nanoseconds: int, times: int) -> None:
        self.spent[step] = self.spent.get(step, 0) + nanoseconds
        self.times[step] = self.times.get(step, 0) + times

    def add_all(self, other: StepTimes) -> None:
        for step, nanoseconds in other.spent.items():
            self.add(step, nanoseconds, other.times[step])

    def taken(self) -> StepTimes:
        """All of it; it begins again with nothing."""
        found = StepTimes(self.spent, self.times)
        self.spent, self.times = {}, {}
        return found


@dataclass(slots=True)
class PairCounts:
    """Pairs that were made, of so many `candidates`: pairs of rows within the slices, if rows come evenly."""

    pairs: int = 0
    candidates: float = 0.0


class KeySketch:
    """Estimates how many distinct keys came lately, from the least codes among them (k minimum values)."""

    def __init__(self) -> None:
        self._now: Codes = np.empty(0, dtype=np.uint64)
        self._before: Codes = np.empty(0, dtype=np.uint64)
        self._batches = 0

    def add(self, keys: Codes, *, distinct: bool = False) -> None:
        """Codes of rows; where `distinct`, each once."""
        mixed = keys << _GROUP_BITS
        if len(self._now) == _KEPT:
            mixed = mixed[mixed < self._now[-1]]
        if distinct and len(mixed) > _KEPT:
            mixed = np.partition(mixed, _KEPT)[:_KEPT]  # so that far fewer have to be sorted
        if len(mixed):
            self._now = np.unique(np.concatenate((self._now, mixed)))[:_KEPT]

    def next_batch(self) -> None:
        """Forgets, after some batches, what came long ago."""
        self._batches += 1
        if self._batches % _PERIOD == 0:
            self._before, self._now = self._now, np.empty(0, dtype=np.uint64)

    @property
    def count(self) -> float:
        least = np.union1d(self._before, self._now)
        if len(least) < _KEPT:
            return float(len(least))
        return (_KEPT - 1) / (float(least[_KEPT - 1]) / _SPACE)


class Sampler:
    """How many rows of a sample pass each selection of a pool; those with a user's function are not tried, since it may
    be slow.
    """

    def __init__(self, conditions: Conditions, asked: Iterable[Condition], functions: Mapping[str, Function]) -> None:
        self._conditions = conditions
        self._asked = [
            condition
            for condition in dict.fromkeys(asked)
            if condition and not any(_calls(expr, functions) for expr in condition)
        ]
        self._next = 0
        self.counts: dict[Condition, tuple[int, int]] = {}

    def look(self, rows: pa.RecordBatch, times: StepTimes) -> None:
        """Tries some selections, in turn, on the first rows of a batch."""
        if not self._asked or not rows.num_rows:
            return
        some = rows.slice(0, _SAMPLE)
        for _ in range(min(_AT_ONCE, len(self._asked))):
            condition = self._asked[self._next % len(self._asked)]
            self._next += 1
            began = time.perf_counter_ns()
            passed = int(np.count_nonzero(self._conditions.on(some, condition)))
            times.add("filter", time.perf_counter_ns() - began, some.num_rows * len(condition))
            before = self.counts.get(condition, (0, 0))
            self.counts[condition] = (before[0] + some.num_rows, before[1] + passed)


def _calls(expr: Expr, functions: Mapping[str, Function]) -> bool:
    return any(isinstance(part, Call) and part.op in functions for part in walk(expr))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What one batch has shown in one shard. `passed` has for each pool and selection how many rows of a sample there
    were, and how many passed.
    """

    steps: StepTimes = field(default_factory=StepTimes)
    pairs: Mapping[Signature, PairCounts] = field(default_factory=dict)
    keys: Mapping[PoolName, float] = field(default_factory=dict)
    passed: Mapping[tuple[PoolName, str], tuple[int, int]] = field(default_factory=dict)


def condition_name(condition: Condition) -> str:
    """A selection as text that is equal for equal ones only."""
    return json.dumps(sorted(json.dumps(structure(expr)) for expr in condition))


def candidates(probe: Piece, at: int, states: Sequence[Piece], interval: Interval) -> float:
    """How many pairs of these rows lie within the interval of T_right - T_left, if they are spread evenly in time."""
    total = 0.0
    for state in states:
        left, right = (probe, state) if at == LEFT else (state, probe)
        share = _share_within(left.first, left.last, right.first, right.last, interval)
        total += len(probe) * len(state) * share
    return total


def _share_within(left_first: int, left_last: int, right_first: int, right_last: int, interval: Interval) -> float:
    """The chance that the difference of two evenly spread times is in the interval."""
    wide, other = float(left_last - left_first + 1), float(right_last - right_first + 1)
    least = right_first - left_last
    if interval.lo <= least and interval.hi > right_last - left_first:
        return 1.0

    def below(limit: int) -> float:
        past = min(max(float(limit - least), 0.0), wide + other)
        areas = past**2 - max(past - wide, 0.0) ** 2 - max(past - other, 0.0) ** 2
        return areas / (2 * wide * other)

    return min(max(below(interval.hi) - below(interval.lo), 0.0), 1.0)
