"""Pass 3: every endpoint of every query cuts the axis. This is the memory-optimal chain of state-slice 5.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from millstream.model.interval import Interval
from millstream.plan.nodes import Chain, Plan, Slice


def cut_slices(plan: Plan) -> Plan:
    return replace(
        plan, chains=tuple(replace(chain, slices=slices_at(chain, endpoints(chain))) for chain in plan.chains)
    )


def endpoints(chain: Chain) -> list[int]:
    """Where queries begin and end."""
    return sorted({end for member in chain.members for end in (member.interval.lo, member.interval.hi)})


def slices_at(chain: Chain, borders: Sequence[int]) -> tuple[Slice, ...]:
    """Slices between neighbouring borders, without those that no query needs."""
    los = np.array([member.interval.lo for member in chain.members], dtype=np.int64)
    his = np.array([member.interval.hi for member in chain.members], dtype=np.int64)
    names = np.array([member.name for member in chain.members], dtype=object)
    ends = np.array(endpoints(chain), dtype=np.int64)
    slices = []
    for lo, hi in pairwise(borders):
        served = names[(los < hi) & (his > lo)]
        if served.size:
            first, last = np.searchsorted(ends, (lo, hi), side="right")[0], np.searchsorted(ends, hi)
            slices.append(Slice(Interval(lo, hi), tuple(served.tolist()), tuple(ends[first:last].tolist())))
    return tuple(slices)
