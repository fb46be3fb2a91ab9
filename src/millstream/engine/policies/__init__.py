"""Who is served first when work piles up. One small file per policy; `POLICIES` is what `SET policy` will know."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.engine.policies.greedy import Greedy
from millstream.engine.policies.largest_window_only import LargestWindowOnly
from millstream.engine.policies.smallest_window_first import SmallestWindowFirst
from millstream.engine.units import Policy

POLICIES: Mapping[str, Policy] = {
    policy.name: policy for policy in (LargestWindowOnly(), SmallestWindowFirst(), Greedy())
}
