"""Plans chosen again by statistics that chance has made up: wild ones, so that the plans truly differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
from hypothesis import event

from millstream.plan import Calibration, Plan, Statistics, costs_of
from millstream.plan.replan import differences, replanned
from millstream.plan.statistics import in_pool

DECLARED = 0
"""The seed of a plan that is left as it was declared."""
KINDS = {"slices": "slices,", "access": "is found by", "walks": "in another order"}
"""What may change, and how `differences` words it."""


def measured(plan: Plan, seed: int) -> Plan:
    """The plan chosen again, as after a batch; the same for the same seed."""
    if seed == DECLARED:
        return plan
    chance = np.random.default_rng(seed)
    return replanned(plan, _statistics(plan, chance), costs_of(plan.script, _calibration(chance)))


def changed(before: Plan, after: Plan) -> set[str]:
    """What of `KINDS` differs between two plans of the same queries."""
    told = list(differences(before, after))
    return {kind for kind, words in KINDS.items() if any(words in one for one in told)}


def tell(plans: Iterable[Plan]) -> Counter[str]:
    """Counts what changes from one plan to the next, and tells Hypothesis."""
    found: Counter[str] = Counter()
    for before, after in pairwise(plans):
        if before.script.queries == after.script.queries:
            found.update(changed(before, after))
    for kind in KINDS:
        event(f"changed {kind}: {bool(found[kind])}")
    return found


def _statistics(plan: Plan, chance: np.random.Generator) -> Statistics:
    names = [stream.name for stream in plan.script.streams]
    selections = {
        (chain.streams[position].name, frozenset(map(in_pool, condition))): float(chance.choice([0.0, 1e-3, 0.5, 1.0]))
        for chain in plan.chains
        for member in chain.members
        for position, condition in enumerate(member.conditions)
        if condition and chance.random() < 0.7
    }
    return Statistics(
        rates={name: float(10 ** chance.uniform(-2, 5)) for name in names if chance.random() < 0.9},
        key_counts={name: float(10 ** chance.uniform(0, 6)) for name in names if chance.random() < 0.9},
        joins={one.signature: float(10 ** chance.uniform(-6, 0)) for one in plan.chains if chance.random() < 0.3},
        selections=selections,
    )


def _calibration(chance: np.random.Generator) -> Calibration:
    """Every step up to a hundred times as dear or as cheap. To sort a row stays dearer than to append it: otherwise no
    statistics would choose a scan.
    """
    base = Calibration()
    factors = {one.name: 10 ** chance.uniform(-2, 2) for one in fields(base)}
    factors |= {"index_insert": 10 ** chance.uniform(0, 2), "scan_append": 10 ** chance.uniform(-2, 0)}
    return replace(base, **{name: getattr(base, name) * factor for name, factor in factors.items()})
