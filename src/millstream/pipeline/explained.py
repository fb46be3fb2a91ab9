"""The plan of a directory as it runs or ran last, and what has been measured of it; without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.compile import compile_script
from millstream.model.functions import Function
from millstream.pipeline import manifest as manifests
from millstream.pipeline.changes import Changes
from millstream.pipeline.chosen import Chosen
from millstream.pipeline.manifest import Manifest
from millstream.pipeline.measuring import ENOUGH, RunStatistics
from millstream.plan import Plan, costs_of, make_plan
from millstream.plan.explain.measured import Measured, StepCost


@dataclass(frozen=True, slots=True)
class Explained:
    """The plan in use, the one that hints alone would choose, and what was measured."""

    plan: Plan
    hinted: Plan
    measured: Measured


def explain_directory(place: str, functions: Mapping[str, Function] | None = None) -> Explained:
    changes = Changes.of(place, functions)
    files = changes.directory.files
    text = changes.current().text()
    chosen = Chosen.read(files)
    plan = chosen.plan(compile_script(text, functions=functions))
    hinted = make_plan(plan.script, calibration=chosen.base)
    last = manifests.latest(files.below("manifest"))
    known = RunStatistics.from_json(last.statistics if last else {})
    total = sum(one.amount for one in known.steps.values())
    steps = {
        name: StepCost(one.value if one.of >= ENOUGH else None, one.amount / total)
        for name, one in sorted(known.steps.items(), key=lambda step: -step[1].amount)
        if total
    }
    measured = Measured(
        batches=known.batches,
        statistics=known.statistics(plan),
        costs=costs_of(plan.script, known.calibration(chosen.base)),
        arrivals={name: one.value for name, one in known.arrivals.items() if one.value},
        pool_keys=known.keys,
        pool_rows=_pool_rows(last) if last else {},
        steps=steps,
        spent=known.spent.value,
        chooses=bool(chosen.statistics),
        changes=[(one.batch, one.why, one.effect) for one in chosen.changes],
    )
    return Explained(plan, hinted, measured)


def _pool_rows(last: Manifest) -> dict[str, int]:
    found: dict[str, int] = {}
    for slot in last.slots.values():
        for name, pool in slot.shard.pools.items():
            found[name] = found.get(name, 0) + sum(one.rows for one in pool.segments)
    return found
