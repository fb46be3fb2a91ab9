"""From one plan to the next while queries come and go: the splits and merges of state-slice 5.3.

None of these steps moves a row: slices are views on segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from millstream.errors import InternalError
from millstream.model.interval import Interval
from millstream.plan.nodes import Plan, Signature


@dataclass(frozen=True, slots=True)
class Open:
    """A stretch of the axis that no query needed before."""

    interval: Interval


@dataclass(frozen=True, slots=True)
class Split:
    """One slice becomes two at this time difference."""

    at: int


@dataclass(frozen=True, slots=True)
class Merge:
    """The two slices that meet at this time difference become one."""

    at: int


@dataclass(frozen=True, slots=True)
class Close:
    """A slice that no query needs any more."""

    interval: Interval


Step = Open | Split | Merge | Close


def migrate(old: Plan, new: Plan) -> dict[Signature, tuple[Step, ...]]:
    """The steps for every chain that changes, by signature; a chain of one plan only opens or closes whole."""
    before = {chain.signature: [piece.interval for piece in chain.slices] for chain in old.chains}
    after = {chain.signature: [piece.interval for piece in chain.slices] for chain in new.chains}
    steps = {key: chain_steps(before.get(key, []), after.get(key, [])) for key in sorted({*before, *after})}
    return {key: found for key, found in steps.items() if found}


def chain_steps(old: Sequence[Interval], new: Sequence[Interval]) -> tuple[Step, ...]:
    """Open what is new, split where the new chain cuts, merge where it does not, close what is left over."""
    borders = sorted({end for interval in (*old, *new) for end in (interval.lo, interval.hi)})
    stretches = [Interval(lo, hi) for lo, hi in pairwise(borders)]
    opened = [stretch for stretch in stretches if _covered(stretch, new) and not _covered(stretch, old)]
    closed = [stretch for stretch in stretches if _covered(stretch, old) and not _covered(stretch, new)]
    have = {end for interval in (*old, *opened) for end in (interval.lo, interval.hi)}
    want = {end for interval in (*new, *closed) for end in (interval.lo, interval.hi)}
    splits = [Split(at) for at in sorted(want - have)]
    inner = {interval.lo for interval in (*old, *opened, *stretches)} & {i.hi for i in (*old, *opened, *stretches)}
    merges = [Merge(at) for at in sorted(have - want) if at in inner]
    return (*map(Open, opened), *splits, *merges, *map(Close, closed))


def apply(slices: Iterable[Interval], steps: Iterable[Step]) -> list[Interval]:
    """The chain after the steps."""
    chain = sorted(slices)
    for step in steps:
        if isinstance(step, Open):
            chain = sorted([*chain, step.interval])
        elif isinstance(step, Close):
            chain.remove(step.interval)
        elif isinstance(step, Split):
            index = next((i for i, s in enumerate(chain) if s.lo < step.at < s.hi), None)
            if index is None:
                raise InternalError(f"no slice to split at {step.at}")
            chain[index : index + 1] = [Interval(chain[index].lo, step.at), Interval(step.at, chain[index].hi)]
        else:
            index = next((i for i, s in enumerate(chain) if s.hi == step.at), None)
            if index is None or index + 1 == len(chain) or chain[index + 1].lo != step.at:
                raise InternalError(f"no two slices to merge at {step.at}")
            chain[index : index + 2] = [Interval(chain[index].lo, chain[index + 1].hi)]
    return chain


def _covered(stretch: Interval, slices: Sequence[Interval]) -> bool:
    return any(interval.covers(stretch) for interval in slices)
