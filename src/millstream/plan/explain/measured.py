"""What a pipeline has measured beside what its plan assumes, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from millstream.model.expr import text
from millstream.plan.costs import Costs
from millstream.plan.nodes import Condition, Plan
from millstream.plan.replan import cost_of
from millstream.plan.statistics import Statistics

_SHOWN = 20
ASSUMED_STEPS = {
    "insert": "inserts",
    "append": "appends",
    "scan": "scanned",
    "route": "routed",
    "filter": "filtered",
    "emit": "pairs",
}
"""Measured steps whose price the planner has in the same unit; the others it counts in another way."""
_PER = {
    "insert": "a row put into indexed state",
    "append": "a row put into scanned state",
    "expire": "dropping rows and merging segments",
    "filter": "a predicate on a row",
    "search": "a row that looks up one segment by index",
    "scan": "two rows compared",
    "route": "a pair sent to its queries",
    "emit": "a pair made into rows",
}


@dataclass(frozen=True, slots=True)
class StepCost:
    """Nanoseconds of a step each time it is done (none where it is not counted, or was done too seldom), and its share
    of all time spent.
    """

    nanoseconds: float | None
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a pipeline has measured in so many `batches` with rows. `arrivals` are rows per second of the clock, `spent`
    milliseconds of all steps per second of event time. `chooses` says that the plan in use was chosen by measurements;
    `changes` are the changes of plans, as (batch, reason, effect).
    """

    batches: int
    statistics: Statistics
    costs: Costs
    arrivals: Mapping[str, float] = field(default_factory=dict)
    pool_keys: Mapping[str, float] = field(default_factory=dict)
    pool_rows: Mapping[str, int] = field(default_factory=dict)
    steps: Mapping[str, StepCost] = field(default_factory=dict)
    spent: float | None = None
    chooses: bool = False
    changes: Sequence[tuple[int, str, str]] = ()


def measured_text(plan: Plan, hinted: Plan, found: Measured) -> str:
    """The section of measurements; `plan` is in use, `hinted` is what hints alone would choose."""
    return "\n".join(line.rstrip() for line in _lines(plan, hinted, found))


def _lines(plan: Plan, hinted: Plan, found: Measured) -> Iterator[str]:
    if not found.batches:
        yield "Measured: nothing yet; the plan follows from hints and from rules of thumb."
        return
    by = "by what was measured" if found.chooses else "by hints"
    count = "1 batch" if found.batches == 1 else f"{found.batches:,} batches"
    yield f"Measured in {count} with rows, the last ones counting most; the plan in use was chosen {by}"
    yield ""
    rows = [
        [
            stream.name,
            *_both(hinted.statistics.rate(stream), found.statistics.rates.get(stream.name)),
            _number(found.arrivals.get(stream.name)),
        ]
        for stream in plan.script.streams
    ]
    yield from _table(["Rows per second", "assumed", "measured", "by the clock"], rows)
    rows = [
        [
            pool.title,
            *_both(float(hinted.statistics.keys(pool.stream)), found.pool_keys.get(pool.name)),
            _number(found.pool_rows.get(pool.name)),
        ]
        for pool in plan.pools
        if pool.by
    ]
    yield from _table(["Keys", "assumed", "measured", "rows held"], rows)
    rows = [
        [f"{stream}: {said}", *_both(100 * assumed, None if seen is None else 100 * seen)]
        for stream, said, assumed, seen in _selections(plan, hinted, found)
    ]
    yield from _table(["Rows that pass, in %", "assumed", "measured"], rows)
    rows = [[f"chain {number}", *_both(assumed, seen)] for number, assumed, seen in _joins(plan, hinted, found)]
    yield from _table(["Pairs that match, of a million", "assumed", "measured"], rows)
    rows = [
        [
            f"{step}: {_PER[step]}",
            _number(_assumed_price(hinted, step)),
            _number(cost.nanoseconds),
            f"{100 * cost.share:.0f} %",
        ]
        for step, cost in found.steps.items()
    ]
    yield from _table(["Steps, in ns", "assumed", "measured", "of the time"], rows)
    if plan.costs.name == "calibrated":
        before, now = _estimates(plan, hinted, found)
        spent = "" if found.spent is None else f"; really spent {_number(found.spent)}"
        yield f"  Time of the plan in use, {plan.costs.unit}: estimated from hints {_number(before)},"
        yield f"  from what was measured {_number(now)}{spent}"
        yield ""
    yield from _changes(found.changes)


def _changes(changes: Sequence[tuple[int, str, str]]) -> Iterator[str]:
    if not changes:
        yield "  The plan has not been changed."
        return
    yield "  Changes of the plan"
    for batch, why, effect in changes:
        yield f"    after batch {batch:,}: {why}"
        if effect:
            yield f"      {effect}"


def measured_json(plan: Plan, hinted: Plan, found: Measured) -> dict[str, Any]:
    """The same for machines."""
    before, now = _estimates(plan, hinted, found)
    return {
        "batches": found.batches,
        "chosen_by": "measurements" if found.chooses else "hints",
        "streams": {
            stream.name: {
                "assumed_rate": hinted.statistics.rate(stream),
                "rate": found.statistics.rates.get(stream.name),
                "arrival_rate": found.arrivals.get(stream.name),
            }
            for stream in plan.script.streams
        },
        "pools": [
            {
                "pool": pool.title,
                "assumed_keys": hinted.statistics.keys(pool.stream) if pool.by else None,
                "keys": found.pool_keys.get(pool.name) if pool.by else None,
                "rows": found.pool_rows.get(pool.name, 0),
            }
            for pool in plan.pools
        ],
        "selections": [
            {"stream": stream, "condition": said, "assumed": assumed, "measured": seen}
            for stream, said, assumed, seen in _selections(plan, hinted, found)
        ],
        "chains": [
            {"chain": number, "assumed_per_million": assumed, "measured_per_million": seen}
            for number, assumed, seen in _joins(plan, hinted, found)
        ],
        "steps": {
            step: {"assumed_ns": _assumed_price(hinted, step), **asdict(cost)} for step, cost in found.steps.items()
        },
        "cost": {"unit": plan.costs.unit, "assumed": before, "measured": now, "spent": found.spent},
        "changes": [{"batch": batch, "why": why, "effect": effect} for batch, why, effect in found.changes],
    }


def _estimates(plan: Plan, hinted: Plan, found: Measured) -> tuple[float, float]:
    """What the plan in use costs if hints are right, and by what was measured."""
    return cost_of(plan, hinted.statistics, hinted.costs), cost_of(plan, found.statistics, found.costs)


def _selections(plan: Plan, hinted: Plan, found: Measured) -> Iterator[tuple[str, str, float, float | None]]:
    told = set[tuple[str, Condition]]()
    for chain in plan.chains:
        for member in chain.members:
            for stream, condition in zip(chain.streams, member.conditions, strict=True):
                key = (stream.name, condition)
                if condition and key not in told:
                    told.add(key)
                    said = " AND ".join(sorted(text(one, lambda column: column.name) for one in condition))
                    assumed = hinted.statistics.selectivity(stream, condition)
                    yield stream.name, said, assumed, found.statistics.selection(stream, condition)


def _joins(plan: Plan, hinted: Plan, found: Measured) -> Iterator[tuple[int, float, float | None]]:
    for number, chain in enumerate(plan.chains, 1):
        if chain.is_pairwise:
            left, right = chain.streams
            assumed = hinted.statistics.join_selectivity(left, right, keyed=bool(chain.keys))
            seen = found.statistics.joins.get(chain.signature)
            yield number, 1e6 * assumed, None if seen is None else 1e6 * seen


def _assumed_price(hinted: Plan, step: str) -> float | None:
    if step not in ASSUMED_STEPS or hinted.costs.name != "calibrated":
        return None
    return float(getattr(hinted.costs.prices, ASSUMED_STEPS[step])) * 1e6


def _both(assumed: float, seen: float | None) -> list[str]:
    return [_number(assumed), _number(seen)]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Rows below their headings, the first column on the left; nothing where there are none."""
    found = list(rows)
    if not found:
        return
    shown = found[:_SHOWN]
    widths = [max(len(row[column]) for row in (head, *shown)) for column in range(len(head))]
    for depth, row in enumerate((head, *shown)):
        first, *others = row
        indent = 2 if depth == 0 else 4
        cells = "  ".join(f"{cell:>{max(width, 12)}}" for cell, width in zip(others, widths[1:], strict=True))
        yield f"{'':{indent}}{first:{widths[0] + 4 - indent}}  {cells}"
    if len(found) > len(shown):
        yield f"    and {len(found) - len(shown)} more"
    yield ""
