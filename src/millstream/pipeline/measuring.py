"""Statistics at run time: what slots measure, batch by batch, becomes rates, keys, selectivities and costs.

Everything is a ratio of two sums, and both forget: a batch counts for less with every batch after it. The sums are kept
in the manifest, so that a run goes on with what the one before has learned.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from millstream.engine.gauges import Measurements, condition_name
from millstream.model.duration import SECOND
from millstream.plan.costs import Calibration
from millstream.plan.nodes import Condition, Plan
from millstream.plan.statistics import Statistics, in_pool

_KEPT = 0.9
"""What a batch still counts for after the next one with rows."""
ENOUGH = 10_000
"""From how many times on the mean time of a step counts."""
_FAR = 10.0
"""A measured cost is believed up to so many times that of the calibration: a swapped or suspended machine tells
nothing about plans.
"""


@dataclass(slots=True)
class Ratio:
    """A smoothed ratio: an amount over what it came of."""

    amount: float = 0.0
    of: float = 0.0

    def add(self, amount: float, of: float) -> None:
        self.amount = self.amount * _KEPT + amount
        self.of = self.of * _KEPT + of

    @property
    def value(self) -> float | None:
        return self.amount / self.of if self.of > 0 else None


Ratios = dict[str, Ratio]


@dataclass(slots=True, kw_only=True)
class RunStatistics:
    """`rates` are rows per second of event time by stream, `arrivals` rows per second of the clock. `keys` are counted
    by pool, `passed` is by pool and selection the share that passes, `joins` by chain the share of pairs that match,
    `steps` the nanoseconds of each step, and `spent` the milliseconds of all steps per second of event time.
    """

    batches: int = 0
    rates: Ratios = field(default_factory=dict)
    arrivals: Ratios = field(default_factory=dict)
    keys: dict[str, float] = field(default_factory=dict)
    passed: Ratios = field(default_factory=dict)
    joins: Ratios = field(default_factory=dict)
    steps: Ratios = field(default_factory=dict)
    spent: Ratio = field(default_factory=Ratio)
    _of: Plan | None = field(default=None, repr=False, compare=False)

    def learn(
        self,
        plan: Plan,
        measured: Sequence[Measurements],
        *,
        rows: Mapping[str, int],
        before: Mapping[str, int],
        after: Mapping[str, int],
        seconds: float | None,
        shed: Mapping[str, int] | None = None,
    ) -> None:
        """What a batch with rows has shown: `before` and `after` are the greatest times of streams, `seconds` the time
        in which its rows came; None where that is not known. Rows that were `shed` have arrived, and nothing else: a
        plan is for the rows that are joined.
        """
        self.batches += 1
        self._forget(plan)
        moved = []
        for stream, count in rows.items():
            went_on = after.get(stream, 0) - before[stream] if stream in before else 0
            if went_on > 0:
                self.rates.setdefault(stream, Ratio()).add(count, went_on / SECOND)
                moved.append(went_on / SECOND)
            if seconds:
                came = count + (shed or {}).get(stream, 0)
                self.arrivals.setdefault(stream, Ratio()).add(came, seconds)
        total = 0
        for name, nanoseconds, times in _steps(measured):
            self.steps.setdefault(name, Ratio()).add(nanoseconds, times)
            total += nanoseconds
        if moved:
            self.spent.add(total / 1e6, sum(moved) / len(moved))
        for chain in plan.chains:
            counts = [one.pairs[chain.signature] for one in measured if chain.signature in one.pairs]
            within = sum(one.candidates for one in counts)
            if within:
                self.joins.setdefault(chain.signature, Ratio()).add(sum(one.pairs for one in counts), within)
        for pool in plan.pools:
            # Slots have different keys where rows are spread by this key; else each has some of all.
            counts_of = [one.keys.get(pool.name, 0.0) for one in measured]
            count_now = sum(counts_of) if pool.is_routed else max(counts_of, default=0.0)
            if count_now and rows.get(pool.stream.name):
                known = self.keys.get(pool.name)
                self.keys[pool.name] = count_now if known is None else known * _KEPT + count_now * (1 - _KEPT)
        for name, of, amount in _passed(measured):
            self.passed.setdefault(name, Ratio()).add(amount, of)

    def _forget(self, plan: Plan) -> None:
        """What is no longer in the plan: queries come and go, and the manifest must not grow with them."""
        if plan is self._of:
            return
        self._of = plan
        streams, chains = {one.name for one in plan.script.streams}, {chain.signature for chain in plan.chains}
        asked = {f"{pool} {condition_name(condition)}" for _, condition, pool in _selections(plan)}
        pools = {pool.name for pool in plan.pools}
        self.rates, self.arrivals = _only(self.rates, streams), _only(self.arrivals, streams)
        self.joins, self.passed = _only(self.joins, chains), _only(self.passed, asked)
        self.keys = {name: count for name, count in self.keys.items() if name in pools}

    def statistics(self, plan: Plan) -> Statistics:
        """What the planner may use instead of hints."""
        key_counts: dict[str, float] = {}
        for pool in plan.pools:
            if pool.by and pool.name in self.keys:
                stream = pool.stream.name
                key_counts[stream] = max(self.keys[pool.name], key_counts.get(stream, 0.0))
        selections = {}
        for stream, condition, pool_name in _selections(plan):
            share = self.passed.get(f"{pool_name} {condition_name(condition)}")
            if share is not None and share.value is not None:
                selections[stream, condition] = share.value
        return Statistics(
            rates=_values(self.rates), key_counts=key_counts, joins=_values(self.joins), selections=selections
        )

    def calibration(self, base: Calibration) -> Calibration:
        """The costs of steps as measured here, where they have been done often enough."""
        ns = {name: one.value for name, one in self.steps.items() if one.of >= ENOUGH and one.value}
        expire = self.steps.get("expire", Ratio()).amount
        inserts = self.steps.get("insert", Ratio())
        found = {
            "index_insert": (inserts.amount + expire) / inserts.of if "insert" in ns else None,
            "scan_append": ns.get("append"),
            "scan_compare": ns.get("scan"),
            "pair_emit": ns.get("emit"),
            "route": ns.get("route"),
        }
        believed = {
            name: min(max(cost, getattr(base, name) / _FAR), getattr(base, name) * _FAR)
            for name, cost in found.items()
            if cost
        }
        return replace(base, **believed)

    def to_json(self) -> dict[str, Any]:
        ratios = {name: _to_json(getattr(self, name)) for name in _RATIOS}
        keys = {name: round(one, 1) for name, one in self.keys.items()}
        return {"batches": self.batches, "keys": keys, "spent": _pair(self.spent), **ratios}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> RunStatistics:
        if not saved:
            return cls()
        ratios: dict[str, Any] = {name: {key: Ratio(*one) for key, one in saved[name].items()} for name in _RATIOS}
        spent = Ratio(*saved.get("spent", (0.0, 0.0)))
        return cls(batches=saved["batches"], keys=dict(saved["keys"]), spent=spent, **ratios)


_RATIOS = ("rates", "arrivals", "passed", "joins", "steps")


def _to_json(ratios: Ratios) -> dict[str, list[float]]:
    return {name: _pair(one) for name, one in ratios.items()}


def _pair(ratio: Ratio) -> list[float]:
    return [float(f"{ratio.amount:.6g}"), float(f"{ratio.of:.6g}")]


def _only(ratios: Ratios, names: Container[str]) -> Ratios:
    return {name: one for name, one in ratios.items() if name in names}


def _values(ratios: Ratios) -> dict[str, float]:
    return {name: one.value for name, one in ratios.items() if one.value}


def _selections(plan: Plan) -> Iterable[tuple[str, Condition, str]]:
    """The selections of all queries, as their pools have them: the stream, the selection and the pool."""
    for chain in plan.chains:
        for position, pool in chain.read_at():
            for member in chain.members:
                if member.conditions[position]:
                    condition = frozenset(map(in_pool, member.conditions[position]))
                    yield chain.streams[position].name, condition, pool


def _steps(measured: Iterable[Measurements]) -> Iterable[tuple[str, int, int]]:
    total: dict[str, tuple[int, int]] = {}
    for one in measured:
        for name, nanoseconds in one.steps.spent.items():
            spent, times = total.get(name, (0, 0))
            total[name] = (spent + nanoseconds, times + one.steps.times[name])
    return ((name, *one) for name, one in total.items())


def _passed(measured: Iterable[Measurements]) -> Iterable[tuple[str, int, int]]:
    total: dict[str, tuple[int, int]] = {}
    for one in measured:
        for (pool, condition), (rows, passed) in one.passed.items():
            name = f"{pool} {condition}"
            known = total.get(name, (0, 0))
            total[name] = (known[0] + rows, known[1] + passed)
    return ((name, *one) for name, one in total.items())
